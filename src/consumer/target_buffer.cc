// Records in a byte ring, across its end; see target_buffer.h.
#include "src/consumer/target_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tracering/buffer_config.h"

namespace tracering::internal {
namespace {

// Keeps the memory that is written next coming, a fixed distance ahead: if the
// buffer is large it is in no cache, and the reader's next compare-exchange has
// to wait until all stores are done. `next` is where a record of `size` bytes
// ended, `room` what is left behind it.
void PrefetchBehindRecord(const uint8_t* next, size_t size, uint64_t room) {
  constexpr size_t kDistance = 512;
  if (room <= kDistance) return;
  const uint8_t* const end = next + kDistance;
  for (const uint8_t* line = end - std::min(size, kDistance); line < end;
       line += 64) {
    __builtin_prefetch(line, /*rw=*/1);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TargetBuffer>> TargetBuffer::Create(
    uint64_t size, FillPolicy policy) {
  if (size < kMinBufferSize || size > kMaxBufferSize) {
    return absl::InvalidArgumentError(
        fmt::format("buffer size {}: must be from {} to {} bytes", size,
                    kMinBufferSize, kMaxBufferSize));
  }
  const uint64_t capacity =
      (size + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
  // Not touched here, so that memory is committed only as it fills.
  std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[capacity]);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("buffer size {}: the memory could not be allocated", size));
  }
  return std::unique_ptr<TargetBuffer>(
      new TargetBuffer(std::move(memory), capacity, policy));
}

TargetBuffer::TargetBuffer(std::unique_ptr<uint8_t[]> memory, uint64_t capacity,
                           FillPolicy policy)
    : memory_(std::move(memory)),
      capacity_(capacity),
      policy_(policy),
      max_run_(capacity / 8) {}

StoreResult TargetBuffer::Store(const PacketRun& run) {
  const size_t record_size = RecordSize(run.num_packets, run.payload_size);
  StoreResult result;
  if (closed_ && record_size <= capacity_) {
    result.refused = run.num_packets;
    Refuse(run, LossCause::kBufferRefused);
  } else if (record_size <= max_run_ && MakeRoom(record_size)) {
    result.stored = run.num_packets;
    StoreRecord(run, record_size);
  } else {
    result = StoreInPieces(run);
  }
  return result;
}

uint8_t* TargetBuffer::PlaceFor(const PacketRun& run, const PacketRun* joined) {
  const size_t before =
      joined != nullptr ? RecordSize(joined->num_packets, joined->payload_size)
                        : 0;
  const size_t record_size = RecordSize(run.num_packets, run.payload_size);
  if (closed_ || before > max_run_ || record_size > max_run_ ||
      WouldWrap(before + record_size) || !MakeRoom(before + record_size)) {
    return nullptr;
  }
  return memory_.get() + end_index_ + before +
         RecordPayloadOffset(run.num_packets);
}

// Packet by packet: pieces of several packets as long as they fit.
StoreResult TargetBuffer::StoreInPieces(const PacketRun& run) {
  StoreResult result;
  PacketRun piece = run;
  uint32_t next = 0;
  while (next != run.num_packets) {
    // The largest piece that fits under max_run_, or else one packet.
    piece.num_packets = 0;
    piece.payload_size = 0;
    piece.sizes = run.sizes == nullptr ? nullptr : run.sizes + next;
    do {
      const uint32_t size = run.SizeOf(next + piece.num_packets);
      const size_t record_size =
          RecordSize(piece.num_packets + 1, piece.payload_size + size);
      if (piece.num_packets != 0 &&
          (record_size > max_run_ || !HasRoom(record_size))) {
        break;
      }
      ++piece.num_packets;
      piece.payload_size += size;
    } while (next + piece.num_packets != run.num_packets);

    const size_t record_size =
        RecordSize(piece.num_packets, piece.payload_size);
    if (record_size > capacity_) {
      result.too_large += piece.num_packets;
      Refuse(piece, LossCause::kPacketTooLarge);
    } else if (closed_ || !MakeRoom(record_size)) {
      closed_ = true;
      result.refused += piece.num_packets;
      Refuse(piece, LossCause::kBufferRefused);
    } else {
      result.stored += piece.num_packets;
      StoreRecord(piece, record_size);
    }
    next += piece.num_packets;
    piece.payload += piece.payload_size;
    piece.loss = 0;
  }
  return result;
}

void TargetBuffer::Refuse(const PacketRun& piece, LossCause cause) {
  // What precedes a refused packet precedes the next one that is stored.
  sequences_.At(piece.route.sequence).pending |= piece.loss | MarkOf(cause);
  const bool too_large = cause == LossCause::kPacketTooLarge;
  (too_large ? stats_.packets_too_large : stats_.packets_refused) +=
      piece.num_packets;
  (too_large ? stats_.bytes_too_large : stats_.bytes_refused) +=
      piece.payload_size;
}

void TargetBuffer::StoreRecord(const PacketRun& run, size_t record_size) {
  Sequence& sequence = sequences_.At(run.route.sequence);
  RecordHeader header;
  header.first_ordinal = sequence.next_ordinal;
  header.sequence = run.route.sequence;
  header.loss = run.loss | sequence.pending;
  header.num_packets = run.num_packets;
  header.payload_size = run.payload_size;
  sequence.next_ordinal += run.num_packets;
  sequence.last_record = end_;
  sequence.pending = 0;

  const size_t sizes_bytes = RecordSizesBytes(run.num_packets);
  if (!WouldWrap(record_size)) {
    uint8_t* const record = memory_.get() + end_index_;
    std::memcpy(record, &header, sizeof(header));
    if (sizes_bytes != 0) {
      std::memcpy(record + sizeof(header), run.sizes, sizes_bytes);
    }
    uint8_t* const payload = record + RecordPayloadOffset(run.num_packets);
    if (run.payload_size != 0 && run.payload != payload) {
      std::memcpy(payload, run.payload, run.payload_size);
    }
    end_index_ += record_size;
    PrefetchBehindRecord(record + record_size, record_size,
                         capacity_ - end_index_);
  } else {
    uint64_t index = CopyIn(end_index_, &header, sizeof(header));
    index = CopyIn(index, run.sizes, sizes_bytes);
    CopyIn(index, run.payload, run.payload_size);
    end_index_ = end_index_ + record_size - capacity_;
    ++stats_.wraps;
  }
  end_ += record_size;
  stats_.packets_stored += run.num_packets;
  ++stats_.records_stored;
  stats_.bytes_stored += record_size;
}

inline bool TargetBuffer::HasRoom(uint64_t bytes) const {
  if (bytes > capacity_) return false;
  if (policy_ == FillPolicy::kRing) return true;
  return bytes <= capacity_ - (end_ - std::max(begin_, consumed_));
}

inline bool TargetBuffer::MakeRoom(uint64_t bytes) {
  if (!HasRoom(bytes)) return false;
  while (capacity_ - (end_ - begin_) < bytes) EvictOldest();
  return true;
}

inline void TargetBuffer::EvictOldest() {
  const RecordHeader header = LoadHeader(begin_index_);
  const size_t record_size =
      RecordSize(header.num_packets, header.payload_size);
  stats_.packets_evicted += header.num_packets;
  if (begin_ >= consumed_) {
    stats_.packets_overwritten += header.num_packets;
    ++stats_.records_overwritten;
    stats_.bytes_overwritten += record_size;
  }
  begin_ += record_size;
  begin_index_ += record_size;
  if (begin_index_ >= capacity_) begin_index_ -= capacity_;
  // The next victim is known, and in a large buffer it is not in any cache.
  __builtin_prefetch(memory_.get() + begin_index_);
}

ReadCursor TargetBuffer::BeginSnapshot() const {
  ReadCursor cursor;
  cursor.position_ = begin_;
  cursor.end_ = end_;
  return cursor;
}

ReadCursor TargetBuffer::BeginStream() const {
  ReadCursor cursor;
  cursor.position_ = std::max(begin_, consumed_);
  cursor.end_ = UINT64_MAX;
  cursor.consumes_ = true;
  return cursor;
}

bool TargetBuffer::CopyRecords(ReadCursor* cursor, size_t max_bytes,
                               RecordSlice* slice) {
  slice->clear();
  const uint64_t from = std::max(cursor->position_, begin_);
  const uint64_t end = std::min(cursor->end_, end_);
  if (from >= end) {
    cursor->position_ = from;
    return false;
  }
  // Whole records only, so their headers have to be walked.
  uint64_t to = from;
  const uint64_t from_index = IndexOf(from);
  uint64_t index = from_index;
  while (to != end) {
    const RecordHeader header = LoadHeader(index);
    const size_t record_size =
        RecordSize(header.num_packets, header.payload_size);
    if (to != from && to + record_size - from > max_bytes) break;
    to += record_size;
    index += record_size;
    if (index >= capacity_) index -= capacity_;
    ++stats_.records_read;
    if (cursor->consumes_) stats_.packets_consumed += header.num_packets;
  }
  const auto size = static_cast<size_t>(to - from);
  CopyOut(from_index, size, slice->bytes_.EnsureRoom(size));
  slice->bytes_.SetSize(size);
  stats_.bytes_read += size;
  cursor->position_ = to;
  if (cursor->consumes_) consumed_ = std::max(consumed_, to);
  return true;
}

bool TargetBuffer::CountRejected(SequenceIndex index, uint64_t ordinal) {
  Sequence* const sequence = sequences_.Find(index);
  if (sequence == nullptr || ordinal < sequence->rejected_until) return false;
  sequence->rejected_until = ordinal + 1;
  ++stats_.packets_rejected;
  return true;
}

bool TargetBuffer::Holds(SequenceIndex index) const {
  const Sequence* const sequence = sequences_.Find(index);
  return sequence != nullptr && sequence->next_ordinal != 0 &&
         sequence->last_record >= begin_;
}

inline RecordHeader TargetBuffer::LoadHeader(uint64_t index) const {
  RecordHeader header;
  if (sizeof(header) <= capacity_ - index) {
    std::memcpy(&header, memory_.get() + index, sizeof(header));
  } else {
    CopyOut(index, sizeof(header), reinterpret_cast<uint8_t*>(&header));
  }
  return header;
}

uint64_t TargetBuffer::CopyIn(uint64_t index, const void* bytes, size_t size) {
  if (size == 0) return index;
  const auto until_end =
      static_cast<size_t>(std::min<uint64_t>(size, capacity_ - index));
  std::memcpy(memory_.get() + index, bytes, until_end);
  if (until_end != size) {
    std::memcpy(memory_.get(), static_cast<const uint8_t*>(bytes) + until_end,
                size - until_end);
  }
  index += size;
  return index >= capacity_ ? index - capacity_ : index;
}

void TargetBuffer::CopyOut(uint64_t index, size_t size, uint8_t* out) const {
  const auto until_end =
      static_cast<size_t>(std::min<uint64_t>(size, capacity_ - index));
  std::memcpy(out, memory_.get() + index, until_end);
  if (until_end != size) {
    std::memcpy(out + until_end, memory_.get(), size - until_end);
  }
}

}  // namespace tracering::internal
