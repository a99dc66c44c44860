// Per-thread lists and their end; see thread_writers.h.
#include "src/producer/thread_writers.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "src/common/os/fork_safe.h"
#include "src/producer/containment.h"
#include "src/producer/fork_guard.h"
#include "src/producer/sampling_threads.h"
#include "src/producer/stack_bounds.h"

namespace tracering::internal {
namespace {

struct WriterEntry {
  ProducerId producer;
  std::string buffer;
  std::unique_ptr<ManagedWriter> writer;
  WriterEntry* next;
};

struct TrackEntry {
  ProducerId producer;
  uint64_t uuid;
  std::shared_ptr<Descriptors> descriptors;
  uint32_t fork_generation;
  TrackEntry* next;
};

struct EndEntry {
  void (*end)(void* object);
  void* object;
  EndEntry* next;
};

struct ThreadState;

// Keeps the state of one thread at a time reachable, also in a forked child
// that has not got the thread: there nobody frees it, and a leak detector
// would report it. Never freed; taken again when the thread has ended.
struct Anchor {
  std::atomic<ThreadState*> state{nullptr};
  Anchor* next = nullptr;  // immutable once it is in the list
};

std::atomic<Anchor*> anchors{nullptr};

struct ThreadState {
  Anchor* anchor = nullptr;
  WriterEntry* writers = nullptr;
  TrackEntry* tracks = nullptr;
  EndEntry* ends = nullptr;
  bool end_was_seen = false;
};

// Trivial types: readable at any time in the life of a thread.
thread_local ThreadState* current = nullptr;
thread_local bool released = false;

// Never destroyed.
std::atomic<ManagedWriter*> shared_nowhere{nullptr};

pthread_key_t end_key;
int end_key_error = 0;

// Lock-free: a fork finds the list whole at any instant.
Anchor* TakeAnchor(ThreadState* state) {
  for (Anchor* anchor = anchors.load(std::memory_order_acquire);
       anchor != nullptr; anchor = anchor->next) {
    ThreadState* expected = nullptr;
    if (anchor->state.compare_exchange_strong(expected, state,
                                              std::memory_order_release,
                                              std::memory_order_relaxed)) {
      return anchor;
    }
  }
  auto* const anchor = new (std::nothrow) Anchor;
  if (anchor == nullptr) return nullptr;
  anchor->state.store(state, std::memory_order_relaxed);
  os::PushFront(&anchors, anchor);
  return anchor;
}

void Destroy(ThreadState* state) {
  for (EndEntry* entry = state->ends; entry != nullptr;) {
    entry->end(entry->object);
    delete std::exchange(entry, entry->next);
  }
  for (TrackEntry* track = state->tracks; track != nullptr;) {
    // In a forked child its lock may be held for ever.
    if (ForkGuard::Generation() == track->fork_generation) {
      track->descriptors->RetireThread(track->uuid);
    }
    delete std::exchange(track, track->next);
  }
  for (WriterEntry* entry = state->writers; entry != nullptr;) {
    delete std::exchange(entry, entry->next);
  }
  // Without one it is only out of a leak detector's sight.
  if (state->anchor != nullptr) {
    state->anchor->state.store(nullptr, std::memory_order_release);
  }
  delete state;
}

void OnThreadEnd(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  // Other keys' destructors may trace: let their first round pass. There are
  // at least four rounds.
  if (!state->end_was_seen) {
    state->end_was_seen = true;
    if (pthread_setspecific(end_key, state) == 0) return;
  }
  current = nullptr;
  released = true;
  Destroy(state);
}

ThreadState* CurrentOrNew() {
  if (current != nullptr || released) return current;
  auto* state = new ThreadState;
  // Without memory for it the thread's end would not be seen.
  if (pthread_setspecific(end_key, state) != 0) {
    delete state;
    return nullptr;
  }
  state->anchor = TakeAnchor(state);
  current = state;
  SamplingThreads::NoteThread();
  NoteStackBounds();
  return state;
}

WriterEntry* FindEntry(ProducerId producer, std::string_view buffer) {
  if (current == nullptr) return nullptr;
  for (WriterEntry* entry = current->writers; entry != nullptr;
       entry = entry->next) {
    if (entry->producer == producer && entry->buffer == buffer) return entry;
  }
  return nullptr;
}

}  // namespace

absl::Status ThreadWriters::Install() {
  static std::once_flag once;
  std::call_once(
      once, [] { end_key_error = pthread_key_create(&end_key, OnThreadEnd); });
  if (end_key_error != 0) {
    return absl::ErrnoToStatus(
        end_key_error,
        fmt::format("cannot create a thread-specific key (at most {})",
                    PTHREAD_KEYS_MAX));
  }
  // While there is memory.
  (void)SharedNowhere();
  return absl::OkStatus();
}

TraceWriter* ThreadWriters::Find(ProducerId producer, std::string_view buffer) {
  WriterEntry* entry = FindEntry(producer, buffer);
  if (entry == nullptr || entry->writer->is_surplus()) return nullptr;
  return &entry->writer->writer();
}

TraceWriter* ThreadWriters::FindAny(ProducerId producer,
                                    std::string_view buffer) {
  WriterEntry* entry = FindEntry(producer, buffer);
  return entry != nullptr ? &entry->writer->writer() : nullptr;
}

std::unique_ptr<ManagedWriter> ThreadWriters::Add(
    ProducerId producer, std::string_view buffer,
    std::unique_ptr<ManagedWriter> writer) {
  // A thread that lives long may see many producers come and go.
  LetGoOfClosed();
  ThreadState* state = CurrentOrNew();
  if (state == nullptr) return writer;
  state->writers = new WriterEntry{producer, std::string(buffer),
                                   std::move(writer), state->writers};
  return nullptr;
}

TraceWriter& ThreadWriters::Nowhere() {
  // Of the thread, if possible: a writer belongs to one.
  constexpr ProducerId kNobody = 0;
  if (TraceWriter* writer = FindAny(kNobody, "")) return *writer;
  const bool added = Contain(
      [] {
        return Add(kNobody, "", std::make_unique<ManagedWriter>()) == nullptr;
      },
      [] { return false; });
  return added ? *FindAny(kNobody, "") : SharedNowhere();
}

TraceWriter& ThreadWriters::SharedNowhere() {
  return os::GetOrMake(&shared_nowhere,
                       [] {
                         auto writer = std::make_unique<ManagedWriter>();
                         // Threads that use it at once change nothing in it.
                         writer->Release();
                         return writer;
                       })
      .writer();
}

bool ThreadWriters::Alive() { return !released; }

uint64_t ThreadWriters::FindTrack(ProducerId producer) {
  if (current == nullptr) return 0;
  for (TrackEntry* track = current->tracks; track != nullptr;
       track = track->next) {
    if (track->producer == producer) return track->uuid;
  }
  return 0;
}

bool ThreadWriters::AddTrack(ProducerId producer, uint64_t uuid,
                             std::shared_ptr<Descriptors> descriptors) {
  ThreadState* state = CurrentOrNew();
  if (state == nullptr) return false;
  state->tracks = new TrackEntry{producer, uuid, std::move(descriptors),
                                 ForkGuard::Generation(), state->tracks};
  return true;
}

bool ThreadWriters::AtThreadEnd(void (*end)(void*), void* object) {
  ThreadState* state = CurrentOrNew();
  if (state == nullptr) return false;
  state->ends = new EndEntry{end, object, state->ends};
  return true;
}

void ThreadWriters::PublishPending(ProducerId producer) {
  if (current == nullptr) return;
  for (WriterEntry* entry = current->writers; entry != nullptr;
       entry = entry->next) {
    if (entry->producer == producer) {
      entry->writer->writer().PublishPending();
    }
  }
}

void ThreadWriters::Release(ProducerId producer) {
  if (current == nullptr) return;
  for (WriterEntry* entry = current->writers; entry != nullptr;
       entry = entry->next) {
    if (entry->producer == producer) entry->writer->Release();
  }
}

void ThreadWriters::LetGoOfClosed() {
  if (current == nullptr) return;
  for (WriterEntry* entry = current->writers; entry != nullptr;
       entry = entry->next) {
    entry->writer->LetGoIfClosed();
  }
}

}  // namespace tracering::internal
