// One chunk on its way from the ring reader to the packet assembler: a private
// copy, validated, whose ownership was settled by the reader's CAS.
//
// Plain values that own nothing; what they point to lives until the call that
// they are passed to returns. Nothing in them points into the shared mapping.
#ifndef TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_
#define TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_

#include <cstdint>

#include "src/common/abi/state_word.h"
#include "tracering/data_loss.h"
#include "tracering/ids.h"

namespace tracering::internal {

constexpr bool ContinuesFromPrevious(uint32_t flags) {
  return (flags & abi::kFlagContinuesFromPrevious) != 0;
}
constexpr bool ContinuesOnNext(uint32_t flags) {
  return (flags & abi::kFlagContinuesOnNext) != 0;
}

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
  // If not null, where the whole packets lie instead: see PayloadPlacer.
  const uint8_t* placed = nullptr;
  // One per fragment, in payload order.
  const uint16_t* sizes = nullptr;
  // With kFlagDataLoss: causes whose counters in the ring moved since the
  // ring's previous mark. May be empty, which means a loss of unknown cause.
  LossMask writer_loss = 0;

  bool HasHead() const { return ContinuesFromPrevious(flags); }
  // Whether the last fragment is the first of a packet that continues. One that
  // does both, continue and be continued, is not.
  bool HasTail() const {
    return ContinuesOnNext(flags) && num_fragments > (HasHead() ? 1u : 0u);
  }
  uint32_t HeadSize() const { return HasHead() ? sizes[0] : 0; }
  uint32_t TailSize() const { return HasTail() ? sizes[num_fragments - 1] : 0; }
  // Fragments between the two, each a whole packet.
  uint32_t NumWhole() const {
    return num_fragments - (HasHead() ? 1 : 0) - (HasTail() ? 1 : 0);
  }
  uint32_t WholeSize() const { return payload_size - HeadSize() - TailSize(); }
  const uint8_t* Whole() const {
    return placed != nullptr ? placed : payload + HeadSize();
  }
};

// Knows where the packets of a chunk will be stored, so that they are copied
// there and nowhere else.
class PayloadPlacer {
 public:
  virtual ~PayloadPlacer() = default;

  // Where NumWhole() packets, WholeSize() bytes, go if the chunk is handed over
  // next; null if that is not known, or there is nothing to be gained. The
  // payload of `chunk` is not there yet. The memory is private and free: what
  // is written there is nothing until the chunk is handed over.
  [[nodiscard]] virtual uint8_t* PlaceFor(const ChunkView& chunk) = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_CHUNK_VIEW_H_
