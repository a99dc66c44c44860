// The session that steps_program.cc and its test share: small packets and large
// ones through a ring of a few small chunks.
//
// Constants and values only; any thread.
#ifndef TRACERING_TESTS_INTEGRATION_STEPS_SESSION_H_
#define TRACERING_TESTS_INTEGRATION_STEPS_SESSION_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "tracering/producer.h"

namespace tracering::test {

inline constexpr uint64_t kStepsPackets = 6;
// Of the packet with this index: the third goes through four chunks.
inline std::string StepsText(uint64_t index) {
  return std::string(index == 2 ? 700 : 10 * index, 'x');
}

// At $TRACERING_SOCKET.
inline ProducerOptions StepsProducer() {
  ProducerOptions options;
  options.name = "steps";
  options.ring_size = 4096;
  options.chunk_size = 256;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::seconds(30);
  return options;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_INTEGRATION_STEPS_SESSION_H_
