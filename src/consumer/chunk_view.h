// One chunk on its way from the ring reader to the packet assembler: a private
// copy, validated, whose ownership was settled by the reader's CAS.
//
// A plain value that owns nothing; what it points to lives until the call that
// it is passed to returns. Nothing in it points into the shared mapping.
#ifndef TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_
#define TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_

#include <cstdint>

#include "tracering/data_loss.h"
#include "tracering/ids.h"

namespace tracering::internal {

struct ChunkView {
  WriterId writer;
  BufferId buffer;
  // Any combination of abi::kFlagContinuesFromPrevious, kFlagContinuesOnNext
  // and kFlagDataLoss; other bits are ignored.
  uint32_t flags = 0;
  // 1..255. A view without fragments carries nothing and is ignored.
  uint32_t num_fragments = 0;
  // Exactly the sum of the sizes; the fragments lie there without gaps.
  uint32_t payload_size = 0;
  const uint8_t* payload = nullptr;
  // One per fragment, in payload order.
  const uint16_t* sizes = nullptr;
  // With kFlagDataLoss: causes whose counters in the ring moved since the
  // ring's previous mark. May be empty, which means a loss of unknown cause.
  LossMask writer_loss = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_
