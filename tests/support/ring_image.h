// A ring's memory, built and altered by a test: the seam through which tests
// reach states that production code has no setter for.
//
// The image starts as a legal empty ring at any cursor, so that the roll-overs
// of positions (2^32) and wrap counts (2^29) are a few steps away. Words are
// accessed atomically and may be read while product code runs on the image;
// bytes may not. Setters obey no protocol: that is what they are for.
#ifndef TRACERING_TESTS_SUPPORT_RING_IMAGE_H_
#define TRACERING_TESTS_SUPPORT_RING_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/common/abi/geometry.h"
#include "src/common/abi/state_word.h"

namespace tracering::test {

struct RingImageOptions {
  uint32_t num_chunks = 4;
  uint32_t chunk_size = 256;
  // Both cursors start here, with free tags to match.
  uint32_t position = 0;
  // Writes magic, version, geometry and this process's id into the header.
  bool with_identity = true;
};

// Bytes of one chunk that a test forges whole.
struct ForgedChunk {
  uint16_t writer = 1;
  uint16_t buffer = 1;
  uint32_t flags = 0;  // any of abi::kFlag...
  std::vector<std::string> fragments;
};

class RingImage {
 public:
  // In anonymous private memory.
  static RingImage InPlainMemory(const RingImageOptions& options);
  // In a memfd of exactly the ring's size, pre-allocated and sealed against
  // shrinking, growing and further seals. `seals` replaces that set.
  static RingImage InMemfd(const RingImageOptions& options);
  static RingImage InMemfd(const RingImageOptions& options, int seals);

  RingImage(RingImage&& other) noexcept;
  RingImage& operator=(RingImage&&) = delete;
  ~RingImage();

  const abi::Geometry& geometry() const { return geometry_; }
  uint8_t* base() const { return base_; }
  size_t size() const { return geometry_.RingSize(); }
  // The memfd, owned by the image; -1 in plain memory.
  int fd() const { return fd_; }
  // A descriptor of the caller's own, close-on-exec.
  int DupFd() const;

  // Sets both cursors and gives every chunk the free tag of the position that
  // maps to it next. With `write_position` ahead of `read_position` the
  // positions between are reserved and not yet claimed.
  void Seed(uint32_t read_position, uint32_t write_position);

  uint32_t read_pos() const;
  uint32_t write_pos() const;
  void set_read_pos(uint32_t value);
  void set_write_pos(uint32_t value);

  uint32_t state_word(uint32_t chunk_index) const;
  void set_state_word(uint32_t chunk_index, uint32_t word);

  // Words by their offset in the control header.
  uint32_t Word32(size_t offset) const;
  void SetWord32(size_t offset, uint32_t value);
  uint64_t Word64(size_t offset) const;
  void SetWord64(size_t offset, uint64_t value);

  // Sum of the writers' loss counters in the header.
  uint64_t WriterLoss() const;

  uint8_t* chunk(uint32_t chunk_index) const;

  // Writes header, payloads and directory of `forged` into the chunk and then
  // the state word, whatever stood there before. Aborts if they do not fit.
  void PutChunk(uint32_t chunk_index, abi::State state,
                const ForgedChunk& forged);
  // Puts `forged` as a Complete chunk at the next position and then reserves
  // that, so that a single writer may use it beside a running reader. Returns
  // the position.
  uint32_t Publish(const ForgedChunk& forged);

  // All bytes of the image. No writer or reader may be running.
  std::string Snapshot() const;

 private:
  RingImage(const RingImageOptions& options, uint8_t* base, int fd);

  abi::Geometry geometry_;
  uint8_t* base_;
  int fd_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_RING_IMAGE_H_
