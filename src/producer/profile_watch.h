// What the profiler's background thread sleeps on, and what signal handlers do
// for it meanwhile: they are in a thread that runs anyway, and to look whether
// threads have come or gone costs them less than a wake-up costs.
//
// Each function says on which thread. Lock-free; nothing here allocates.
#ifndef TRACERING_SRC_PRODUCER_PROFILE_WATCH_H_
#define TRACERING_SRC_PRODUCER_PROFILE_WATCH_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tracering::internal {

class ProfileWatch {
 public:
  // Handlers look at most once in `look_period`, and wake the background thread
  // when `wake_words` have been recorded.
  ProfileWatch(std::chrono::nanoseconds look_period, size_t wake_words)
      : look_period_ns_(static_cast<uint64_t>(look_period.count())),
        wake_words_(wake_words) {}

  // The background thread: sleeps until it is woken, at most `timeout`; not at
  // all if that has happened since it last slept. May return earlier.
  void Wait(std::chrono::nanoseconds timeout) noexcept;
  // The background thread: it has found so many threads; 0 if it cannot tell.
  // Handlers compare.
  void ExpectThreads(uint64_t number) noexcept;
  // How often handlers have looked, and could have seen a change.
  uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  // One handler at a time: that many words were recorded at `time`, in ns.
  // Async-signal-safe.
  void Recorded(uint64_t time, size_t words) noexcept;

  // Any thread. Async-signal-safe.
  void Wake() noexcept;

 private:
  // Whether the number of threads is another than was expected.
  bool ThreadsChanged() noexcept;

  const uint64_t look_period_ns_;
  const size_t wake_words_;

  std::atomic<uint32_t> woken_{0};  // a futex
  std::atomic<uint64_t> expected_threads_{0};
  std::atomic<uint64_t> looks_{0};
  // Of the one handler.
  uint64_t next_look_ = 0;
  size_t words_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PROFILE_WATCH_H_
