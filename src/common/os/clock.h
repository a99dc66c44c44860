// Reading clocks, in nanoseconds; signed, so that what is left until a
// deadline is a plain subtraction. Async-signal-safe, a vDSO call without a
// syscall where the clock allows it.
#ifndef TRACERING_SRC_COMMON_OS_CLOCK_H_
#define TRACERING_SRC_COMMON_OS_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace tracering::os {

// The time of `clock` since its epoch; 0 if the kernel does not know it.
inline int64_t NowNs(clockid_t clock) noexcept {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Runs on while the machine sleeps: the default clock of timestamps.
inline int64_t BoottimeNs() noexcept { return NowNs(CLOCK_BOOTTIME); }

// Stands still while the machine sleeps: for time-outs.
inline int64_t MonotonicNs() noexcept { return NowNs(CLOCK_MONOTONIC); }

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_CLOCK_H_
