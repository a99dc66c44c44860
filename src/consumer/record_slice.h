// Records of a target buffer, copied out so that they can be read without
// holding whatever guards the buffer.
//
// Layout of a record, in the buffer and in a slice; multiples of 8 bytes:
//
//    0  first_ordinal  u64   of its first packet within the sequence
//    8  sequence       u32
//   12  loss           u32   mark of its first packet
//   16  num_packets    u32
//   20  payload_size   u32
//   24  sizes          u16 * num_packets, absent if num_packets is 1
//    .  payload        payload_size bytes, then padding
//
// Records are written by us from validated runs, in private memory. A slice
// belongs to one thread at a time.
#ifndef TRACERING_SRC_CONSUMER_RECORD_SLICE_H_
#define TRACERING_SRC_CONSUMER_RECORD_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/consumer/byte_buffer.h"
#include "src/consumer/packet_run.h"
#include "tracering/data_loss.h"

namespace tracering::internal {

struct RecordHeader {
  uint64_t first_ordinal;
  SequenceIndex sequence;
  LossMask loss;
  uint32_t num_packets;
  uint32_t payload_size;
};
static_assert(sizeof(RecordHeader) == 24);

inline constexpr size_t kRecordAlignment = 8;

constexpr size_t RecordSizesBytes(uint32_t num_packets) {
  return num_packets == 1 ? 0 : size_t{2} * num_packets;
}
constexpr size_t RecordPayloadOffset(uint32_t num_packets) {
  return sizeof(RecordHeader) + RecordSizesBytes(num_packets);
}
constexpr size_t RecordSize(uint32_t num_packets, uint32_t payload_size) {
  return (RecordPayloadOffset(num_packets) + payload_size + kRecordAlignment -
          1) &
         ~(kRecordAlignment - 1);
}

// One record. Points into its slice.
struct RecordView {
  RecordHeader header;
  const uint16_t* sizes = nullptr;  // null if there is one packet
  const uint8_t* payload = nullptr;

  uint32_t SizeOf(uint32_t packet) const {
    return sizes == nullptr ? header.payload_size : sizes[packet];
  }
};

class RecordSlice {
 public:
  // Walks the records: for (RecordSlice::Reader r(slice); r.Next(&record);)
  class Reader {
   public:
    explicit Reader(const RecordSlice& slice)
        : next_(slice.bytes_.data()), end_(next_ + slice.bytes_.size()) {}
    bool Next(RecordView* record) {
      if (next_ == end_) return false;
      std::memcpy(&record->header, next_, sizeof(record->header));
      const RecordHeader& header = record->header;
      const uint8_t* sizes = next_ + sizeof(header);
      record->sizes = header.num_packets == 1
                          ? nullptr
                          : reinterpret_cast<const uint16_t*>(sizes);
      record->payload = sizes + RecordSizesBytes(header.num_packets);
      next_ += RecordSize(header.num_packets, header.payload_size);
      return true;
    }

   private:
    const uint8_t* next_;
    const uint8_t* end_;
  };

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }
  void clear() { bytes_.clear(); }

 private:
  friend class TargetBuffer;
  ByteBuffer bytes_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_RECORD_SLICE_H_
