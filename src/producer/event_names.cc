// What has a name for the life of the process: counters and categories made at
// run time; and tracks, which a session must be told of. See
// tracering/event_tracks.h.
//
// Lists only grow, so that they are read without a lock, and a fork finds them
// whole at any instant.
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "src/common/os/errno_saver.h"
#include "src/common/os/fork_safe.h"
#include "src/common/os/no_cancellation.h"
#include "src/producer/category_registry.h"
#include "src/producer/containment.h"
#include "src/producer/descriptors.h"
#include "src/producer/event_session.h"
#include "src/producer/fork_guard.h"
#include "src/producer/fork_safe_lock.h"
#include "src/producer/mix.h"
#include "tracering/clock.h"
#include "tracering/internal/event_packet.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/internal/track_event_enabled.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {

// A track that is made known to each session by its first event there.
struct CounterTrack {
  std::string name;
  CounterUnit unit = CounterUnit::kUnspecified;
  std::string unit_name;
  std::atomic<uint32_t> session{0};
  std::atomic<uint64_t> uuid{0};
  CounterTrack* next = nullptr;
};

namespace {

// Names that a program makes without end must not eat its memory.
constexpr size_t kMaxNames = 4096;

struct NamedCategory {
  explicit NamedCategory(std::string_view text)
      : name(text), sites(name.c_str()) {}

  const std::string name;
  CategorySites sites;
  NamedCategory* next = nullptr;
};

std::atomic<CounterTrack*> counters{nullptr};
std::atomic<NamedCategory*> categories{nullptr};
std::atomic<size_t> num_names{0};
// Held to add a name, so that none is there twice.
ForkSafeLock names_lock;

// Stands for categories that there is no room or no memory for: one without a
// name.
CategorySites no_category("");

template <typename Node, typename Is>
Node* Find(const std::atomic<Node*>& list, const Is& is) {
  for (Node* node = list.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (is(*node)) return node;
  }
  return nullptr;
}

// Null if there is no room for another name.
template <typename Node, typename Is, typename Make>
Node* FindOrMake(std::atomic<Node*>* list, const Is& is, const Make& make) {
  if (Node* node = Find(*list, is)) return node;
  std::unique_ptr<Node> made = make();
  const os::NoCancellation no_cancellation;
  const std::lock_guard<ForkSafeLock> lock(names_lock);
  if (Node* node = Find(*list, is)) return node;
  if (num_names.fetch_add(1, std::memory_order_relaxed) >= kMaxNames) {
    num_names.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  os::PushFront(list, made.get());
  return made.release();
}

// Sites of the library's own, which is never unloaded before its users.
SiteGroup* OwnGroup() {
  static std::atomic<SiteGroup*> own{nullptr};
  SiteGroup* group = own.load(std::memory_order_acquire);
  if (group != nullptr) return group;
  SiteGroup* const made = AddSiteGroup();
  if (made == nullptr) return nullptr;
  if (own.compare_exchange_strong(group, made)) return made;
  RemoveSiteGroup(made);
  return group;
}

// The uuid of a track in the present session, in which `add` makes it known if
// that has not been done. 0 if there is no session.
template <typename Add>
TrackUuid Known(std::atomic<uint32_t>* session, std::atomic<uint64_t>* uuid,
                const Add& add) {
  const uint32_t now = current_session.load(std::memory_order_acquire);
  if (now == 0) return 0;
  if (session->load(std::memory_order_acquire) == now) {
    return uuid->load(std::memory_order_relaxed);
  }
  const os::ErrnoSaver errno_saver;
  return Contain(
      [&]() -> TrackUuid {
        TrackUuid found = 0;
        EventSession::WithProducer([&](Producer& producer, uint32_t number) {
          if (session->load(std::memory_order_relaxed) != number) {
            uuid->store(add(producer), std::memory_order_relaxed);
            session->store(number, std::memory_order_release);
          }
          found = uuid->load(std::memory_order_relaxed);
        });
        return found;
      },
      []() -> TrackUuid { return 0; });
}

TrackUuid UuidOf(CounterTrack* counter) {
  return Known(&counter->session, &counter->uuid, [&](Producer& producer) {
    return counter->unit_name.empty()
               ? producer.AddCounterTrack(counter->name, counter->unit)
               : producer.AddCounterTrack(counter->name, counter->unit_name);
  });
}

template <typename Append>
void WriteCounterEvent(EventSite& site, CounterTrack* counter,
                       const Append& append) {
  const TrackUuid track = UuidOf(counter);
  if (track == 0) return;
  const OpenEvent open =
      OpenNamedEvent(site, track_event::kTypeCounter, track, nullptr, 0);
  PacketEncoder encoder(open.writer, open.cur, open.end, kEventDepth);
  append(encoder);
  FinishEvent(encoder.writer(), encoder.cur(), encoder.end());
}

}  // namespace

CategorySites* FindOrAddCategory(std::string_view name) noexcept {
  // Patterns are matched against the whole of it with a lock held.
  name = name.substr(0, kMaxNameBytes);
  return Contain(
      [&]() -> CategorySites* {
        const auto is = [&](const NamedCategory& i) { return i.name == name; };
        NamedCategory* const found = FindOrMake(&categories, is, [&] {
          return std::make_unique<NamedCategory>(name);
        });
        CategorySites* const sites =
            found != nullptr ? &found->sites : &no_category;
        // Before the module that asks claims them, which may be unloaded.
        (void)ResolveSite(&sites->events, OwnGroup());
        (void)ResolveSite(&sites->ends, OwnGroup());
        return sites;
      },
      [] { return &no_category; });
}

CounterTrack* FindOrAddCounter(std::string_view name, CounterUnit unit,
                               std::string_view unit_name) noexcept {
  name = name.substr(0, kMaxNameBytes);
  unit_name = unit_name.substr(0, kMaxNameBytes);
  return Contain(
      [&]() -> CounterTrack* {
        const auto is = [&](const CounterTrack& i) {
          return i.name == name && i.unit == unit && i.unit_name == unit_name;
        };
        return FindOrMake(&counters, is, [&] {
          auto made = std::make_unique<CounterTrack>();
          made->name = std::string(name);
          made->unit = unit;
          made->unit_name = std::string(unit_name);
          return made;
        });
      },
      []() -> CounterTrack* { return nullptr; });
}

void WriteCounter(EventSite& site, CounterTrack* counter,
                  int64_t value) noexcept {
  if (counter == nullptr) return;
  WriteCounterEvent(site, counter, [value](PacketEncoder& encoder) {
    encoder.AppendVarint(track_event::kCounterValue,
                         static_cast<uint64_t>(value));
  });
}

void WriteCounter(EventSite& site, CounterTrack* counter,
                  double value) noexcept {
  if (counter == nullptr) return;
  WriteCounterEvent(site, counter, [value](PacketEncoder& encoder) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    encoder.AppendFixed64(track_event::kDoubleCounterValue, bits);
  });
}

