// CLOCK_BOOTTIME by the processor's time stamp counter: read in half the time,
// and never far from it.
//
// Between two calibrations time goes on along a line. Whoever reads the clock
// when the line is older than the interval calibrates: lock-free, and without
// the kernel. No thread ever sees time go back.
//
// Process-wide, constant-initialised. Any thread, also a signal handler.
#ifndef TRACERING_SRC_PRODUCER_TSC_CLOCK_H_
#define TRACERING_SRC_PRODUCER_TSC_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "tracering/clock.h"

namespace tracering::internal {

class TscClock {
 public:
  // How long a line is used.
  static constexpr uint64_t kIntervalNs = 100'000'000;
  // The first line, whose rate was found in little time, is used for less.
  static constexpr uint64_t kFirstIntervalNs = 10'000'000;

  // Whether this processor counts at a constant rate, also when it sleeps.
  static bool IsAvailable();

  // Whether Now() reads the counter from now on. Without one: no effect. Takes
  // some milliseconds the first time, to find the rate.
  static void Use(bool use);
  static bool InUse() { return in_use_.load(std::memory_order_relaxed); }

  // Nanoseconds of CLOCK_BOOTTIME, from whatever is in use.
  static uint64_t Now() { return InUse() ? Read() : NowNs(); }

  // By the counter, in use or not; after a Use(true) where there is one.
  static uint64_t Read();

  // What time it is at a value of the counter.
  struct Line {
    uint64_t ticks = 0;
    uint64_t ns = 0;           // at `ticks`: true_ns, or ahead of it
    uint64_t true_ns = 0;      // what CLOCK_BOOTTIME was at `ticks`
    uint64_t ns_per_tick = 0;  // by 2^-32: the line's own
    uint64_t true_rate = 0;    // the same, of CLOCK_BOOTTIME
    uint64_t max_ticks = 0;    // how long it is used

    // For up to max_ticks behind `ticks`.
    uint64_t Along(uint64_t elapsed) const {
      return ns + ((elapsed * ns_per_tick) >> 32);
    }
    // What to go on along, from a reading of both clocks: without a step back,
    // and on time at its end.
    Line Next(uint64_t now_ticks, uint64_t now_ns) const;
  };

 private:
  static std::atomic<bool> in_use_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_TSC_CLOCK_H_
