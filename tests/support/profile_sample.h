// A PerfSample packet with its interned ids looked up.
//
// By protobuf's own classes; knows nothing of the profiler. Any thread.
#ifndef TRACERING_TESTS_SUPPORT_PROFILE_SAMPLE_H_
#define TRACERING_TESTS_SUPPORT_PROFILE_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/trace.pb.h"

namespace tracering::test {

struct ProfileSample {
  struct Frame {
    std::string function;  // empty: not known
    std::string module;
  };

  // Whether a function's name begins so.
  bool Has(const std::string& function) const;
  // Empty: none.
  std::string label() const;

  uint32_t tid = 0;
  uint64_t timestamp = 0;
  bool truncated = false;
  uint64_t lost = 0;          // others that are missing; then it has no frames
  std::vector<Frame> frames;  // root first, a label before the root
};

// For gtest's messages.
std::string ToString(const ProfileSample& sample);

// Everything that the packet refers to must be in it, with ids that are not 0
// and not used twice, and names that are not empty; throws
// std::invalid_argument otherwise, which fails the test.
ProfileSample DecodeSample(const TracePacket& packet);

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_PROFILE_SAMPLE_H_
