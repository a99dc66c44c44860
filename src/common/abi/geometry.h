// The shape of one ring: how many chunks of which size, and what follows.
//
// Both sides keep a private copy from the handshake and never re-read the one
// in the mapping, which the other side can change at any time. constexpr only.
#ifndef TRACERING_SRC_COMMON_ABI_GEOMETRY_H_
#define TRACERING_SRC_COMMON_ABI_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

#include "src/common/abi/position.h"

namespace tracering::abi {

inline constexpr uint32_t kMinChunkSize = 256;
inline constexpr uint32_t kMaxChunkSize = 32 * 1024;
inline constexpr uint32_t kMinNumChunks = 2;
// num_chunks stays strictly below 2^31 so that a distance is never ambiguous.
inline constexpr uint32_t kMaxNumChunks = uint32_t{1} << 30;
inline constexpr size_t kControlHeaderSize = 256;

constexpr bool IsPowerOfTwo(uint32_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

constexpr uint32_t Log2(uint32_t power_of_two) {
  uint32_t bits = 0;
  while ((power_of_two >> bits) > 1) ++bits;
  return bits;
}

enum class GeometryError {
  kNone,
  kChunkSizeNotPowerOfTwo,
  kChunkSizeOutOfRange,
  kNumChunksNotPowerOfTwo,
  kNumChunksOutOfRange,
};

// The rule that `num_chunks` and `chunk_size` break, or kNone.
constexpr GeometryError CheckGeometry(uint32_t num_chunks,
                                      uint32_t chunk_size) {
  if (!IsPowerOfTwo(chunk_size)) return GeometryError::kChunkSizeNotPowerOfTwo;
  if (chunk_size < kMinChunkSize || chunk_size > kMaxChunkSize) {
    return GeometryError::kChunkSizeOutOfRange;
  }
  if (!IsPowerOfTwo(num_chunks)) return GeometryError::kNumChunksNotPowerOfTwo;
  if (num_chunks < kMinNumChunks || num_chunks > kMaxNumChunks) {
    return GeometryError::kNumChunksOutOfRange;
  }
  return GeometryError::kNone;
}

// The rule in words, for error texts.
constexpr const char* GeometryRule(GeometryError error) {
  switch (error) {
    case GeometryError::kNone:
      return "valid";
    case GeometryError::kChunkSizeNotPowerOfTwo:
      return "chunk_size must be a power of two";
    case GeometryError::kChunkSizeOutOfRange:
      return "chunk_size must be from 256 to 32768 bytes";
    case GeometryError::kNumChunksNotPowerOfTwo:
      return "num_chunks must be a power of two";
    case GeometryError::kNumChunksOutOfRange:
      return "num_chunks must be at least 2 and below 2^31";
  }
  return "unknown rule";
}

// A checked geometry with everything that is derived from it.
class Geometry {
 public:
  // Pre-condition: CheckGeometry(num_chunks, chunk_size) == kNone.
  constexpr Geometry(uint32_t num_chunks, uint32_t chunk_size)
      : num_chunks_(num_chunks),
        chunk_size_(chunk_size),
        chunk_bits_(Log2(num_chunks)),
        // One byte holds any fragment size of a 256-byte chunk (at most 250).
        dir_entry_size_(chunk_size == kMinChunkSize ? 1 : 2) {}

  constexpr uint32_t num_chunks() const { return num_chunks_; }
  constexpr uint32_t chunk_size() const { return chunk_size_; }
  constexpr uint32_t chunk_bits() const { return chunk_bits_; }
  // Width w of one size entry of the directory, fixed for the ring.
  constexpr uint32_t dir_entry_size() const { return dir_entry_size_; }

  constexpr ChunkIndex IndexOf(Position position) const {
    return ChunkIndex(position.value() & (num_chunks_ - 1));
  }
  constexpr WrapCount WrapOf(Position position) const {
    return WrapCount(position.value() >> chunk_bits_);
  }
  // The wrap count under which the chunk of `position` is free next. Computed
  // from the position: incrementing the tag found in the chunk goes wrong
  // where the position rolls over.
  constexpr WrapCount NextWrapOf(Position position) const {
    return WrapOf(Advance(position, num_chunks_));
  }

  constexpr size_t ChunkOffset(ChunkIndex index) const {
    return kControlHeaderSize + size_t{index.value()} * chunk_size_;
  }
  // Size of the whole memfd.
  constexpr size_t RingSize() const {
    return kControlHeaderSize + size_t{num_chunks_} * chunk_size_;
  }

  friend constexpr bool operator==(const Geometry& a, const Geometry& b) {
    return a.num_chunks_ == b.num_chunks_ && a.chunk_size_ == b.chunk_size_;
  }

 private:
  uint32_t num_chunks_;
  uint32_t chunk_size_;
  uint32_t chunk_bits_;
  uint32_t dir_entry_size_;
};

// Reservations after which (chunk_index, wrap_count) repeats:
// min(num_chunks * 2^29, 2^32).
constexpr uint64_t IdentityPeriod(uint32_t num_chunks) {
  const uint64_t by_wrap = uint64_t{num_chunks} << 29;
  const uint64_t by_position = uint64_t{1} << 32;
  return by_wrap < by_position ? by_wrap : by_position;
}

static_assert(kControlHeaderSize == 0x100);
static_assert(IdentityPeriod(2) == uint64_t{1} << 30);
static_assert(IdentityPeriod(4) == uint64_t{1} << 31);
static_assert(IdentityPeriod(8) == uint64_t{1} << 32);
static_assert(Geometry(4, 256).WrapOf(Position(12)) == WrapCount(3));
static_assert(Geometry(16, 256).NextWrapOf(Position(0xffff'fff0)) ==
              WrapCount(0));

}  // namespace tracering::abi

#endif  // TRACERING_SRC_COMMON_ABI_GEOMETRY_H_
