// Protobuf tag and varint arithmetic, and the one private rule of the ring's
// encoding: a nested message opens with a start-group tag and closes with the
// single byte 0x04, so that no length is ever patched.
//
// Public only so that field appends can be inlined into the user's code; the
// rewriter uses the same rules. Pure byte rules; writing checks no bounds.
#ifndef TRACERING_INTERNAL_WIRE_FORMAT_H_
#define TRACERING_INTERNAL_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace tracering::internal {

enum class WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

inline constexpr uint32_t kMaxFieldNumber = (uint32_t{1} << 29) - 1;
inline constexpr size_t kMaxTagSize = 5;
inline constexpr size_t kMaxVarintSize = 10;

// Closes the innermost open message: an end-group tag with field number 0.
// Special only where a tag may stand.
inline constexpr uint8_t kCloseMessage = 0x04;

constexpr uint32_t MakeTag(uint32_t field, WireType type) {
  return (field << 3) | static_cast<uint32_t>(type);
}

constexpr size_t VarintSize(uint64_t value) {
  size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

// Writes `value` at `out`, which has room for VarintSize(value) bytes, and
// returns the position behind it.
constexpr uint8_t* WriteVarint(uint8_t* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<uint8_t>(value);
  return out;
}

// Reads the varint at [*position, end) and moves *position behind it. False,
// with nothing changed, if it does not end before `end`, has more than 10
// bytes or does not fit 64 bits. Zeroes that pad it are accepted.
constexpr bool ReadVarint(const uint8_t** position, const uint8_t* end,
                          uint64_t* value) {
  uint64_t result = 0;
  const uint8_t* next = *position;
  for (uint32_t shift = 0; shift < 64 && next != end; shift += 7) {
    const uint8_t byte = *next++;
    // Only the lowest bit of the tenth byte is left.
    if (shift == 63 && byte > 1) return false;
    result |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *value = result;
      *position = next;
      return true;
    }
  }
  return false;
}

constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^
         static_cast<uint64_t>(value >> 63);
}

static_assert(MakeTag(11, WireType::kStartGroup) == 0x5b);
static_assert(MakeTag(0, WireType::kEndGroup) == kCloseMessage);
static_assert(VarintSize(~uint64_t{0}) == kMaxVarintSize);

}  // namespace tracering::internal

#endif  // TRACERING_INTERNAL_WIRE_FORMAT_H_
