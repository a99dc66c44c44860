// The futex and the looks; see profile_watch.h.
#include "src/producer/profile_watch.h"

#include <algorithm>
#include <thread>

#include "src/common/os/clock.h"
#include "src/common/os/futex.h"
#include "src/common/os/process.h"

namespace tracering::internal {

void ProfileWatch::Wait(std::chrono::nanoseconds timeout) noexcept {
  // Where a sandbox forbids futexes.
  constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(10);
  const int64_t deadline = os::MonotonicNs() + timeout.count();
  while (woken_.load(std::memory_order_acquire) == 0) {
    const std::chrono::nanoseconds left(deadline - os::MonotonicNs());
    if (left.count() <= 0) return;
    if (os::FutexWait(&woken_, 0, left) == os::FutexWaitOutcome::kUnavailable) {
      std::this_thread::sleep_for(std::min(left, kPause));
    }
  }
  woken_.store(0, std::memory_order_relaxed);
}

void ProfileWatch::Wake() noexcept {
  if (woken_.exchange(1, std::memory_order_release) == 0) {
    os::FutexWake(&woken_, 1);
  }
}

// A number that is not what the kernel says is one that may change for reasons
// of its own; nothing can be told from it.
void ProfileWatch::ExpectThreads(uint64_t number) noexcept {
  const bool comparable = number != 0 && os::NumThreads() == number;
  expected_threads_.store(comparable ? number : 0, std::memory_order_relaxed);
}

void ProfileWatch::Recorded(uint64_t time, size_t words) noexcept {
  words_ += words;
  bool wake = words_ >= wake_words_;
  if (wake) words_ = 0;
  if (time >= next_look_) {
    next_look_ = time + look_period_ns_;
    wake = ThreadsChanged() || wake;
  }
  if (wake) Wake();
}

bool ProfileWatch::ThreadsChanged() noexcept {
  const uint64_t expected = expected_threads_.load(std::memory_order_relaxed);
  if (expected == 0) return false;
  const uint64_t present = os::NumThreads();
  if (present == 0) return false;
  looks_.fetch_add(1, std::memory_order_relaxed);
  return present != expected;
}

}  // namespace tracering::internal
