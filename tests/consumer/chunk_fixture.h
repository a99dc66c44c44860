// Chunks and runs for tests of what comes behind the ring reader: built from
// strings, and taken apart into strings again. Views point into their owner,
// which the test keeps alive.
#ifndef TRACERING_TESTS_CONSUMER_CHUNK_FIXTURE_H_
#define TRACERING_TESTS_CONSUMER_CHUNK_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/common/abi/state_word.h"
#include "src/consumer/chunk_view.h"
#include "src/consumer/packet_run.h"

namespace tracering::internal {

inline constexpr uint32_t kPrev = abi::kFlagContinuesFromPrevious;
inline constexpr uint32_t kNext = abi::kFlagContinuesOnNext;
inline constexpr uint32_t kLoss = abi::kFlagDataLoss;

// Owns what a ChunkView points to.
class OwnedChunk {
 public:
  OwnedChunk(uint16_t writer, uint16_t buffer, uint32_t flags,
             const std::vector<std::string>& fragments,
             LossMask writer_loss = 0) {
    for (const std::string& fragment : fragments) {
      payload_ += fragment;
      sizes_.push_back(static_cast<uint16_t>(fragment.size()));
    }
    view_.writer = WriterId(writer);
    view_.buffer = BufferId(buffer);
    view_.flags = flags;
    view_.num_fragments = static_cast<uint32_t>(fragments.size());
    view_.payload_size = static_cast<uint32_t>(payload_.size());
    view_.payload = reinterpret_cast<const uint8_t*>(payload_.data());
    view_.sizes = sizes_.data();
    view_.writer_loss = writer_loss;
  }
  OwnedChunk(const OwnedChunk&) = delete;
  OwnedChunk& operator=(const OwnedChunk&) = delete;

  const ChunkView& view() const { return view_; }

 private:
  std::string payload_;
  std::vector<uint16_t> sizes_;
  ChunkView view_;
};

// Owns what a PacketRun points to.
class OwnedRun {
 public:
  OwnedRun(SequenceIndex sequence, const std::vector<std::string>& packets,
           LossMask loss = 0) {
    for (const std::string& packet : packets) {
      payload_ += packet;
      sizes_.push_back(static_cast<uint16_t>(packet.size()));
    }
    run_.route.sequence = sequence;
    run_.loss = loss;
    run_.num_packets = static_cast<uint32_t>(packets.size());
    run_.payload_size = static_cast<uint32_t>(payload_.size());
    run_.payload = reinterpret_cast<const uint8_t*>(payload_.data());
    // As a joined packet comes, whatever its size.
    run_.sizes = packets.size() == 1 ? nullptr : sizes_.data();
  }
  OwnedRun(const OwnedRun&) = delete;
  OwnedRun& operator=(const OwnedRun&) = delete;

  const PacketRun& run() const { return run_; }

 private:
  std::string payload_;
  std::vector<uint16_t> sizes_;
  PacketRun run_;
};

inline std::string PacketOf(const PacketRun& run, uint32_t packet) {
  const uint8_t* begin = run.payload;
  for (uint32_t i = 0; i < packet; ++i) begin += run.SizeOf(i);
  return std::string(reinterpret_cast<const char*>(begin), run.SizeOf(packet));
}

}  // namespace tracering::internal

#endif  // TRACERING_TESTS_CONSUMER_CHUNK_FIXTURE_H_
