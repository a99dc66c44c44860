// One ring that the consumer reads: mapping, reader, assembler and counts.
//
// Ties the stages together: chunks from the reader go through the assembler
// into the buffers that the producer was granted. Everything in the mapping is
// hostile; that is the reader's business. Guarded by the loop mutex.
#ifndef TRACERING_SRC_CONSUMER_ATTACHED_RING_H_
#define TRACERING_SRC_CONSUMER_ATTACHED_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/ring/notification.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "tracering/consumer_stats.h"

namespace tracering::internal {

// What the rings of one producer share. Outlives them.
struct RingOwner {
  RingOwner(uint64_t producer_number, size_t partial_limit)
      : producer(producer_number), budget(partial_limit) {}

  const uint64_t producer;
  int32_t uid = 0;
  int32_t pid = 0;  // 0 if it cannot be trusted
  // Buffers it was granted: BufferId to number; and those that we lack.
  std::unordered_map<uint16_t, uint32_t> targets;
  std::unordered_set<uint16_t> unknown_buffers;
  // Looks for grants that were asked for and not heard yet, because the
  // packets have overtaken the message. May be null.
  std::function<void()> hear_requests;
  // What it may take in one slice: a little more than a socket's queue holds,
  // so that a peer that never stops asking does not hold everybody up.
  struct HearBudget {
    int messages = 512;
    int64_t bytes = int64_t{1} << 19;
    bool spent() const { return messages <= 0 || bytes <= 0; }
  };
  HearBudget hear_budget;
  // Sequences started. Honest producers stay far below the limit; others must
  // not fill our memory with names.
  static constexpr size_t kMaxSequences = size_t{1} << 18;
  size_t num_sequences = 0;
  PartialBudget budget;
};

struct RingCounts {
  PacketCounts packets;
  PacketCounts metadata;

  RingCounts& operator+=(const RingCounts& other) {
    packets += other.packets;
    metadata += other.metadata;
    return *this;
  }
};

class AttachedRing final : private PacketSink {
 public:
  struct Options {
    os::SharedMapping mapping;  // of geometry.RingSize() checked bytes
    abi::Geometry geometry{abi::kMinNumChunks, abi::kMinChunkSize};
    os::FileIdentity identity;
    bool metadata = false;          // carries descriptors only
    uint32_t wakeup_threshold = 0;  // 0: half the ring
    size_t partial_packet_limit = 0;
  };

  // Becomes the ring's reader. `owner` and `buffers` outlive this object.
  AttachedRing(Options options, RingOwner* owner, BufferSet* buffers);

  // A value that resolved() has once everything reserved by now is resolved.
  [[nodiscard]] uint64_t CaptureEnd() { return reader_.CaptureEnd(); }

  // Resolves positions up to `end`, but no more than make one slice: a few
  // hundred kilobytes. kDrained may thus come before `end`.
  DrainOutcome DrainSlice(uint64_t end);
  uint64_t resolved() const { return reader_.resolved(); }
  bool stopped() const { return reader_.stopped(); }
  const RingStop& stop() const { return reader_.stop(); }

  // Leaves the ring in good order: counts packets that are open as lost, and
  // tells so to whoever reads it next. After the last slice.
  void Finish();

  // True once after the ring was stopped, for the log.
  [[nodiscard]] bool TakeNewStop();

  // Chunks that were scraped and that their writers have not given back:
  // writers inside a packet or a batch. See ChunkReader.
  uint32_t CountOpenChunks() { return reader_.CountOpenChunks(); }

  // --- Wake-ups (src/common/ring/notification.h) ---

  void Arm() { ArmReader(reader_.ring()); }
  void Disarm() { DisarmReader(reader_.ring()); }
  // Positions that wait to be resolved; num_chunks if the producer claims
  // more.
  uint32_t Outstanding() const;
  // Whether writers would wake the consumer. seq_cst: pairs with a writer's
  // look at the armed word.
  bool AtThreshold() const;

  // --- Counts ---

  // Packets since this reader attached, writers' losses included. Not const:
  // remembers the writers' counters, so that they never run backwards.
  RingCounts Count();
  RingStats Stats();
  // The buffer that the ring's packets go to mostly: the latest one, at first
  // any that was granted, 0 if none. For statistics that want one.
  uint32_t MainTarget() const;
  const ChunkReaderStats& reader_stats() const { return reader_.stats(); }
  const abi::Geometry& geometry() const { return reader_.ring().geometry(); }

  const os::FileIdentity& identity() const { return identity_; }
  bool metadata() const { return metadata_; }
  RingOwner& owner() const { return *owner_; }
  size_t mapped_bytes() const { return mapping_.size(); }

 private:
  friend class RingScheduler;

  // PacketSink
  bool Resolve(WriterId writer, BufferId buffer, Route* route) override;
  void OnRun(const PacketRun& run) override;
  uint8_t* PlaceFor(const PacketRun& run, const PacketRun* joined) override {
    return buffers_->PlaceFor(run, joined);
  }

  struct ChunkSink;
  void PublishLosses();
  void LookAtWriterLosses();

  // Immutable.
  const os::SharedMapping mapping_;
  const os::FileIdentity identity_;
  const bool metadata_;
  RingOwner* const owner_;
  BufferSet* const buffers_;
  const uint32_t threshold_;
  const uint64_t slice_positions_;

  ChunkReader reader_;
  PacketAssembler assembler_;

  RingCounts stored_;  // delivered, and refused by a buffer
  uint32_t latest_target_;
  // Writers' counters: what a predecessor had counted, and as last seen.
  ChunkReader::WriterLosses writer_loss_base_{};
  ChunkReader::WriterLosses writer_loss_seen_{};
  bool left_ = false;
  // What a predecessor had counted for the producer, and what was added.
  uint64_t reader_loss_base_ = 0;
  uint64_t reader_loss_published_ = 0;

  bool stop_taken_ = false;

  // Of the scheduler.
  bool queued_ = false;
  bool unarmed_ = true;
  uint64_t pass_end_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_ATTACHED_RING_H_
