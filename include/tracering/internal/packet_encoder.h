// Appends protobuf fields to the open fragment of a writer, in place.
//
// The range [cur, end) is a piece of a ring chunk, or of the writer's private
// sink once the packet is lost. Each append makes one bounds check; where a
// field does not fit, the cold path splits it over chunks. Nested messages use
// start-group tags and the single closing byte (wire_format.h), so nothing is
// ever patched.
//
// What leaves the inlined code is passed by value, or through a copy of its
// own. The encoder's address thus never escapes, and a packet that its function
// does not hand on lives in registers.
//
// Belongs to the thread of its writer. No allocation, no lock, no syscall here;
// the writer's cold path may wait or signal.
#ifndef TRACERING_INTERNAL_PACKET_ENCODER_H_
#define TRACERING_INTERNAL_PACKET_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracering/export.h"
#include "tracering/internal/wire_format.h"

namespace tracering {

class TraceWriter;

namespace internal {

// What a packet asks of its writer. The open fragment may be written from the
// returned cursor up to *end. Both are null for a packet that goes nowhere:
// there is never room in it, and the cold paths swallow what comes.
TRACERING_EXPORT uint8_t* OpenPacket(TraceWriter* writer,
                                     uint8_t** end) noexcept;
// `cur` is the end of what was written.
TRACERING_EXPORT void ClosePacket(TraceWriter* writer, uint8_t* cur) noexcept;
[[gnu::cold]] TRACERING_EXPORT void DiscardPacket(TraceWriter* writer,
                                                  uint8_t* cur) noexcept;

// Appends that may find no room in [cur, *end). They continue in another chunk
// where they must, return where the packet goes on and set *end to match.
[[gnu::cold]] TRACERING_EXPORT uint8_t* AppendVarintSlow(
    TraceWriter* writer, uint8_t* cur, uint8_t** end, uint32_t field,
    uint64_t value) noexcept;
[[gnu::cold]] TRACERING_EXPORT uint8_t* AppendFixed32Slow(
    TraceWriter* writer, uint8_t* cur, uint8_t** end, uint32_t field,
    uint32_t value) noexcept;
[[gnu::cold]] TRACERING_EXPORT uint8_t* AppendFixed64Slow(
    TraceWriter* writer, uint8_t* cur, uint8_t** end, uint32_t field,
    uint64_t value) noexcept;
[[gnu::cold]] TRACERING_EXPORT uint8_t* AppendBytesSlow(
    TraceWriter* writer, uint8_t* cur, uint8_t** end, uint32_t field,
    const void* data, size_t size) noexcept;
[[gnu::cold]] TRACERING_EXPORT uint8_t* BeginMessageSlow(
    TraceWriter* writer, uint8_t* cur, uint8_t** end, uint32_t field) noexcept;
[[gnu::cold]] TRACERING_EXPORT uint8_t* EndMessageSlow(TraceWriter* writer,
                                                       uint8_t* cur,
                                                       uint8_t** end) noexcept;

// Where the compilers make their own choice they move the cold calls into
// functions that take the encoder's address.
#define TRACERING_HOT [[gnu::always_inline]] inline
#define TRACERING_LIKELY(x) (__builtin_expect((x), 1))

template <typename T>
TRACERING_HOT uint8_t* WriteFixed(uint8_t* out, T value) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::memcpy(out, &value, sizeof(value));
  return out + sizeof(value);
}

// The top bit of each byte: more bytes follow.
inline constexpr uint64_t kMoreBytes = 0x8080'8080'8080'8080;

// Spreads the lowest eight groups of 7 bits over bytes, by halves, quarters and
// eighths.
TRACERING_HOT uint64_t SpreadVarint(uint64_t value) {
  uint64_t bytes =
      (value & 0x0000'0000'0fff'ffff) | (value & 0x00ff'ffff'f000'0000) << 4;
  bytes += (bytes & 0x0fff'c000'0fff'c000) * 3;  // up by two bits
  bytes += bytes & 0x3f80'3f80'3f80'3f80;        // up by one
  return bytes;
}

// WriteVarint out of line: not worth a copy in each place that appends.
[[gnu::noinline]] inline uint8_t* WriteLongVarint(uint8_t* out,
                                                  uint64_t value) {
  return WriteVarint(out, value);
}

// WriteVarint, where there is room for more than the value takes: without a
// loop, and with one store for up to 8 bytes, which covers timestamps.
TRACERING_HOT uint8_t* WriteVarintRoomy(uint8_t* out, uint64_t value) {
  if (value < 0x80) {
    *out = static_cast<uint8_t>(value);
    return out + 1;
  }
  if ((value >> 56) != 0) return WriteLongVarint(out, value);
  const auto bits = 64 - static_cast<size_t>(__builtin_clzll(value));
  const size_t size = (bits * 9 + 64) / 64;  // bits / 7, rounded up
  WriteFixed(out, SpreadVarint(value) | kMoreBytes >> (72 - 8 * size));
  return out + size;
}

class PacketEncoder {
 public:
  // Opens a packet.
  TRACERING_HOT explicit PacketEncoder(TraceWriter* writer) : writer_(writer) {
    // A copy that may escape; see above.
    uint8_t* end;
    cur_ = OpenPacket(writer, &end);
    end_ = end;
  }
  // Goes on with a packet that is open already and may be written in
  // [cur, end), `depth` messages deep. Nobody else finishes it meanwhile.
  TRACERING_HOT PacketEncoder(TraceWriter* writer, uint8_t* cur, uint8_t* end,
                              uint32_t depth)
      : cur_(cur), end_(end), writer_(writer), depth_(depth) {}
  PacketEncoder(const PacketEncoder&) = delete;
  PacketEncoder& operator=(const PacketEncoder&) = delete;

  // `field` is 1..kMaxFieldNumber.
  TRACERING_HOT void AppendVarint(uint32_t field, uint64_t value) {
    if (!HasRoom(kMaxTagSize + kMaxVarintSize)) {
      uint8_t* end = end_;
      cur_ = AppendVarintSlow(writer_, cur_, &end, field, value);
      end_ = end;
      return;
    }
    cur_ = WriteVarintField(field, value);
  }

  TRACERING_HOT void AppendFixed32(uint32_t field, uint32_t value) {
    if (!HasRoom(kMaxTagSize + sizeof(value))) {
      uint8_t* end = end_;
      cur_ = AppendFixed32Slow(writer_, cur_, &end, field, value);
      end_ = end;
      return;
    }
    cur_ = WriteFixed(WriteTag(field, WireType::kFixed32), value);
  }

  TRACERING_HOT void AppendFixed64(uint32_t field, uint64_t value) {
    if (!HasRoom(kMaxTagSize + sizeof(value))) {
      uint8_t* end = end_;
      cur_ = AppendFixed64Slow(writer_, cur_, &end, field, value);
      end_ = end;
      return;
    }
    cur_ = WriteFixed(WriteTag(field, WireType::kFixed64), value);
  }

  TRACERING_HOT void AppendBytes(uint32_t field, const void* data,
                                 size_t size) {
    if (size > kMaxInPlace || !HasRoom(kMaxTagSize + 1 + size)) {
      uint8_t* end = end_;
      cur_ = AppendBytesSlow(writer_, cur_, &end, field, data, size);
      end_ = end;
      return;
    }
    uint8_t* out = WriteTag(field, WireType::kLengthDelimited);
    *out++ = static_cast<uint8_t>(size);
    // memcpy from null is undefined even for no bytes.
    if (size != 0) std::memcpy(out, data, size);
    cur_ = out + size;
  }

  // Opens a nested message and returns its depth, from 1.
  TRACERING_HOT uint32_t BeginMessage(uint32_t field) {
    if (HasRoom(kMaxTagSize)) {
      cur_ = WriteTag(field, WireType::kStartGroup);
    } else {
      uint8_t* end = end_;
      cur_ = BeginMessageSlow(writer_, cur_, &end, field);
      end_ = end;
    }
    return ++depth_;
  }

  // Closes the message of that depth, from 1, and all that are still open in
  // it. A message that is closed already is left alone.
  TRACERING_HOT void EndMessage(uint32_t depth) {
    for (; depth_ >= depth; --depth_) {
      if (HasRoom(1)) {
        *cur_++ = kCloseMessage;
      } else {
        uint8_t* end = end_;
        cur_ = EndMessageSlow(writer_, cur_, &end);
        end_ = end;
      }
    }
  }

  // Closes open messages and hands the packet to its writer. Later appends are
  // swallowed.
  TRACERING_HOT void Finish() {
    if (writer_ == nullptr) return;
    EndMessage(1);
    ClosePacket(writer_, cur_);
    Detach();
  }

  TRACERING_HOT void Discard() {
    if (writer_ == nullptr) return;
    DiscardPacket(writer_, cur_);
    Detach();
  }

  // For whoever appends to the packet in another way, and says then where it
  // goes on.
  TraceWriter* writer() const { return writer_; }
  uint8_t* cur() const { return cur_; }
  uint8_t* end() const { return end_; }
  TRACERING_HOT void GoOn(uint8_t* cur, uint8_t* end) {
    cur_ = cur;
    end_ = end;
  }

 private:
  // A length of one byte. Larger fields are copied by the library, which keeps
  // the code of each append small.
  static constexpr size_t kMaxInPlace = 127;

  TRACERING_HOT bool HasRoom(size_t bytes) const {
    return static_cast<size_t>(end_ - cur_) >= bytes;
  }

  // Field numbers are constants as a rule, and then so is what this writes.
  TRACERING_HOT uint8_t* WriteTag(uint32_t field, WireType type) const {
    const uint32_t tag = MakeTag(field, type);
    if (tag < 0x80) {
      *cur_ = static_cast<uint8_t>(tag);
      return cur_ + 1;
    }
    if (tag < 0x4000) {
      cur_[0] = static_cast<uint8_t>(tag | 0x80);
      cur_[1] = static_cast<uint8_t>(tag >> 7);
      return cur_ + 2;
    }
    return WriteVarint(cur_, tag);
  }

  // A tag and a value, where there is room for more than they take. Small tags
  // and values of up to seven bytes take one store, since stores are what
  // limits a row of appends. Nanoseconds since boot have seven bytes from 73
  // minutes to 6.5 days and then eight: these are looked for first.
  TRACERING_HOT uint8_t* WriteVarintField(uint32_t field,
                                          uint64_t value) const {
    const uint32_t tag = MakeTag(field, WireType::kVarint);
    const bool one_byte_tag = tag < 0x80;
    uint8_t* const out =
        one_byte_tag ? cur_ : WriteTag(field, WireType::kVarint);
    const uint32_t tag_bytes = one_byte_tag ? 1 : 0;  // that are not written
    const uint64_t tag_bits = one_byte_tag ? tag : 0;

    const uint64_t above_6_bytes = value >> 42;
    if (TRACERING_LIKELY(above_6_bytes - 1 < 0x7f)) {
      const uint64_t bytes = SpreadVarint(value) | kMoreBytes >> 16;
      WriteFixed(out, bytes << (8 * tag_bytes) | tag_bits);
      return out + tag_bytes + 7;
    }
    if (value < 0x80) {
      if (one_byte_tag) {
        return WriteFixed(out, static_cast<uint16_t>(value << 8 | tag_bits));
      }
      *out = static_cast<uint8_t>(value);
      return out + 1;
    }
    if (above_6_bytes == 0) {
      const auto bits = 64 - static_cast<uint32_t>(__builtin_clzll(value));
      const uint32_t size = (bits * 9 + 64) / 64;  // bits / 7, rounded up
      const uint64_t bytes =
          SpreadVarint(value) | kMoreBytes >> (72 - 8 * size);
      WriteFixed(out, bytes << (8 * tag_bytes) | tag_bits);
      return out + tag_bytes + size;
    }
    if (one_byte_tag) *out = static_cast<uint8_t>(tag);
    if ((value >> 56) != 0) return WriteLongVarint(out + tag_bytes, value);
    return WriteFixed(out + tag_bytes, SpreadVarint(value) | kMoreBytes >> 8);
  }

  TRACERING_HOT void Detach() {
    cur_ = end_ = nullptr;
    writer_ = nullptr;
    depth_ = 0;
  }

  uint8_t* cur_;
  uint8_t* end_;
  TraceWriter* writer_;  // null once the packet is finished
  uint32_t depth_ = 0;
};

#undef TRACERING_HOT
#undef TRACERING_LIKELY

}  // namespace internal
}  // namespace tracering

#endif  // TRACERING_INTERNAL_PACKET_ENCODER_H_
