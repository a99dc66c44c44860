// The cold paths of the chunk state machine: publication that did not go as
// usual, relocation, acquisition and waiting. See chunk_writer.h for the
// states and for what is trusted.
#include "src/producer/chunk_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "src/common/os/clock.h"
#include "src/common/ring/capacity_wait.h"
#include "src/common/ring/draining_thread.h"
#include "src/common/ring/notification.h"

namespace tracering::internal {
namespace {

// Reservations that one acquisition may burn on chunks it cannot claim.
constexpr uint32_t kMaxClaimBudget = 8;

bool IsAcquired(uint32_t word) {
  return abi::StateOf(word) == abi::State::kAcquired;
}

}  // namespace

LossCause CauseOf(ChunkOutcome outcome) {
  switch (outcome) {
    case ChunkOutcome::kRingFull:
      return LossCause::kRingFull;
    case ChunkOutcome::kNoChunkAvailable:
      return LossCause::kNoChunkAvailable;
    case ChunkOutcome::kStallTimeout:
      return LossCause::kStallTimeout;
    case ChunkOutcome::kPoisoned:
      return LossCause::kRingPoisoned;
    case ChunkOutcome::kOk:
    case ChunkOutcome::kClosed:
      break;
  }
  return LossCause::kWriterAbort;
}

ChunkWriter::ChunkWriter(ProducerRing& ring, PacketAccount& account,
                         WriterId id, BufferId buffer,
                         const WriterOptions& options, bool owes_loss)
    : ring_(ring),
      state_(ring.ring().StateOf(abi::ChunkIndex(0))),
      entry_size_(
          static_cast<uint8_t>(ring.ring().geometry().dir_entry_size())),
      owes_loss_(owes_loss),
      may_stall_(options.policy == BufferExhaustedPolicy::kStall),
      stall_timeout_ns_(options.stall_timeout.count()),
      account_(account),
      chunk_size_(ring.ring().geometry().chunk_size()),
      claim_budget_(
          std::min(ring.ring().geometry().num_chunks(), kMaxClaimBudget)),
      id_(id),
      buffer_(buffer) {
  Forget();
  if (id != WriterId()) {
    scratch_.reset(new (std::nothrow) uint8_t[chunk_size_]);
  }
}

// --- Publication ---

void ChunkWriter::AfterPublication() {
  if ((attention_ & kNotify) != 0) Notify();
  if ((attention_ & kNoReuse) != 0 || IsFullWord(word_)) Forget();
}

// The first attempt, for the one fragment at `start`, found `observed`. Every
// further one is for a suffix that has just moved, and may find that its new
// chunk was scraped as well.
void ChunkWriter::PublishElsewhere(uint32_t observed, uint8_t* start) {
  uint8_t* end = payload_cursor_;
  suffix_ = start;
  SetPending(1);
  if (MoveSuffix(observed, &end) != ChunkOutcome::kOk) return;
  PublishFinalised();
}

// The batch around the open packet has ended.
void ChunkWriter::FinaliseAndPublish(uint8_t* cur) {
  CloseFragment(cur);
  SetPending(pending() + 1);
  PublishFinalised();
}

void ChunkWriter::PublishFinalised() {
  for (;;) {
    const uint32_t complete = CompleteWord(pending());
    uint32_t observed = word_;
    if (state_.TryPublish(observed, complete)) {
      word_ = complete;
      SetPending(0);
      AfterPublication();
      return;
    }
    uint8_t* end = payload_cursor_;
    if (MoveSuffix(observed, &end) != ChunkOutcome::kOk) return;
  }
}

void ChunkWriter::Settle() {
  if (!IsAcquired(word_)) return;
  if (pending() != 0) {
    PublishFinalised();
    return;
  }
  if (abi::NumFragmentsOf(word_) == 0) return;
  // Back to what it was before TryReuse.
  const uint32_t complete = abi::WithState(word_, abi::State::kComplete);
  uint32_t observed = word_;
  if (state_.TryPublish(observed, complete)) {
    word_ = complete;
    return;
  }
  // Scraped: the reader has all there was.
  Acknowledge(observed);
  Forget();
}

// Publishes one empty fragment with `flags` and lets go of the chunk. Where
// the reader was faster there is nothing worth moving. Nothing is finalised.
bool ChunkWriter::PublishEmpty(uint32_t flags) {
  abi::StoreDirEntry(dir_cursor_ - entry_size_, entry_size_, 0);
  uint32_t observed = word_;
  const bool published = state_.TryPublish(observed, CompleteWord(1) | flags);
  if (published) {
    if ((attention_ & kNotify) != 0) Notify();
  } else {
    Acknowledge(observed);
    // The mark was on a chunk of which nothing was taken.
    if (abi::NumFragmentsOf(word_) == 0 && (word_ & abi::kFlagDataLoss) != 0) {
      OweLoss();
      account_.LoseChunk();
    }
  }
  Forget();
  return published;
}

bool ChunkWriter::PublishUnfinished() {
  if (!PublishEmpty(abi::kFlagContinuesOnNext)) return false;
  split_position_ = *last_position_;
  return true;
}

void ChunkWriter::GiveBack() {
  if (IsAcquired(word_)) {
    if (pending() == 0 && abi::NumFragmentsOf(word_) == 0) {
      if (PublishEmpty(0)) account_.Attempt();
    } else {
      Settle();
    }
  }
  Forget();
}

void ChunkWriter::Notify() const {
  NotifyIfArmed(ring_.ring(), ring_.event_fd());
}

void ChunkWriter::Forget() {
  payload_cursor_ = dir_cursor_ = suffix_ = nullptr;
  word_ = 0;
  attention_ = 0;
  SetPending(0);
}

// --- Packets that go on ---

ChunkOutcome ChunkWriter::OpenInFreshChunk(FragmentRange* range) {
  GiveBack();
  // No read-modify-write: only signal handlers on this thread write it besides,
  // and a loss of theirs precedes this chunk, too.
  const bool owed = owes_loss();
  if (owed) owes_loss_.store(false, std::memory_order_relaxed);
  const ChunkOutcome outcome = Acquire(owed ? abi::kFlagDataLoss : 0);
  if (outcome != ChunkOutcome::kOk) {
    if (owed) OweLoss();
    return outcome;
  }
  // Before the flag is published, so that who sees it also sees the causes.
  if (owed) account_.Fold();
  account_.TakeChunk();
  *range = OpenRange();
  return ChunkOutcome::kOk;
}

ChunkOutcome ChunkWriter::Continue(uint8_t* cur, FragmentRange* range,
                                   bool* split) {
  for (;;) {
    abi::StoreDirEntry(dir_cursor_ - entry_size_, entry_size_,
                       static_cast<uint32_t>(cur - payload_cursor_));
    uint32_t observed = word_;
    if (state_.TryPublish(observed, CompleteWord(pending() + 1) |
                                        abi::kFlagContinuesOnNext)) {
      *split = true;
      split_position_ = *last_position_;
      if ((attention_ & kNotify) != 0) Notify();
      Forget();
      // Not the data-loss flag, even if one is owed: that loss is not between
      // the parts of this packet.
      const ChunkOutcome outcome = Acquire(abi::kFlagContinuesFromPrevious);
      if (outcome == ChunkOutcome::kOk) *range = OpenRange();
      return outcome;
    }
    const ChunkOutcome outcome = MoveSuffix(observed, &cur);
    if (outcome != ChunkOutcome::kOk) return outcome;
    if (uint8_t* const end = OpenRange().end; cur != end) {
      *range = {cur, end};
      return ChunkOutcome::kOk;
    }
    // Nothing had been taken, so that the replacement is as full.
  }
}

// --- Relocation ---

// Moves what is unpublished, up to *cur, into a chunk of its own, after the
// publication found `observed`. The old chunk is acknowledged before another
// is looked for: a full ring must not keep it occupied. On anything but kOk
// the finalised fragments are counted as lost and no chunk is held.
ChunkOutcome ChunkWriter::MoveSuffix(uint32_t observed, uint8_t** cur) {
  const uint32_t finalised = pending();
  // Flags belong to the first fragment: they move unless the reader took it.
  const uint32_t flags =
      abi::NumFragmentsOf(word_) == 0 ? abi::FlagsOf(word_) : 0;
  uint8_t* const suffix = finalised != 0 ? suffix_ : payload_cursor_;
  const auto payload_size = static_cast<size_t>(*cur - suffix);
  const auto open_offset = static_cast<size_t>(payload_cursor_ - suffix);
  const size_t directory_size = size_t{finalised} * entry_size_;

  // The scratch is laid out like the chunk. Both sides of the gap are copied
  // and neither is parsed: the other process can write there.
  std::memcpy(scratch_.get(), suffix, payload_size);
  uint8_t* const scratch_directory =
      scratch_.get() + chunk_size_ - directory_size;
  std::memcpy(scratch_directory, dir_cursor_, directory_size);

  const bool acknowledged = Acknowledge(observed);
  Forget();
  ChunkOutcome outcome = ChunkOutcome::kPoisoned;
  if (acknowledged) outcome = Acquire(flags);
  if (outcome != ChunkOutcome::kOk) {
    if (ring_.mode() == RingMode::kClosed) outcome = ChunkOutcome::kClosed;
    LoseSuffix(outcome, finalised, flags);
    return outcome;
  }

  std::memcpy(payload_cursor_, scratch_.get(), payload_size);
  *cur = payload_cursor_ + payload_size;
  payload_cursor_ += open_offset;
  dir_cursor_ -= directory_size;
  std::memcpy(dir_cursor_, scratch_directory, directory_size);
  SetPending(finalised);
  if (finalised != 0) attention_ |= kNoReuse;
  return ChunkOutcome::kOk;
}

// The reader asked for the held chunk, and our last access to it was made.
// False, and the ring is poisoned, if `observed` says anything else.
bool ChunkWriter::Acknowledge(uint32_t observed) {
  if (observed == abi::WithState(word_, abi::State::kRewriteRequested) &&
      state_.TryAcknowledge(observed)) {
    return true;
  }
  ring_.Poison();
  return false;
}

void ChunkWriter::LoseSuffix(ChunkOutcome outcome, uint32_t finalised,
                             uint32_t flags) {
  if ((flags & abi::kFlagDataLoss) != 0) {
    OweLoss();
    account_.LoseChunk();
  }
  if (finalised == 0) return;
  if (outcome == ChunkOutcome::kClosed) {
    account_.Retract(finalised);
    return;
  }
  // The reader knows the packet whose first part it got.
  std::optional<abi::Position> part;
  if ((flags & abi::kFlagContinuesFromPrevious) != 0) part = split_position_;
  account_.Lose(CauseOf(outcome), finalised, part);
  OweLoss();
}

// --- Acquisition ---

// Claims a chunk whose Acquired word carries `flags`, waiting by policy.
ChunkOutcome ChunkWriter::Acquire(uint32_t flags) {
  for (;;) {
    const RingMode mode = ring_.mode();
    if (mode == RingMode::kClosed) return ChunkOutcome::kClosed;
    if (mode == RingMode::kPoisoned) return ChunkOutcome::kPoisoned;
    abi::Position read_pos;
    ChunkOutcome outcome = TryAcquire(flags, &read_pos);
    if (outcome == ChunkOutcome::kOk || !MayWait()) return outcome;
    outcome = Wait(read_pos, outcome);
    if (outcome == ChunkOutcome::kOk) continue;
    return ring_.mode() == RingMode::kClosed ? ChunkOutcome::kClosed : outcome;
  }
}

// Reserves until a claim succeeds, the budget is spent or the ring is full.
// Each reservation authorises one claim, against its own wrap count. On
// failure `read_pos` is what a stalling writer waits on.
ChunkOutcome ChunkWriter::TryAcquire(uint32_t flags, abi::Position* read_pos) {
  const Ring& ring = ring_.ring();
  const abi::Geometry& geometry = ring.geometry();
  const uint32_t word = abi::MakeDataWord(abi::State::kAcquired, id_, 0, flags);
  bool claim_failed = false;
  for (uint32_t budget = claim_budget_; budget != 0; --budget) {
    Reservation reservation;
    const ReserveOutcome outcome = ring.TryReserve(&reservation);
    *read_pos = reservation.read_pos;
    if (outcome == ReserveOutcome::kFull) {
      Notify();
      if (!claim_failed) return ChunkOutcome::kRingFull;
      break;
    }
    const abi::Position position = reservation.position;
    ChunkState state = ring.StateOf(geometry.IndexOf(position));
    if (state.TryClaim(geometry.WrapOf(position), word)) {
      TakeChunk(position, word);
      if (reservation.distance >= ring.LoadWakeupThreshold()) {
        attention_ |= kNotify;
      }
      return ChunkOutcome::kOk;
    }
    // The position is a hole now. Holes alone can fill the ring, so that the
    // reader must hear of it.
    claim_failed = true;
    Notify();
  }
  return ChunkOutcome::kNoChunkAvailable;
}

void ChunkWriter::TakeChunk(abi::Position position, uint32_t word) {
  const Ring& ring = ring_.ring();
  const abi::ChunkIndex index = ring.geometry().IndexOf(position);
  state_ = ring.StateOf(index);
  uint8_t* const chunk = ring.ChunkBytes(index);
  const size_t ahead = std::min<size_t>(chunk_size_, kWriteAhead);
  for (size_t at = 0; at < ahead; at += kCacheLine) {
    PrefetchForWrite(chunk + at);
  }
  PrefetchForWrite(chunk + chunk_size_ - 1);
  abi::StoreBufferId(chunk, buffer_);
  payload_cursor_ = suffix_ = chunk + abi::kPayloadStart;
  dir_cursor_ = chunk + chunk_size_;
  word_ = word;
  last_position_ = position;
  stall_expired_ = false;
}

bool ChunkWriter::MayWait() const {
  return may_stall_ && !stall_expired_ &&
         ring_.consumer_attached().load(std::memory_order_acquire) &&
         !DrainingSeat::IsTakenByThisThread();
}

// kOk: try again. `otherwise` is why there was no chunk.
ChunkOutcome ChunkWriter::Wait(abi::Position read_pos, ChunkOutcome otherwise) {
  if (deadline_ns_ == 0) {
    const int64_t now = os::MonotonicNs();
    const int64_t latest = std::numeric_limits<int64_t>::max();
    deadline_ns_ =
        stall_timeout_ns_ < latest - now ? now + stall_timeout_ns_ : latest;
  }
  switch (WaitForCapacity(ring_.ring(), read_pos, deadline_ns_,
                          ring_.event_fd(), ring_.consumer_attached())) {
    case CapacityWaitOutcome::kRetry:
      return ChunkOutcome::kOk;
    case CapacityWaitOutcome::kNoConsumer:
      return otherwise;
    case CapacityWaitOutcome::kDeadline:
      break;
  }
  stall_expired_ = true;
  return ChunkOutcome::kStallTimeout;
}

}  // namespace tracering::internal
