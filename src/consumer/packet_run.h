// What leaves the packet assembler: whole packets that lie next to each other
// in one chunk travel, and are stored, together as one run. A packet that was
// joined from several chunks is a run of one.
//
// Plain values that own nothing; valid during the call they are passed to.
#ifndef TRACERING_SRC_CONSUMER_PACKET_RUN_H_
#define TRACERING_SRC_CONSUMER_PACKET_RUN_H_

#include <cstdint>

#include "tracering/data_loss.h"
#include "tracering/ids.h"

namespace tracering::internal {

// A number of the consumer's own for one (ring, writer, target buffer): see
// SequenceTable. Never used twice.
using SequenceIndex = uint32_t;

// Set in every mark, so that a mark without a known cause is not zero. It lies
// above all causes, and PerfettoDataLoss() does not look at it.
inline constexpr LossMask kLossMarked = LossMask{1} << 31;
static_assert(kNumLossCauses <= 31);

// The mark of a loss with that cause.
constexpr LossMask MarkOf(LossCause cause) {
  return kLossMarked | MaskOf(cause);
}

// Where the packets of one (writer, target buffer) go. Chosen by the sink.
struct Route {
  // The sink's own number of the target; the assembler only hands it back.
  uint32_t target = 0;
  SequenceIndex sequence = 0;
};

struct PacketRun {
  WriterId writer;
  Route route;
  // Non-zero if packets of this writer are missing right before the first
  // packet of the run: kLossMarked and what is known of the causes.
  LossMask loss = 0;
  uint32_t num_packets = 0;   // at least 1
  uint32_t payload_size = 0;  // sum of the sizes
  const uint8_t* payload = nullptr;
  // One per packet, in payload order. Null for a joined packet, whose size is
  // payload_size and may be above 65535.
  const uint16_t* sizes = nullptr;

  uint32_t SizeOf(uint32_t packet) const {
    return sizes == nullptr ? payload_size : sizes[packet];
  }
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_PACKET_RUN_H_
