// The appends that found no room: they encode into a small buffer and let the
// writer spread the bytes over chunks. See packet_encoder.h.
#include "tracering/internal/packet_encoder.h"

#include "src/producer/trace_writer_impl.h"

namespace tracering::internal {
namespace {

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

  FragmentRange AppendTo(TraceWriter* writer, FragmentRange range) const {
    return static_cast<TraceWriterImpl*>(writer)->Append(
        range, bytes_, static_cast<size_t>(end_ - bytes_));
  }

 private:
  uint8_t bytes_[kMaxTagSize + kMaxVarintSize];
  uint8_t* end_;
};

}  // namespace

FragmentRange OpenPacket(TraceWriter* writer) noexcept {
  return static_cast<TraceWriterImpl*>(writer)->Open();
}

void ClosePacket(TraceWriter* writer, uint8_t* cur) noexcept {
  static_cast<TraceWriterImpl*>(writer)->Close(cur);
}

void DiscardPacket(TraceWriter* writer, uint8_t* cur) noexcept {
  static_cast<TraceWriterImpl*>(writer)->Discard(cur);
}

FragmentRange AppendVarintSlow(TraceWriter* writer, FragmentRange range,
                               uint32_t field, uint64_t value) noexcept {
  if (range.cur == nullptr) return range;
  SmallField small(field, WireType::kVarint);
  small.AppendVarint(value);
  return small.AppendTo(writer, range);
}

FragmentRange AppendFixed32Slow(TraceWriter* writer, FragmentRange range,
                                uint32_t field, uint32_t value) noexcept {
  if (range.cur == nullptr) return range;
  SmallField small(field, WireType::kFixed32);
  small.AppendFixed(value);
  return small.AppendTo(writer, range);
}

FragmentRange AppendFixed64Slow(TraceWriter* writer, FragmentRange range,
                                uint32_t field, uint64_t value) noexcept {
  if (range.cur == nullptr) return range;
  SmallField small(field, WireType::kFixed64);
  small.AppendFixed(value);
  return small.AppendTo(writer, range);
}

FragmentRange AppendBytesSlow(TraceWriter* writer, FragmentRange range,
                              uint32_t field, const void* data,
                              size_t size) noexcept {
  if (range.cur == nullptr) return range;
  SmallField header(field, WireType::kLengthDelimited);
  header.AppendVarint(size);
  range = header.AppendTo(writer, range);
  return static_cast<TraceWriterImpl*>(writer)->Append(
      range, static_cast<const uint8_t*>(data), size);
}

FragmentRange BeginMessageSlow(TraceWriter* writer, FragmentRange range,
                               uint32_t field) noexcept {
  if (range.cur == nullptr) return range;
  return SmallField(field, WireType::kStartGroup).AppendTo(writer, range);
}

FragmentRange EndMessageSlow(TraceWriter* writer,
                             FragmentRange range) noexcept {
  if (range.cur == nullptr) return range;
  return static_cast<TraceWriterImpl*>(writer)->Append(range, &kCloseMessage,
                                                       1);
}

}  // namespace tracering::internal
