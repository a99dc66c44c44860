// Waiting on a word of shared memory. Shared futexes, never _PRIVATE: waiter
// and waker are different processes.
//
// The kernel reads the word; callers load and store it through SharedWord.
// Everything here keeps errno and is async-signal-safe.
#ifndef TRACERING_SRC_COMMON_OS_FUTEX_H_
#define TRACERING_SRC_COMMON_OS_FUTEX_H_

#include <chrono>
#include <cstdint>

namespace tracering::os {

// All of these mean: look at the word again. Only kUnavailable also means that
// waiting on it does not work here (a seccomp filter, for instance), so that
// the caller must sleep in some other way.
enum class FutexWaitOutcome {
  kWoken,
  kValueChanged,  // EAGAIN: the word was not `expected`
  kInterrupted,   // EINTR
  kTimedOut,      // ETIMEDOUT
  kUnavailable,   // any other errno
};

// Sleeps until a FutexWake on `word` (4-byte aligned), at most `timeout` (a
// negative one counts as 0), unless *word differs from `expected`. May wake
// for no reason.
[[nodiscard]] FutexWaitOutcome FutexWait(
    const void* word, uint32_t expected,
    std::chrono::nanoseconds timeout) noexcept;

// Wakes up to `count` waiters on `word`, in any process.
void FutexWake(const void* word, int count) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_FUTEX_H_
