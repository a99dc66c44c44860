// When the profiler's background thread wakes up next: soon after threads have
// come or gone, rarely in a program whose threads stay the same, as a wake-up
// costs more than what is done then.
//
// Of one thread. Knows nothing of clocks.
#ifndef TRACERING_SRC_PRODUCER_SCAN_SCHEDULE_H_
#define TRACERING_SRC_PRODUCER_SCAN_SCHEDULE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tracering::internal {

class ScanSchedule {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // What is not settled is looked at after 4 periods at most.
  static constexpr int kCalmPeriods = 4;
  // What has not changed for so many periods is settled, and looked at after
  // 20 at most, or a second, whichever is less.
  static constexpr int kPeriodsToSettle = 100;
  static constexpr int kSettledPeriods = 20;
  static constexpr Milliseconds kMaxSettledPeriod{1000};

  // `max_samples` may be taken in a settled program between two looks.
  ScanSchedule(Milliseconds scan_period, uint32_t frequency_hz,
               uint64_t max_samples)
      : scan_period_(scan_period),
        frequency_hz_(frequency_hz),
        max_samples_(max_samples),
        next_(scan_period) {}

  // Until the next look.
  Milliseconds next() const { return next_; }

  // A look has found that threads have come or gone, or that there is much to
  // be written; or else `busiest` threads, which is how many can run at once.
  void OnChange() {
    next_ = scan_period_;
    calm_ = Milliseconds(0);
  }
  void OnCalm(uint64_t busiest) {
    calm_ += next_;
    const bool settled = calm_ >= kPeriodsToSettle * scan_period_;
    next_ = std::min(2 * next_, settled ? Settled(busiest) : Calm());
  }

 private:
  Milliseconds Calm() const { return kCalmPeriods * scan_period_; }
  Milliseconds Settled(uint64_t busiest) const {
    const uint64_t samples_a_second =
        std::max<uint64_t>(busiest, 1) * frequency_hz_;
    const auto room = std::min<uint64_t>(1000 * max_samples_ / samples_a_second,
                                         kMaxSettledPeriod.count());
    return std::max(
        Calm(), std::min(kSettledPeriods * scan_period_, Milliseconds(room)));
  }

  const Milliseconds scan_period_;
  const uint32_t frequency_hz_;
  const uint64_t max_samples_;
  Milliseconds next_;
  Milliseconds calm_{0};
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_SCAN_SCHEDULE_H_
