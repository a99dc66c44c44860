// A byte ring of packet records: where packets wait, still group encoded,
// until somebody saves them.
//
// A record is one run of packets of one sequence. Records lie back to back and
// may wrap around the end of the memory. Ordinals number the packets of a
// sequence that were stored, so a hole in them is what was overwritten; packets
// that were refused leave a mark on the next one instead.
//
// Reading copies whole records into a slice, a bounded number of bytes at a
// time, so that the guard of the buffer need not be held while a file is
// written. A cursor that is lapped in between skips to what is left, and the
// hole in the ordinals shows it (SequenceProgress turns holes into marks).
//
// Takes validated runs from private memory. A plain data structure; the
// consumer serialises access. One allocation, at creation.
#ifndef TRACERING_SRC_CONSUMER_TARGET_BUFFER_H_
#define TRACERING_SRC_CONSUMER_TARGET_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "src/consumer/packet_run.h"
#include "src/consumer/record_slice.h"
#include "src/consumer/sparse_array.h"
#include "tracering/data_loss.h"
#include "tracering/fill_policy.h"

namespace tracering::internal {

// Where one reader of one buffer stands. A value; copies read independently.
class ReadCursor {
 public:
  ReadCursor() = default;

 private:
  friend class TargetBuffer;
  uint64_t position_ = 0;  // stream offset of the next record
  uint64_t end_ = 0;       // stream offset to stop at
  bool consumes_ = false;
};

// Counts since creation. Bytes are those of records: payload, sizes, header.
struct TargetBufferStats {
  uint64_t packets_stored = 0;
  uint64_t records_stored = 0;
  uint64_t bytes_stored = 0;
  // Evicted before any stream had consumed them.
  uint64_t packets_overwritten = 0;
  uint64_t records_overwritten = 0;
  uint64_t bytes_overwritten = 0;
  // Refused for lack of room (kDiscard), payload bytes.
  uint64_t packets_refused = 0;
  uint64_t bytes_refused = 0;
  // Larger than the whole buffer, payload bytes.
  uint64_t packets_too_large = 0;
  uint64_t bytes_too_large = 0;
  // Found by readers not to be valid; they are in packets_stored as well.
  uint64_t packets_rejected = 0;
  uint64_t packets_consumed = 0;  // copied out for a stream
  // Gone again, consumed before or not: stored - evicted are in the buffer.
  uint64_t packets_evicted = 0;
  uint64_t wraps = 0;  // times that writing went past the end of the memory
  // Copied out for readers, every reading counted.
  uint64_t records_read = 0;
  uint64_t bytes_read = 0;
};

// What became of the packets of one run; they add up to its num_packets.
struct StoreResult {
  uint32_t stored = 0;
  uint32_t refused = 0;    // kBufferRefused
  uint32_t too_large = 0;  // kPacketTooLarge
};

class TargetBuffer {
 public:
  // `size` is in bytes, from kMinBufferSize to kMaxBufferSize, counts all that
  // is stored and is rounded up to a multiple of 8. InvalidArgument if it is
  // out of range, ResourceExhausted if there is no such memory.
  static absl::StatusOr<std::unique_ptr<TargetBuffer>> Create(
      uint64_t size, FillPolicy policy);

  TargetBuffer(const TargetBuffer&) = delete;
  TargetBuffer& operator=(const TargetBuffer&) = delete;

  // Stores the packets of `run` under run.route.sequence. A run may be cut: to
  // keep what fits under kDiscard, and into pieces of at most an eighth of the
  // buffer, so that overwriting stays fine-grained.
  StoreResult Store(const PacketRun& run);

  // Where Store will put the payload of `run` if it comes next, or right after
  // `joined` if that is not null; room is made for both. Null if one would be
  // refused, cut, or wrap around the end. Whoever writes the payload there
  // before that saves Store the copying.
  [[nodiscard]] uint8_t* PlaceFor(const PacketRun& run,
                                  const PacketRun* joined);

  // A reading of everything that is there now and of nothing newer. Consumes
  // nothing.
  ReadCursor BeginSnapshot() const;

  // A reading that starts with the oldest record that no stream has had, and
  // goes on with what comes. What it has copied counts as consumed: under
  // kDiscard it makes room, under kRing it may be overwritten without being a
  // loss.
  ReadCursor BeginStream() const;

  // Gives a stream an end, for now: everything that is there and nothing newer.
  void LimitToPresent(ReadCursor* cursor) const { cursor->end_ = end_; }

  // Replaces `slice` by the next whole records of `cursor`: as many as fit into
  // `max_bytes`, but at least one. False, and an empty slice, if there is
  // nothing more (for a stream: nothing yet).
  bool CopyRecords(ReadCursor* cursor, size_t max_bytes, RecordSlice* slice);

  // Counts the packet of that ordinal as rejected, unless it was counted
  // before: readers see the same packet again and again, in order. True if it
  // was counted now.
  bool CountRejected(SequenceIndex sequence, uint64_t ordinal);

  // True if a packet of `sequence` is still in the buffer.
  bool Holds(SequenceIndex sequence) const;

  // Drops what is kept about a sequence of which nothing more will come.
  void Forget(SequenceIndex sequence) { sequences_.Erase(sequence); }

  uint64_t capacity() const { return capacity_; }
  FillPolicy policy() const { return policy_; }
  // Bytes of records that are there, consumed or not.
  uint64_t bytes_used() const { return end_ - begin_; }
  // Under kDiscard: a packet was refused for lack of room, and all are now.
  bool is_closed() const { return closed_; }
  const TargetBufferStats& stats() const { return stats_; }

 private:
  struct Sequence {
    uint64_t next_ordinal = 0;
    uint64_t last_record = 0;     // stream offset of its newest record
    uint64_t rejected_until = 0;  // ordinals below were looked at
    LossMask pending = 0;         // mark of the next packet that is stored
  };

  TargetBuffer(std::unique_ptr<uint8_t[]> memory, uint64_t capacity,
               FillPolicy policy);

  StoreResult StoreInPieces(const PacketRun& run);
  void StoreRecord(const PacketRun& run, size_t record_size);
  void Refuse(const PacketRun& piece, LossCause cause);
  // Whether a record of that size would reach the end of the memory.
  bool WouldWrap(size_t record_size) const {
    return record_size >= capacity_ - end_index_;
  }
  // True if the policy allows to make that much room.
  bool HasRoom(uint64_t bytes) const;
  bool MakeRoom(uint64_t bytes);
  void EvictOldest();

  // An index is an offset into the memory; these go around its end.
  uint64_t IndexOf(uint64_t offset) const { return offset % capacity_; }
  RecordHeader LoadHeader(uint64_t index) const;
  // Returns the index behind what was copied.
  uint64_t CopyIn(uint64_t index, const void* bytes, size_t size);
  void CopyOut(uint64_t index, size_t size, uint8_t* out) const;

  const std::unique_ptr<uint8_t[]> memory_;
  const uint64_t capacity_;
  const FillPolicy policy_;
  const uint64_t max_run_;  // bytes of a record of several packets

  // Stream offsets: bytes of records since creation. [begin_, end_) is there.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  uint64_t consumed_ = 0;  // everything below was read by a stream
  // begin_ and end_ modulo capacity_.
  uint64_t begin_index_ = 0;
  uint64_t end_index_ = 0;
  bool closed_ = false;

  SparseArray<Sequence> sequences_;
  TargetBufferStats stats_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_TARGET_BUFFER_H_
