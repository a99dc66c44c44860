// Start, stop and the threads that join; see event_session.h.
#include "src/producer/event_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "src/common/control/messages.h"
#include "src/common/os/no_cancellation.h"
#include "src/producer/category_patterns.h"
#include "src/producer/category_registry.h"
#include "src/producer/containment.h"
#include "src/producer/fork_guard.h"
#include "src/producer/fork_safe_lock.h"
#include "src/producer/producer_options.h"
#include "src/producer/tsc_clock.h"
#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

using Patterns = std::vector<std::string>;

struct Session {
  uint32_t number = 0;
  uint32_t fork_generation = 0;
  std::shared_ptr<Producer> producer;
  std::string buffer;
};

// Constant-initialised and trivially destroyed: events may come before and
// after everything else.
ForkSafeLock session_lock;
// Guarded by session_lock. Null: there is none.
Session* process_session = nullptr;
// The generation of the process that is in Start, plus one.
std::atomic<uint64_t> starting{0};
std::atomic<uint32_t> num_sessions{0};

// Whether the calling thread holds the lock: a signal handler must not wait for
// what it has interrupted.
thread_local bool is_inside = false;

class SessionLock {
 public:
  SessionLock() : lock_(session_lock) { is_inside = true; }
  ~SessionLock() { is_inside = false; }
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;

 private:
  const os::NoCancellation no_cancellation_;
  const std::lock_guard<ForkSafeLock> lock_;
};

uint64_t ThisProcess() { return uint64_t{ForkGuard::Generation()} + 1; }

// That of this process; null in a forked child. With session_lock held.
Session* OwnSession() {
  if (process_session == nullptr ||
      process_session->fork_generation != ForkGuard::Generation()) {
    return nullptr;
  }
  return process_session;
}

absl::Status CheckTracingOptions(const TracingOptions& options) {
  if (absl::Status status = CheckBufferName(options.buffer); !status.ok()) {
    return status;
  }
  if (!options.categories.has_value()) return absl::OkStatus();
  for (const std::string& pattern : *options.categories) {
    if (pattern.empty() || pattern.size() > control::kMaxNameSize) {
      return absl::InvalidArgumentError(fmt::format(
          "pattern '{}' for categories has {} bytes; it must have 1 to {}",
          pattern, pattern.size(), control::kMaxNameSize));
    }
  }
  return absl::OkStatus();
}

// The consumer's word goes to the registry, and to whomever the program named.
void HearOfCategories(ProducerOptions* options, uint32_t number) {
  options->on_categories = [number, user = std::move(options->on_categories)](
                               const std::optional<Patterns>& patterns) {
    if (number == num_sessions.load(std::memory_order_relaxed)) {
      CategoryRegistry::SetConsumers(patterns);
    }
    if (user) user(patterns);
  };
}

absl::Status StartSession(TracingOptions options) {
  auto made = std::make_unique<Session>();
  made->number = 1 + num_sessions.fetch_add(1);
  made->fork_generation = ForkGuard::Generation();
  made->buffer = options.buffer;
  HearOfCategories(&options.producer, made->number);
  const char* const list = std::getenv("TRACERING_CATEGORIES");
  // First, since a consumer may come at once.
  CategoryRegistry::Start(std::move(options.categories),
                          SplitPatterns(list != nullptr ? list : ""));
  absl::StatusOr<std::unique_ptr<Producer>> producer =
      Producer::Create(std::move(options.producer));
  if (!producer.ok()) {
    CategoryRegistry::Stop();
    return producer.status();
  }
  made->producer = *std::move(producer);
  TscClock::Use(options.clock == TraceClock::kTsc);
  const uint32_t number = made->number;
  const SessionLock locked;
  // One of the parent process, with whatever it was doing.
  if (process_session != nullptr) Abandon(process_session);
  process_session = made.release();
  current_session.store(number, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace

std::atomic<uint32_t> current_session{0};

absl::Status EventSession::Start(TracingOptions options) {
  if (absl::Status status = CheckTracingOptions(options); !status.ok()) {
    return status;
  }
  {
    const SessionLock locked;
    if (OwnSession() != nullptr || starting == ThisProcess()) {
      return absl::FailedPreconditionError("tracing has been started already");
    }
    starting = ThisProcess();
  }
  absl::Status status = StartSession(std::move(options));
  starting = 0;
  return status;
}

void EventSession::Stop() {
  std::unique_ptr<Session> mine;
  {
    const SessionLock locked;
    if (OwnSession() == nullptr) return;
    mine.reset(std::exchange(process_session, nullptr));
    current_session.store(0, std::memory_order_relaxed);
  }
  CategoryRegistry::Stop();
  mine->producer.reset();
}

std::shared_ptr<Producer> EventSession::GetProducer() {
  const SessionLock locked;
  const Session* const own = OwnSession();
  return own != nullptr ? own->producer : nullptr;
}

void EventSession::WithProducer(
    const std::function<void(Producer&, uint32_t)>& use) {
  if (is_inside) return;
  const SessionLock locked;
  const Session* const own = OwnSession();
  if (own != nullptr) use(*own->producer, own->number);
}

bool EventSession::Join(EventThread* thread) {
  if (is_inside) return false;
  const SessionLock locked;
  const Session* const own = OwnSession();
  if (own == nullptr) return false;
  TraceWriter& writer = own->producer->ThreadWriter(own->buffer);
  const uint64_t track = thread->name.empty()
                             ? own->producer->ThreadTrack()
                             : own->producer->ThreadTrack(thread->name);
  if (thread->session != own->number) {
    // What began in another session does not end in this one.
    thread->num_open = 0;
    thread->num_too_deep = 0;
  }
  thread->track = track;
  uint8_t* out = thread->prefix;
  out = WriteVarint(out,
                    MakeTag(trace_packet::kTrackEvent, WireType::kStartGroup));
  out = WriteVarint(out, MakeTag(track_event::kTrackUuid, WireType::kVarint));
  out = WriteVarint(out, track);
  thread->prefix_size = static_cast<uint32_t>(out - thread->prefix);
  thread->writer = static_cast<TraceWriterImpl*>(&writer);
  // A writer without an id may find one later.
  thread->session =
      writer.id() != WriterId() ? own->number : EventThread::kNoSession;
  return true;
}

void EventSession::Rename(EventThread* thread) {
  const SessionLock locked;
  const Session* const own = OwnSession();
  if (own != nullptr && thread->session == own->number) {
    own->producer->ThreadTrack(thread->name);
  }
}

}  // namespace tracering::internal

namespace tracering {

using internal::CategoryRegistry;
using internal::EventSession;

absl::Status StartTracing(TracingOptions options) {
  return internal::Contain(
      [&] { return EventSession::Start(std::move(options)); },
      [] { return absl::Status(absl::StatusCode::kResourceExhausted, ""); });
}

void StopTracing() { EventSession::Stop(); }

absl::Status FlushTracing(std::chrono::nanoseconds timeout) {
  const std::shared_ptr<Producer> producer = TracingProducer();
  if (producer == nullptr) {
    return absl::FailedPreconditionError("tracing has not been started");
  }
  return producer->Flush(timeout);
}

std::shared_ptr<Producer> TracingProducer() {
  return EventSession::GetProducer();
}

void SetEnabledCategories(std::vector<std::string> patterns) {
  CategoryRegistry::SetOwn(std::move(patterns));
}

bool CategoryEnabled(std::string_view category) {
  return CategoryRegistry::IsEnabled(category);
}

}  // namespace tracering
