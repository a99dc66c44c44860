// Tracks for what belongs to no thread: counters, and work that goes from
// thread to thread.
//
// Objects are cheap where tracing is off: a track is made known to the trace by
// its first event, which takes a lock and allocates. Any thread; also static
// objects, before and after tracing.
#ifndef TRACERING_EVENT_TRACKS_H_
#define TRACERING_EVENT_TRACKS_H_

#ifdef TRACERING_DISABLE
#include "tracering/export.h"
#include "tracering/internal/track_event_disabled.h"
#else

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tracering/counter_unit.h"
#include "tracering/internal/event_packet.h"

namespace tracering {

namespace internal {

struct CounterTrack;
// The one with that name and unit, which is never freed. Null without memory,
// and beyond 4096 names: it counts into nothing.
TRACERING_EXPORT CounterTrack* FindOrAddCounter(
    std::string_view name, CounterUnit unit,
    std::string_view unit_name) noexcept;
TRACERING_EXPORT void WriteCounter(EventSite& site, CounterTrack* counter,
                                   int64_t value) noexcept;
TRACERING_EXPORT void WriteCounter(EventSite& site, CounterTrack* counter,
                                   double value) noexcept;

template <typename T>
void WriteCounterValue(EventSite& site, CounterTrack* counter, T value) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>,
                "the value of a counter is an integral or floating number");
  if constexpr (std::is_floating_point_v<T>) {
    WriteCounter(site, counter, static_cast<double>(value));
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(int64_t)) {
    constexpr uint64_t kMax = INT64_MAX;
    WriteCounter(site, counter,
                 static_cast<int64_t>(value < kMax ? value : kMax));
  } else {
    WriteCounter(site, counter, static_cast<int64_t>(value));
  }
}

}  // namespace internal

// A counter of the process, by its name: two of the same name and unit are the
// same. Copied at will. Names are kept for ever; texts are cut at 1024 bytes.
class Counter {
 public:
  explicit Counter(std::string_view name,
                   CounterUnit unit = CounterUnit::kUnspecified)
      : track_(internal::FindOrAddCounter(name, unit, {})) {}
  // With a unit in words, such as "requests".
  Counter(std::string_view name, std::string_view unit_name)
      : track_(internal::FindOrAddCounter(name, CounterUnit::kUnspecified,
                                          unit_name)) {}

  internal::CounterTrack* track() const { return track_; }

 private:
  internal::CounterTrack* track_;
};

// Slices and instants of one piece of work, whichever threads take part in it.
// Slices of one track nest. Its end ends those that are open.
class TRACERING_EXPORT AsyncTrack {
 public:
  explicit AsyncTrack(std::string_view name) : name_(name) {}
  // Below another track, which outlives it.
  AsyncTrack(std::string_view name, AsyncTrack& parent)
      : name_(name), parent_(&parent) {}
  ~AsyncTrack();
  AsyncTrack(const AsyncTrack&) = delete;
  AsyncTrack& operator=(const AsyncTrack&) = delete;

  // The uuid that events and descriptors carry, in the present session. 0: it
  // cannot be made known now.
  uint64_t uuid() noexcept;

  // --- For the macros ---

  // Whether to write the begin of a slice, which will have to be ended.
  bool NoteBegin() noexcept;
  // Whether a slice is open, which is to be ended now.
  bool NoteEnd() noexcept {
    return open_.load(std::memory_order_relaxed) != 0 && TakeOpen();
  }

 private:
  bool TakeOpen() noexcept;

  const std::string name_;
  AsyncTrack* const parent_ = nullptr;
  // Which tracing session uuid_ is of.
  std::atomic<uint32_t> session_{0};
  std::atomic<uint64_t> uuid_{0};
  // The session (upper half) and number of open slices; 0 if there are none.
  std::atomic<uint64_t> open_{0};
};

}  // namespace tracering

#endif  // TRACERING_DISABLE

#endif  // TRACERING_EVENT_TRACKS_H_
