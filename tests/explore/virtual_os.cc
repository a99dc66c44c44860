// The kernel as the explored code sees it: futexes, the eventfd and the clock
// of the explorer in place of src/common/os/{futex,eventfd}.cc and of the C
// library's clock_gettime. The linker takes these definitions, since it looks
// into the archives only for what is missing.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/common/os/eventfd.h"
#include "src/common/os/futex.h"
#include "tests/explore/explorer.h"

namespace tracering::os {

using test::Explorer;

FutexWaitOutcome FutexWait(const void* word, uint32_t expected,
                           std::chrono::nanoseconds timeout) noexcept {
  return Explorer::active()->FutexWait(word, expected, timeout.count())
             ? FutexWaitOutcome::kWoken
             : FutexWaitOutcome::kTimedOut;
}

void FutexWake(const void* word, int count) noexcept {
  Explorer::active()->FutexWake(word, count);
}

void SignalEventFd(int) noexcept { Explorer::active()->Signal(); }

}  // namespace tracering::os

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using tracering::test::Explorer;
  const Explorer* explorer = Explorer::active();
  if (explorer == nullptr) {
    return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  }
  constexpr int64_t kSecond = 1'000'000'000;
  now->tv_sec = explorer->NowNs() / kSecond;
  now->tv_nsec = explorer->NowNs() % kSecond;
  return 0;
}
