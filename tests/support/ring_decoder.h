// Reads a ring image independently of the product: written from docs/abi.md
// alone and including nothing of src/, so that a fault shared by writer and
// reader cannot hide from the tests of either.
//
// DecodeRing looks at an image that nobody is changing. ReferenceReader is a
// reader for tests of writers that need one to make room; it may race with
// writers and always takes the slow, obvious way (sequentially consistent, one
// position at a time). PacketJoiner puts fragments together per writer.
// Everything that the rules forbid is reported as a violation in words.
#ifndef TRACERING_TESTS_SUPPORT_RING_DECODER_H_
#define TRACERING_TESTS_SUPPORT_RING_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tracering::test {

struct RingShape {
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
};

// What one position delivers.
struct DecodedChunk {
  uint32_t position = 0;
  uint32_t word = 0;
  uint16_t writer = 0;
  uint16_t buffer = 0;
  bool continues_from_previous = false;  // says it of the first fragment
  bool continues_on_next = false;        // says it of the last fragment
  bool data_loss = false;                // before the first fragment
  std::vector<std::string> fragments;
};

struct DecodedRing {
  uint32_t read_pos = 0;
  uint32_t write_pos = 0;
  std::vector<DecodedChunk> chunks;  // positions that carry data, in order
  std::vector<uint32_t> holes;       // positions that carry nothing
  std::vector<std::string> violations;
};

// The outstanding positions of the image at `base`, which stays unchanged. Also
// checks that every chunk without an outstanding position shows a word that may
// stand there.
DecodedRing DecodeRing(const uint8_t* base, RingShape shape);

struct DecodedPacket {
  uint16_t writer = 0;
  uint16_t buffer = 0;
  std::string bytes;         // still group encoded
  size_t num_fragments = 0;  // more than one: it straddled chunks
  bool after_loss = false;   // a chunk said that loss came before this packet
};

class PacketJoiner {
 public:
  // Chunks must come in the order of their positions.
  void Add(const DecodedChunk& chunk);
  void Add(const DecodedRing& ring);

  // In the order in which packets became whole.
  const std::vector<DecodedPacket>& packets() const { return packets_; }
  std::vector<DecodedPacket> PacketsOf(uint16_t writer) const;
  // Whether the writer's last packet has not come to its end.
  bool HasPartial(uint16_t writer) const;
  // Packets whose end never came, as the writer's next chunk showed.
  uint64_t num_broken_off() const { return num_broken_off_; }
  // Packets that began and never ended, the last ones of writers included: the
  // losses that are a reader's to count.
  uint64_t num_unfinished() const;
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct WriterState {
    bool open = false;  // `partial` waits for its continuation
    bool after_loss = false;
    DecodedPacket partial;
  };

  void Violation(const DecodedChunk& chunk, const char* what);

  std::map<uint16_t, WriterState> writers_;
  std::vector<DecodedPacket> packets_;
  uint64_t num_broken_off_ = 0;
  std::vector<std::string> violations_;
};

class ReferenceReader {
 public:
  // `base` must stay mapped. Only one reader per ring, on one thread.
  ReferenceReader(uint8_t* base, RingShape shape);

  // Resolves the positions outstanding at the call, publishes each, and wakes
  // stalled writers. Returns how many positions it resolved. After a violation
  // it never touches the ring again, as a product reader would not.
  size_t Drain();

  const PacketJoiner& joiner() const { return joiner_; }
  uint64_t num_holes() const { return num_holes_; }
  // Chunks taken from under a writer that still held them.
  uint64_t num_rewrites_requested() const { return num_rewrites_; }
  // Its own and those of the joiner.
  std::vector<std::string> violations() const;

 private:
  bool ResolveOne(uint32_t position);

  uint8_t* const base_;
  const RingShape shape_;
  PacketJoiner joiner_;
  uint64_t num_holes_ = 0;
  uint64_t num_rewrites_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_RING_DECODER_H_
