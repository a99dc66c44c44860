// The appends that found no room: they encode into a small buffer and let the
// writer spread the bytes over chunks. See packet_encoder.h.
#include "tracering/internal/packet_encoder.h"

#include "src/producer/trace_writer_impl.h"

namespace tracering::internal {
namespace {

uint8_t* AppendRaw(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                   const void* data, size_t size) {
  const FragmentRange range = static_cast<TraceWriterImpl*>(writer)->Append(
      {cur, *end}, static_cast<const uint8_t*>(data), size);
  *end = range.end;
  return range.cur;
}

// A tag and a value or a length.
class SmallField {
 public:
  SmallField(uint32_t field, WireType type)
      : end_(WriteVarint(bytes_, MakeTag(field, type))) {}

  void AppendVarint(uint64_t value) { end_ = WriteVarint(end_, value); }

  template <typename T>
  void AppendFixed(T value) {
    std::memcpy(end_, &value, sizeof(value));
    end_ += sizeof(value);
  }

  uint8_t* AppendTo(TraceWriter* writer, uint8_t* cur, uint8_t** end) const {
    return AppendRaw(writer, cur, end, bytes_,
                     static_cast<size_t>(end_ - bytes_));
  }

 private:
  uint8_t bytes_[kMaxTagSize + kMaxVarintSize];
  uint8_t* end_;
};

}  // namespace

void DiscardPacket(TraceWriter* writer, uint8_t* cur) noexcept {
  static_cast<TraceWriterImpl*>(writer)->Discard(cur);
}

uint8_t* AppendVarintSlow(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                          uint32_t field, uint64_t value) noexcept {
  if (cur == nullptr) return cur;
  SmallField small(field, WireType::kVarint);
  small.AppendVarint(value);
  return small.AppendTo(writer, cur, end);
}

uint8_t* AppendFixed32Slow(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                           uint32_t field, uint32_t value) noexcept {
  if (cur == nullptr) return cur;
  SmallField small(field, WireType::kFixed32);
  small.AppendFixed(value);
  return small.AppendTo(writer, cur, end);
}

uint8_t* AppendFixed64Slow(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                           uint32_t field, uint64_t value) noexcept {
  if (cur == nullptr) return cur;
  SmallField small(field, WireType::kFixed64);
  small.AppendFixed(value);
  return small.AppendTo(writer, cur, end);
}

uint8_t* AppendBytesSlow(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                         uint32_t field, const void* data,
                         size_t size) noexcept {
  if (cur == nullptr) return cur;
  SmallField header(field, WireType::kLengthDelimited);
  header.AppendVarint(size);
  cur = header.AppendTo(writer, cur, end);
  return AppendRaw(writer, cur, end, data, size);
}

uint8_t* BeginMessageSlow(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                          uint32_t field) noexcept {
  if (cur == nullptr) return cur;
  return SmallField(field, WireType::kStartGroup).AppendTo(writer, cur, end);
}

uint8_t* EndMessageSlow(TraceWriter* writer, uint8_t* cur,
                        uint8_t** end) noexcept {
  if (cur == nullptr) return cur;
  return AppendRaw(writer, cur, end, &kCloseMessage, 1);
}

}  // namespace tracering::internal
