// Wiring of one ring; see attached_ring.h for trust and threading.
#include "src/consumer/attached_ring.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tracering::internal {
namespace {

// What one slice copies at most, and so how long others wait for the mutex.
constexpr uint64_t kSliceBytes = 256 * 1024;

constexpr uint32_t kNoTarget = std::numeric_limits<uint32_t>::max();

// A writers' counter is the producer's word. Above what can be true it says
// nothing, and sums of it must not roll over.
constexpr uint64_t kMaxBelievedLoss = uint64_t{1} << 48;

uint64_t LoadWriterLossBounded(const Ring& ring, size_t cause) {
  return std::min(ring.LoadWriterLoss(static_cast<LossCause>(cause)),
                  kMaxBelievedLoss);
}

}  // namespace

// Hands what the reader resolves to the assembler.
struct AttachedRing::ChunkSink {
  AttachedRing* ring;

  void OnChunk(const ChunkView& chunk) { ring->assembler_.OnChunk(chunk); }
  void OnDroppedChunk(const DroppedChunk& dropped) {
    ring->assembler_.OnChunkDropped(dropped.writer, dropped.num_fragments,
                                    dropped.flags, dropped.writer_loss);
  }
  void BeforePublication() { ring->PublishLosses(); }
};

AttachedRing::AttachedRing(Options options, RingOwner* owner,
                           BufferSet* buffers)
    : mapping_(std::move(options.mapping)),
      identity_(options.identity),
      metadata_(options.metadata),
      owner_(owner),
      buffers_(buffers),
      threshold_(
          std::min(abi::EffectiveWakeupThreshold(options.wakeup_threshold,
                                                 options.geometry.num_chunks()),
                   options.geometry.num_chunks())),
      slice_positions_(
          std::max<uint64_t>(1, kSliceBytes / options.geometry.chunk_size())),
      reader_(Ring(mapping_.data(), options.geometry)),
      assembler_(this, &owner->budget, options.partial_packet_limit),
      latest_target_(kNoTarget) {
  const Ring& ring = reader_.ring();
  ring.StoreWakeupThreshold(threshold_);
  reader_loss_base_ = ring.LoadReaderLoss();
  if (reader_.had_predecessor()) {
    assembler_.MarkReadGap(reader_.predecessor_left()
                               ? PacketAssembler::SplitPackets::kCountedThere
                               : PacketAssembler::SplitPackets::kCountHere);
    for (size_t i = 0; i < writer_loss_base_.size(); ++i) {
      const uint64_t now = LoadWriterLossBounded(ring, i);
      writer_loss_seen_[i] = writer_loss_base_[i] = now;
      if (!reader_.predecessor_left()) continue;
      // What was lost while nobody was here is for us to count.
      const uint32_t since = static_cast<uint32_t>(now) -
                             ring.LoadLeftWriterLoss(static_cast<LossCause>(i));
      writer_loss_base_[i] -= std::min<uint64_t>(now, since);
    }
  }
}

DrainOutcome AttachedRing::DrainSlice(uint64_t end) {
  ChunkSink sink{this};
  owner_->hear_budget = {};
  const DrainOutcome outcome = reader_.DrainTo(
      std::min(end, reader_.resolved() + slice_positions_), sink, &assembler_);
  if (outcome == DrainOutcome::kStopped) {
    assembler_.Finish(LossCause::kRingStopped);
    PublishLosses();
  }
  return outcome;
}

void AttachedRing::Finish() {
  assembler_.Finish();
  PublishLosses();
  LookAtWriterLosses();
  left_ = true;
  reader_.Leave(writer_loss_seen_);
}

void AttachedRing::LookAtWriterLosses() {
  // What comes later is the next reader's to count.
  if (left_) return;
  for (size_t i = 0; i < writer_loss_seen_.size(); ++i) {
    writer_loss_seen_[i] = std::max(writer_loss_seen_[i],
                                    LoadWriterLossBounded(reader_.ring(), i));
  }
}

