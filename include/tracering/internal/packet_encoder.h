// Appends protobuf fields to the open fragment of a writer, in place.
//
// The range [cur, end) is a piece of a ring chunk, or of the writer's private
// sink once the packet is lost. Each append makes one bounds check; where a
// field does not fit, the cold path splits it over chunks. Nested messages use
// start-group tags and the single closing byte (wire_format.h), so nothing is
// ever patched.
//
// All that leaves the inlined code is passed and returned by value. The
// encoder's address thus never escapes, and a packet that its function does not
// hand on lives in registers.
//
// Belongs to the thread of its writer. No allocation, no lock, no syscall here;
// the writer's cold path may wait or signal.
#ifndef TRACERING_INTERNAL_PACKET_ENCODER_H_
#define TRACERING_INTERNAL_PACKET_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracering/internal/wire_format.h"

namespace tracering {

class TraceWriter;

namespace internal {

// Where the open fragment may be written. Both are null for a packet that goes
// nowhere: there is never room in it, and the cold paths swallow what comes.
struct FragmentRange {
  uint8_t* cur;
  uint8_t* end;
};

// What a packet asks of its writer. `cur` is the end of what was written.
FragmentRange OpenPacket(TraceWriter* writer) noexcept;
void ClosePacket(TraceWriter* writer, uint8_t* cur) noexcept;
[[gnu::cold]] void DiscardPacket(TraceWriter* writer, uint8_t* cur) noexcept;

// Appends that may find no room. They continue in another chunk where they
// must and return where the packet goes on.
[[gnu::cold]] FragmentRange AppendVarintSlow(TraceWriter* writer,
                                             FragmentRange range,
                                             uint32_t field,
                                             uint64_t value) noexcept;
[[gnu::cold]] FragmentRange AppendFixed32Slow(TraceWriter* writer,
                                              FragmentRange range,
                                              uint32_t field,
                                              uint32_t value) noexcept;
[[gnu::cold]] FragmentRange AppendFixed64Slow(TraceWriter* writer,
                                              FragmentRange range,
                                              uint32_t field,
                                              uint64_t value) noexcept;
[[gnu::cold]] FragmentRange AppendBytesSlow(TraceWriter* writer,
                                            FragmentRange range, uint32_t field,
                                            const void* data,
                                            size_t size) noexcept;
[[gnu::cold]] FragmentRange BeginMessageSlow(TraceWriter* writer,
                                             FragmentRange range,
                                             uint32_t field) noexcept;
[[gnu::cold]] FragmentRange EndMessageSlow(TraceWriter* writer,
                                           FragmentRange range) noexcept;

class PacketEncoder {
 public:
  PacketEncoder(TraceWriter* writer, FragmentRange range)
      : range_(range), writer_(writer) {}
  PacketEncoder(const PacketEncoder&) = delete;
  PacketEncoder& operator=(const PacketEncoder&) = delete;

  // `field` is 1..kMaxFieldNumber.
  void AppendVarint(uint32_t field, uint64_t value) {
    if (!HasRoom(kMaxTagSize + kMaxVarintSize)) {
      range_ = AppendVarintSlow(writer_, range_, field, value);
      return;
    }
    range_.cur = WriteVarint(
        WriteVarint(range_.cur, MakeTag(field, WireType::kVarint)), value);
  }

  void AppendFixed32(uint32_t field, uint32_t value) {
    if (!HasRoom(kMaxTagSize + sizeof(value))) {
      range_ = AppendFixed32Slow(writer_, range_, field, value);
      return;
    }
    range_.cur = WriteFixed(
        WriteVarint(range_.cur, MakeTag(field, WireType::kFixed32)), value);
  }

  void AppendFixed64(uint32_t field, uint64_t value) {
    if (!HasRoom(kMaxTagSize + sizeof(value))) {
      range_ = AppendFixed64Slow(writer_, range_, field, value);
      return;
    }
    range_.cur = WriteFixed(
        WriteVarint(range_.cur, MakeTag(field, WireType::kFixed64)), value);
  }

  void AppendBytes(uint32_t field, const void* data, size_t size) {
    if (size > kMaxInPlace ||
        !HasRoom(kMaxTagSize + VarintSize(kMaxInPlace) + size)) {
      range_ = AppendBytesSlow(writer_, range_, field, data, size);
      return;
    }
    uint8_t* out = WriteVarint(
        WriteVarint(range_.cur, MakeTag(field, WireType::kLengthDelimited)),
        size);
    // memcpy from null is undefined even for no bytes.
    if (size != 0) std::memcpy(out, data, size);
    range_.cur = out + size;
  }

  // Opens a nested message and returns its depth, from 1.
  uint32_t BeginMessage(uint32_t field) {
    if (HasRoom(kMaxTagSize)) {
      range_.cur =
          WriteVarint(range_.cur, MakeTag(field, WireType::kStartGroup));
    } else {
      range_ = BeginMessageSlow(writer_, range_, field);
    }
    return ++depth_;
  }

  // Closes the message of that depth, from 1, and all that are still open in
  // it. A message that is closed already is left alone.
  void EndMessage(uint32_t depth) {
    for (; depth_ >= depth; --depth_) {
      if (HasRoom(1)) {
        *range_.cur++ = kCloseMessage;
      } else {
        range_ = EndMessageSlow(writer_, range_);
      }
    }
  }

  // Closes open messages and hands the packet to its writer. Later appends are
  // swallowed.
  void Finish() {
    if (writer_ == nullptr) return;
    EndMessage(1);
    ClosePacket(writer_, range_.cur);
    Detach();
  }

  void Discard() {
    if (writer_ == nullptr) return;
    DiscardPacket(writer_, range_.cur);
    Detach();
  }

 private:
  // No chunk is larger, so a larger field cannot be in place.
  static constexpr size_t kMaxInPlace = 32 * 1024;

  bool HasRoom(size_t bytes) const {
    return static_cast<size_t>(range_.end - range_.cur) >= bytes;
  }

  template <typename T>
  static uint8_t* WriteFixed(uint8_t* out, T value) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    std::memcpy(out, &value, sizeof(value));
    return out + sizeof(value);
  }

  void Detach() {
    range_ = {nullptr, nullptr};
    writer_ = nullptr;
    depth_ = 0;
  }

  FragmentRange range_;
  TraceWriter* writer_;  // null once the packet is finished
  uint32_t depth_ = 0;
};

}  // namespace internal
}  // namespace tracering

#endif  // TRACERING_INTERNAL_PACKET_ENCODER_H_
