// The futex syscall, which the C library does not wrap; see futex.h.
#include "src/common/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/common/os/errno_saver.h"

namespace tracering::os {

FutexWaitOutcome FutexWait(const void* word, uint32_t expected,
                           std::chrono::nanoseconds timeout) noexcept {
  ErrnoSaver saver;
  const auto left = std::max(timeout, std::chrono::nanoseconds::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(seconds.count());
  relative.tv_nsec = static_cast<long>((left - seconds).count());
  if (syscall(SYS_futex, word, FUTEX_WAIT, expected, &relative, nullptr, 0) ==
      0) {
    return FutexWaitOutcome::kWoken;
  }
  switch (errno) {
    case EAGAIN:
      return FutexWaitOutcome::kValueChanged;
    case EINTR:
      return FutexWaitOutcome::kInterrupted;
    case ETIMEDOUT:
      return FutexWaitOutcome::kTimedOut;
    default:
      return FutexWaitOutcome::kUnavailable;
  }
}

void FutexWake(const void* word, int count) noexcept {
  ErrnoSaver saver;
  syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace tracering::os
