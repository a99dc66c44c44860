// Packets, batches and release of one writer; see trace_writer_impl.h. The
// first functions are the hot path: read their generated code after a change.
#include "src/producer/trace_writer_impl.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tracering {

using internal::TraceWriterImpl;

WriterBatch TraceWriter::Batch() { return WriterBatch(this); }

WriterStats TraceWriter::stats() const {
  return static_cast<const TraceWriterImpl*>(this)->ReadStats();
}

WriterId TraceWriter::id() const {
  return static_cast<const TraceWriterImpl*>(this)->writer_id();
}

BufferId TraceWriter::target_buffer() const {
  return static_cast<const TraceWriterImpl*>(this)->buffer_id();
}

WriterBatch::WriterBatch(TraceWriter* writer) : writer_(writer) {
  static_cast<TraceWriterImpl*>(writer_)->BeginBatch();
}

WriterBatch::~WriterBatch() {
  static_cast<TraceWriterImpl*>(writer_)->EndBatch();
}

namespace internal {

uint8_t* OpenPacket(TraceWriter* writer, uint8_t** end) noexcept {
  const FragmentRange range = static_cast<TraceWriterImpl*>(writer)->Open();
  *end = range.end;
  return range.cur;
}

void ClosePacket(TraceWriter* writer, uint8_t* cur) noexcept {
  static_cast<TraceWriterImpl*>(writer)->Close(cur);
}

// A packet while another is open. The open one, its chunk and the cold members
// belong to code that is interrupted or further up the stack.
FragmentRange TraceWriterImpl::OpenNested() noexcept {
  const RingMode mode = ring_->mode();
  if (state() != PacketState::kReleased &&
      (mode == RingMode::kOn || mode == RingMode::kPoisoned)) {
    account_.LoseNested();
    chunk_.OweLoss();
  }
  return {nullptr, nullptr};
}

FragmentRange TraceWriterImpl::OpenCold() noexcept {
  const RingMode mode = ring_->mode();
  if (mode == RingMode::kOff || mode == RingMode::kClosed) {
    Leave();
    return {nullptr, nullptr};
  }
  Enter(PacketState::kOpenCold);
  if (id_ == WriterId()) {
    reason_ = LossCause::kNoWriterId;
    swallowing_ = true;
    return SinkRange();
  }
  if (mode == RingMode::kPoisoned) return Swallow(ChunkOutcome::kPoisoned);
  FragmentRange range;
  const ChunkOutcome outcome = chunk_.OpenInFreshChunk(&range);
  return outcome == ChunkOutcome::kOk ? range : Swallow(outcome);
}

FragmentRange TraceWriterImpl::Append(FragmentRange range, const uint8_t* data,
                                      size_t size) noexcept {
  for (;;) {
    // Swallowed bytes need not be copied; the sink takes what comes next.
    if (swallowing_) return SinkRange();
    const auto room = static_cast<size_t>(range.end - range.cur);
    const size_t piece = std::min(room, size);
    if (piece != 0) std::memcpy(range.cur, data, piece);
    range.cur += piece;
    data += piece;
    size -= piece;
    if (size == 0) return range;
    Enter(PacketState::kOpenCold);
    const ChunkOutcome outcome = chunk_.Continue(range.cur, &range, &split_);
    if (outcome != ChunkOutcome::kOk) range = Swallow(outcome);
  }
}

FragmentRange TraceWriterImpl::Swallow(ChunkOutcome outcome) {
  swallowing_ = true;
  if (outcome != ChunkOutcome::kClosed) reason_ = CauseOf(outcome);
  return SinkRange();
}

void TraceWriterImpl::CloseCold(uint8_t* cur) noexcept {
  if (state() == PacketState::kReleased) return;
  if (swallowing_) {
    if (reason_.has_value()) LosePacket(*reason_, split_);
  } else {
    CloseFragment(cur);
  }
  EndPacket();
}

void TraceWriterImpl::Discard(uint8_t* cur) noexcept {
  if (cur == nullptr || state() == PacketState::kReleased) return;
  Enter(PacketState::kOpenCold);
  if (split_) {
    if (!swallowing_) {
      chunk_.PublishUnfinished();
      reason_ = LossCause::kWriterAbort;
    }
    if (reason_.has_value()) LosePacket(*reason_, true);
  } else {
    account_.Discard();
    // Also in a batch: what it has finalised so far is published early.
    if (!swallowing_) chunk_.Settle();
  }
  EndPacket();
}

// The packet counts as attempted and lost; the next chunk will say so.
void TraceWriterImpl::LosePacket(LossCause cause, bool seen_by_reader) {
  account_.Attempt();
  std::optional<abi::Position> part;
  if (seen_by_reader) part = chunk_.split_position();
  account_.Lose(cause, 1, part);
  chunk_.OweLoss();
}

void TraceWriterImpl::EndPacket() {
  swallowing_ = false;
  split_ = false;
  reason_.reset();
  chunk_.EndDeadline();
  Leave();
}

void TraceWriterImpl::EndBatch() {
  if (state() == PacketState::kReleased) return;
  // While a packet is open, its end publishes.
  if (--batch_depth_ == 0) PublishPending();
}

void TraceWriterImpl::PublishPending() {
  if (state() != PacketState::kIdle) return;
  Enter(PacketState::kBusy);
  chunk_.Settle();
  chunk_.EndDeadline();
  Leave();
}

TraceWriterImpl::TraceWriterImpl(std::shared_ptr<ProducerRing> ring,
                                 WriterLease lease, BufferId buffer,
                                 const WriterOptions& options)
    : chunk_(*ring, account_, lease.id, buffer, options, lease.owes_loss),
      account_(*ring),
      ring_(std::move(ring)),
      id_(chunk_.usable() ? lease.id : WriterId()),
      buffer_(buffer) {
  if (lease.left_partial.has_value()) {
    account_.LeavePartial(*lease.left_partial);
  }
}

TraceWriterImpl::~TraceWriterImpl() { Release(); }

ReleasedWriter TraceWriterImpl::Release() {
  if (state() == PacketState::kReleased) return released_;
  if (state() != PacketState::kIdle) AbandonPacket();
  Enter(PacketState::kBusy);
  chunk_.GiveBack();
  account_.Fold();
  released_.last_position = chunk_.last_position();
  released_.owes_loss = chunk_.owes_loss();
  released_.left_partial = account_.left_partial();
  // For a packet that is still open somewhere up the stack.
  swallowing_ = true;
  Enter(PacketState::kReleased);
  return released_;
}

void TraceWriterImpl::AbandonPacket() {
  Enter(PacketState::kOpenCold);
  if (!swallowing_) {
    reason_ = LossCause::kWriterAbort;
    // In a chunk with nothing else there must be something to publish.
    if (split_ || !chunk_.HoldsFragments()) {
      split_ = chunk_.PublishUnfinished() || split_;
    }
  }
  if (reason_.has_value()) LosePacket(*reason_, split_);
  EndPacket();
}

}  // namespace internal
}  // namespace tracering