// For the producer's API. After another reader has attached the word is its.
void AttachedRing::PublishLosses() {
  if (stopped() && stop().reason == StopReason::kForeignReader) return;
  const uint64_t lost = assembler_.losses().total() +
                        stored_.packets.lost.total() +
                        stored_.metadata.lost.total();
  if (lost == reader_loss_published_) return;
  reader_loss_published_ = lost;
  reader_.ring().StoreReaderLoss(reader_loss_base_ + lost);
}

bool AttachedRing::TakeNewStop() {
  return stopped() && !std::exchange(stop_taken_, true);
}

uint32_t AttachedRing::Outstanding() const {
  const Ring& ring = reader_.ring();
  return std::min(abi::Distance(reader_.read_pos(), ring.LoadWritePosRelaxed()),
                  ring.geometry().num_chunks());
}

bool AttachedRing::AtThreshold() const {
  return OutstandingSeqCst(reader_.ring(), reader_.read_pos()) >= threshold_;
}

bool AttachedRing::Resolve(WriterId, BufferId buffer, Route* route) {
  auto target = owner_->targets.find(buffer.value());
  if (target == owner_->targets.end() && owner_->hear_requests != nullptr &&
      owner_->unknown_buffers.count(buffer.value()) == 0) {
    owner_->hear_requests();
    target = owner_->targets.find(buffer.value());
  }
  if (target == owner_->targets.end()) return false;
  if (owner_->num_sequences >= RingOwner::kMaxSequences) return false;
  const SequenceIndex sequence =
      buffers_->AddSequence(owner_->producer, owner_->uid, owner_->pid);
  if (sequence == SequenceTable::kNone) return false;
  ++owner_->num_sequences;
  *route = {target->second, sequence};
  return true;
}

void AttachedRing::OnRun(const PacketRun& run) {
  const StoreResult result = buffers_->Store(run);
  const bool descriptors = run.route.target == buffers_->metadata_target();
  PacketCounts& counts = descriptors ? stored_.metadata : stored_.packets;
  counts.delivered += result.stored;
  counts.lost[LossCause::kBufferRefused] += result.refused;
  counts.lost[LossCause::kPacketTooLarge] += result.too_large;
  if (result.stored == run.num_packets) {
    counts.delivered_bytes += run.payload_size;
  } else {
    // Buffers keep the first packets of a run and refuse the rest.
    for (uint32_t i = 0; i < result.stored; ++i) {
      counts.delivered_bytes += run.SizeOf(i);
    }
  }
  latest_target_ = run.route.target;
}

RingCounts AttachedRing::Count() {
  RingCounts counts = stored_;
  LossCounts& lost = metadata_ ? counts.metadata.lost : counts.packets.lost;
  lost += assembler_.losses();
  LookAtWriterLosses();
  for (size_t i = 0; i < writer_loss_seen_.size(); ++i) {
    lost.by_cause[i] += writer_loss_seen_[i] - writer_loss_base_[i];
  }
  return counts;
}

RingStats AttachedRing::Stats() {
  const RingCounts counts = Count();
  RingStats stats;
  stats.num_chunks = geometry().num_chunks();
  stats.chunk_size = geometry().chunk_size();
  stats.outstanding = Outstanding();
  stats.stopped = stopped();
  if (stopped()) stats.stop_reason = StopReasonName(stop().reason);
  stats.resolved_by_predecessor = reader_.stats().found_resolved;
  stats.packets = counts.packets;
  stats.metadata_packets = counts.metadata;
  return stats;
}

uint32_t AttachedRing::MainTarget() const {
  if (latest_target_ != kNoTarget) return latest_target_;
  uint32_t first = kNoTarget;
  for (const auto& [id, target] : owner_->targets) {
    first = std::min(first, target);
  }
  return first == kNoTarget ? 0 : first;
}

}  // namespace tracering::internal
