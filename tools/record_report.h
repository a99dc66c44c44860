// What a recording tells about itself: a line while it goes on, and an account
// at its end.
//
// Text from counts; no I/O. One thread.
#ifndef TRACERING_TOOLS_RECORD_REPORT_H_
#define TRACERING_TOOLS_RECORD_REPORT_H_

#include <chrono>
#include <string>

#include "tracering/consumer_stats.h"

namespace tracering::tools {

// Turns two looks at the counts into a line with rates.
class Progress {
 public:
  std::string Describe(const ConsumerStats& stats);

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_time_ = start_;
  PacketCounts last_;
};

// "trace.pftrace: 1234 packets, 56.7 KiB", and what is missing, by cause.
std::string DescribeFile(const TraceFileInfo& info);

// The share of its ring that is not taken yet, of the fullest one, from 0 to 1.
double RingOccupancy(const ProducerStats& producer);

// "ring full 12, overwritten 3"; empty where nothing is lost.
std::string DescribeLosses(const LossCounts& lost);

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_RECORD_REPORT_H_
