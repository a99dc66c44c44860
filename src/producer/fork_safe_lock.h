// A lock for the process-wide state of track events, on cold paths only.
//
// A forked child may find it held by a thread that the child has not got, and
// then takes it over: so whatever it guards is whole at any instant, and what a
// holder was about to do is done or not. A holder waits for nobody and calls
// nothing of the program's. Constant-initialised and trivially destroyed.
#ifndef TRACERING_SRC_PRODUCER_FORK_SAFE_LOCK_H_
#define TRACERING_SRC_PRODUCER_FORK_SAFE_LOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "src/producer/fork_guard.h"

namespace tracering::internal {

class ForkSafeLock {
 public:
  constexpr ForkSafeLock() = default;
  ForkSafeLock(const ForkSafeLock&) = delete;
  ForkSafeLock& operator=(const ForkSafeLock&) = delete;

  // For std::lock_guard.
  void lock() {
    while (!try_lock()) std::this_thread::sleep_for(kPause);
  }
  // Gives up after a moment: also in a signal handler that has interrupted the
  // holder.
  bool try_lock() {
    const uint64_t mine = uint64_t{ForkGuard::Generation()} + 1;
    for (int i = 0; i < kAttempts; ++i) {
      uint64_t holder = kFree;
      if (Take(&holder, mine)) return true;
      // Nobody of this process holds it.
      if (holder != mine && Take(&holder, mine)) return true;
      std::this_thread::yield();
    }
    return false;
  }
  void unlock() { holder_.store(kFree, std::memory_order_release); }

 private:
  static constexpr uint64_t kFree = 0;
  static constexpr int kAttempts = 64;
  // Yielding alone never lets a thread of lower priority go on.
  static constexpr std::chrono::microseconds kPause{50};

  bool Take(uint64_t* expected, uint64_t mine) {
    return holder_.compare_exchange_strong(
        *expected, mine, std::memory_order_acquire, std::memory_order_relaxed);
  }

  // One more than the fork generation of the holder's process.
  std::atomic<uint64_t> holder_{kFree};
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_FORK_SAFE_LOCK_H_
