// Appends protobuf fields to the open fragment of a writer, in place.
//
// The range [cur, end) is a piece of a ring chunk, or of the writer's private
// sink once the packet is lost. Each append makes one bounds check; where a
// field does not fit, the cold path splits it over chunks. Nested messages use
// start-group tags and the single closing byte (wire_format.h), so nothing is
// ever patched.
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

class TraceWriterImpl;

class PacketEncoder {
 public:
  PacketEncoder(const PacketEncoder&) = delete;
  PacketEncoder& operator=(const PacketEncoder&) = delete;

  // `field` is 1..kMaxFieldNumber.
  void AppendVarint(uint32_t field, uint64_t value) {
    if (!HasRoom(kMaxTagSize + kMaxVarintSize)) {
      AppendVarintSlow(field, value);
      return;
    }
    cur_ = WriteVarint(WriteVarint(cur_, MakeTag(field, WireType::kVarint)),
                       value);
  }

  void AppendFixed32(uint32_t field, uint32_t value) {
    AppendFixed(field, WireType::kFixed32, value);
  }

  void AppendFixed64(uint32_t field, uint64_t value) {
    AppendFixed(field, WireType::kFixed64, value);
  }

  void AppendBytes(uint32_t field, const void* data, size_t size) {
    if (size > kMaxInPlace || !HasRoom(kMaxTagSize + kMaxVarintSize + size)) {
      AppendBytesSlow(field, data, size);
      return;
    }
    uint8_t* out = WriteVarint(
        WriteVarint(cur_, MakeTag(field, WireType::kLengthDelimited)), size);
    std::memcpy(out, data, size);
    cur_ = out + size;
  }

  // Opens a nested message and returns its depth, from 1.
  uint32_t BeginMessage(uint32_t field) {
    if (HasRoom(kMaxTagSize)) {
      cur_ = WriteVarint(cur_, MakeTag(field, WireType::kStartGroup));
    } else {
      BeginMessageSlow(field);
    }
    return ++depth_;
  }

  // Closes the message of that depth and all that are still open in it. A
  // message that is closed already is left alone.
  void EndMessage(uint32_t depth) {
    while (depth_ >= depth && depth_ != 0) {
      if (HasRoom(1)) {
        *cur_++ = kCloseMessage;
      } else {
        CloseSlow();
      }
      --depth_;
    }
  }

 protected:
  // `writer` is null for a packet that goes nowhere.
  PacketEncoder(TraceWriter* writer, uint8_t* cur, uint8_t* end)
      : cur_(cur), end_(end), writer_(writer) {}
  ~PacketEncoder() = default;

  uint8_t* cur_;
  uint8_t* end_;
  TraceWriter* writer_;
  uint32_t depth_ = 0;

 private:
  // The writer moves cur_ and end_ when it relocates an open fragment.
  friend class tracering::TraceWriter;
  friend class TraceWriterImpl;

  // No chunk is larger, so a larger field cannot be in place.
  static constexpr size_t kMaxInPlace = 32 * 1024;

  bool HasRoom(size_t bytes) const {
    return static_cast<size_t>(end_ - cur_) >= bytes;
  }

  template <typename T>
  void AppendFixed(uint32_t field, WireType type, T value) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    if (!HasRoom(kMaxTagSize + sizeof(T))) {
      AppendFixedSlow(field, type, &value, sizeof(T));
      return;
    }
    uint8_t* out = WriteVarint(cur_, MakeTag(field, type));
    std::memcpy(out, &value, sizeof(T));
    cur_ = out + sizeof(T);
  }

  // Cold: encode first, then append raw bytes piece by piece.
  void AppendVarintSlow(uint32_t field, uint64_t value);
  void AppendFixedSlow(uint32_t field, WireType type, const void* value,
                       size_t size);
  void AppendBytesSlow(uint32_t field, const void* data, size_t size);
  void BeginMessageSlow(uint32_t field);
  void CloseSlow();
  void AppendRaw(const void* data, size_t size);
};

}  // namespace internal
}  // namespace tracering

#endif  // TRACERING_INTERNAL_PACKET_ENCODER_H_