uint64_t LocalFlowId(uint64_t id) noexcept {
  // The process by its fork generation (upper half), and a number of its own.
  static std::atomic<uint64_t> process{0};
  const uint64_t mine = uint64_t{ForkGuard::Generation()} + 1;
  uint64_t seed = process.load(std::memory_order_relaxed);
  if (seed >> 32 != mine) {
    const uint64_t number =
        Mix(NowNs() ^ (static_cast<uint64_t>(getpid()) << 32)) >> 32;
    const uint64_t made = mine << 32 | number;
    // Somebody else may have been quicker.
    if (process.compare_exchange_strong(seed, made)) seed = made;
  }
  return Mix(Mix(seed) + id);
}

}  // namespace tracering::internal

namespace tracering {

uint64_t AsyncTrack::uuid() noexcept {
  const uint64_t parent = parent_ != nullptr ? parent_->uuid() : 0;
  return internal::Known(&session_, &uuid_, [&](Producer& producer) {
    return producer.AddTrack(name_, parent);
  });
}

bool AsyncTrack::NoteBegin() noexcept {
  const uint64_t session =
      internal::current_session.load(std::memory_order_relaxed);
  if (session == 0) return false;
  uint64_t open = open_.load(std::memory_order_relaxed);
  for (;;) {
    // What began in another session does not end in this one.
    const uint64_t next =
        open >> 32 == session ? open + 1 : (session << 32) + 1;
    if (open_.compare_exchange_weak(open, next, std::memory_order_relaxed)) {
      return true;
    }
  }
}

bool AsyncTrack::TakeOpen() noexcept {
  const uint64_t session =
      internal::current_session.load(std::memory_order_relaxed);
  uint64_t open = open_.load(std::memory_order_relaxed);
  for (;;) {
    if (open == 0) return false;
    const bool ours = open >> 32 == session;
    const uint64_t next = ours && (open & UINT32_MAX) > 1 ? open - 1 : 0;
    if (open_.compare_exchange_weak(open, next, std::memory_order_relaxed)) {
      return ours;
    }
  }
}

AsyncTrack::~AsyncTrack() {
  while (NoteEnd()) internal::EndAsync(*this);
  const uint32_t session = session_.load(std::memory_order_acquire);
  if (session == 0) return;
  const uint64_t uuid = uuid_.load(std::memory_order_relaxed);
  internal::Contain(
      [&] {
        internal::EventSession::WithProducer(
            [&](Producer& producer, uint32_t number) {
              if (number == session) producer.RemoveTrack(uuid);
            });
      },
      [] {});
}

}  // namespace tracering
