// Judges each step on a ring: which party may change which word to what, and
// whose the bytes of each chunk are.
//
// A second description of the protocol, from the point of view of somebody who
// sees everything: it keeps its own copy of all chunks and knows who reserved,
// claimed and published what. Bytes that belong to nobody any more are
// overwritten, so that whoever still uses them delivers rubbish. Findings go to
// Explorer::Fail.
#ifndef TRACERING_TESTS_EXPLORE_RING_MONITOR_H_
#define TRACERING_TESTS_EXPLORE_RING_MONITOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/common/ring/ring.h"
#include "tests/explore/explorer.h"

namespace tracering::test {

class RingMonitor {
 public:
  // Parties 0 to num_writers - 1 are writers, with the ids 1 to num_writers;
  // the next one is the reader. `resolving` is the position that the reader is
  // at.
  RingMonitor(const internal::Ring& ring, int num_writers,
              std::function<abi::Position()> resolving);

  // The ring is empty, and an execution begins.
  void Begin();

  // Whether the writer has a reservation, and has not tried to claim it.
  bool HasReserved(int party) const {
    return reserved_[static_cast<size_t>(party)].has_value();
  }

  void BeforeStep(int party);
  // A step on the word at `offset` of the ring.
  void AfterStep(const Step& step, size_t offset);

 private:
  struct Chunk {
    // Of its latest claim.
    abi::Position position;
    uint32_t word = 0;
    std::vector<uint8_t> bytes;
  };
  // Bytes that are published: [kPayloadStart, payload_end) and
  // [directory, chunk_size), and before those the buffer id.
  struct Published {
    uint32_t payload_end;
    uint32_t directory;
  };

  const abi::Geometry& geometry() const { return ring_.geometry(); }
  WriterId IdOf(int party) const {
    return WriterId(static_cast<uint16_t>(party + 1));
  }
  uint8_t* BytesOf(uint32_t index) const {
    return ring_.ChunkBytes(abi::ChunkIndex(index));
  }
  Published PublishedIn(uint32_t index, uint32_t word) const;
  void OnState(const Step& step, uint32_t index);
  void OnClaim(const Step& step, uint32_t index);
  void OnHeldChunk(const Step& step, uint32_t index);
  void OnFreed(const Step& step, uint32_t index);
  void OnWritePos(const Step& step);
  void OnReadPos(const Step& step);
  void OnHeaderWord(const Step& step, size_t offset);
  // Overwrites bytes [begin, end) of a chunk, which are nobody's.
  void Spoil(uint32_t index, uint32_t begin, uint32_t end);
  void Fail(Invariant invariant, const Step& step, const char* what) const;

  const internal::Ring ring_;
  const int reader_;
  const std::function<abi::Position()> resolving_;
  std::vector<Chunk> chunks_;
  // Of each writer: the position that it may claim, once.
  std::vector<std::optional<abi::Position>> reserved_;
  uint32_t read_pos_ = 0;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_RING_MONITOR_H_
