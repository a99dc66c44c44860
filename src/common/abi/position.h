// Logical positions and how they map onto physical chunks.
//
// A position is a ticket: it names one reservation, not a byte or a chunk. The
// low chunk_bits bits select the physical chunk, the rest count how often the
// ring has gone round; 29 bits of that count fit into a free state word.
//
//    31                        chunk_bits             0
//   +---------------------------+----------------------+
//   |  wrap count (low 29 used) |     chunk index      |
//   +---------------------------+----------------------+
//
// constexpr arithmetic only. Positions are compared by unsigned distance and
// never with `<`: both cursors wrap at 2^32.
#ifndef TRACERING_SRC_COMMON_ABI_POSITION_H_
#define TRACERING_SRC_COMMON_ABI_POSITION_H_

#include <cstdint>

namespace tracering::abi {

class Position {
 public:
  constexpr Position() = default;
  constexpr explicit Position(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  constexpr Position Next() const { return Position(value_ + 1); }
  friend constexpr bool operator==(Position a, Position b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(Position a, Position b) { return !(a == b); }

 private:
  uint32_t value_ = 0;
};

class ChunkIndex {
 public:
  constexpr ChunkIndex() = default;
  constexpr explicit ChunkIndex(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr bool operator==(ChunkIndex a, ChunkIndex b) {
    return a.value_ == b.value_;
  }

 private:
  uint32_t value_ = 0;
};

inline constexpr uint32_t kWrapCountMask = 0x1fff'ffff;

class WrapCount {
 public:
  constexpr WrapCount() = default;
  constexpr explicit WrapCount(uint32_t value)
      : value_(value & kWrapCountMask) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr bool operator==(WrapCount a, WrapCount b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(WrapCount a, WrapCount b) {
    return !(a == b);
  }

 private:
  uint32_t value_ = 0;
};

// Positions from `from` up to but excluding `to`, across the 2^32 roll-over.
// Unambiguous because num_chunks, and so every live distance, is below 2^31.
constexpr uint32_t Distance(Position from, Position to) {
  return to.value() - from.value();
}

constexpr Position Advance(Position position, uint32_t count) {
  return Position(position.value() + count);
}

}  // namespace tracering::abi

#endif  // TRACERING_SRC_COMMON_ABI_POSITION_H_
