// The rules of src/common/ring/chunk_state.h and control_words.h, enforced; see
// ring_monitor.h.
#include "tests/explore/ring_monitor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "src/common/abi/state_word.h"

namespace tracering::test {

using abi::State;

namespace {

constexpr uint8_t kSpoilt = 0xdd;

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }

}  // namespace

RingMonitor::RingMonitor(const internal::Ring& ring, int num_writers,
                         std::function<abi::Position()> resolving)
    : ring_(ring),
      reader_(num_writers),
      resolving_(std::move(resolving)),
      chunks_(ring.geometry().num_chunks()),
      reserved_(static_cast<size_t>(num_writers)) {
  for (Chunk& chunk : chunks_) chunk.bytes.resize(geometry().chunk_size());
}

void RingMonitor::Begin() {
  for (auto& reserved : reserved_) reserved.reset();
  for (uint32_t i = 0; i < chunks_.size(); ++i) {
    std::memcpy(&chunks_[i].word, BytesOf(i), sizeof(uint32_t));
    chunks_[i].position = {};
    Spoil(i, abi::kTargetBufferIdOffset, geometry().chunk_size());
  }
  std::memcpy(&read_pos_, &ring_.words().read_pos, sizeof(read_pos_));
}

void RingMonitor::Fail(Invariant invariant, const Step& step,
                       const char* what) const {
  Explorer::Fail(invariant,
                 "party " + std::to_string(step.party) + ": " + what);
}

RingMonitor::Published RingMonitor::PublishedIn(uint32_t index,
                                                uint32_t word) const {
  const uint32_t num_fragments = abi::NumFragmentsOf(word);
  Published published{abi::kPayloadStart, geometry().chunk_size()};
  if (num_fragments == 0) {
    published.payload_end = abi::kTargetBufferIdOffset;
    return published;
  }
  for (uint32_t i = 0; i < num_fragments; ++i) {
    published.directory = abi::DirEntryOffset(geometry(), i);
    published.payload_end += abi::LoadDirEntry(
        BytesOf(index) + published.directory, geometry().dir_entry_size());
  }
  // A mutant may have written anything.
  published.payload_end =
      std::min(published.payload_end, geometry().chunk_size());
  return published;
}

void RingMonitor::Spoil(uint32_t index, uint32_t begin, uint32_t end) {
  std::memset(BytesOf(index) + begin, kSpoilt, end - begin);
  std::memset(chunks_[index].bytes.data() + begin, kSpoilt, end - begin);
}

// What changed since the last step, the party has written.
void RingMonitor::BeforeStep(int party) {
  constexpr uint32_t kBegin = abi::kTargetBufferIdOffset;
  const uint32_t size = geometry().chunk_size();
  for (uint32_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    const uint8_t* const bytes = BytesOf(i);
    if (std::memcmp(bytes + kBegin, chunk.bytes.data() + kBegin,
                    size - kBegin) == 0) {
      continue;
    }
    const State state = abi::StateOf(chunk.word);
    const bool owner =
        party != reader_ &&
        (state == State::kAcquired || state == State::kRewriteRequested) &&
        abi::WriterIdOf(chunk.word) == IdOf(party);
    const Published published =
        owner ? PublishedIn(i, chunk.word) : Published{size, size};
    for (uint32_t at = kBegin; at < size; ++at) {
      if (bytes[at] == chunk.bytes[at]) continue;
      if (!owner || at < published.payload_end || at >= published.directory) {
        Explorer::Fail(Invariant::kOwnership,
                       "party " + std::to_string(party) + " wrote byte " +
                           std::to_string(at) + " of chunk " +
                           std::to_string(i) + ", which is not its own");
        return;
      }
    }
    std::memcpy(chunk.bytes.data() + kBegin, bytes + kBegin, size - kBegin);
  }
}

void RingMonitor::AfterStep(const Step& step, size_t offset) {
  if (!step.changed && step.kind == StepKind::kCompareExchange &&
      offset >= abi::kControlHeaderSize && step.party != reader_) {
    // A reservation is good for one attempt.
    reserved_[static_cast<size_t>(step.party)].reset();
  }
  if (!step.changed || step.kind == StepKind::kFutexWait ||
      step.kind == StepKind::kFutexWake ||
      step.kind == StepKind::kFutexTimeOut) {
    return;
  }
  if (offset >= abi::kControlHeaderSize) {
    OnState(step, static_cast<uint32_t>((offset - abi::kControlHeaderSize) /
                                        geometry().chunk_size()));
  } else if (offset == abi::kWritePosOffset) {
    OnWritePos(step);
  } else if (offset == abi::kReadPosOffset) {
    OnReadPos(step);
  } else {
    OnHeaderWord(step, offset);
  }
}

// --- Chunks ---

void RingMonitor::OnState(const Step& step, uint32_t index) {
  const State before = abi::StateOf(Low(step.before));
  const State after = abi::StateOf(Low(step.after));
  if (after == State::kFreeForWrap) {
    OnFreed(step, index);
  } else if (before == State::kFreeForWrap) {
    OnClaim(step, index);
  } else {
    OnHeldChunk(step, index);
  }
  chunks_[index].word = Low(step.after);
}

void RingMonitor::OnClaim(const Step& step, uint32_t index) {
  if (step.party == reader_) {
    return Fail(Invariant::kLegalStep, step, "a reader claims a chunk");
  }
  const auto party = static_cast<size_t>(step.party);
  if (!reserved_[party].has_value()) {
    return Fail(Invariant::kFifo, step, "a claim without a reservation");
  }
  const abi::Position position = *std::exchange(reserved_[party], {});
  if (geometry().IndexOf(position).value() != index ||
      abi::FreeForWrap(geometry().WrapOf(position)) != Low(step.before)) {
    return Fail(Invariant::kFifo, step,
                "a claim of what is free for another position");
  }
  if (abi::Distance(resolving_(), position) >= geometry().num_chunks()) {
    return Fail(Invariant::kFifo, step, "a claim behind the reader");
  }
  if ((Low(step.after) & ~abi::kFlagsMask) !=
      abi::MakeDataWord(State::kAcquired, IdOf(step.party), 0, 0)) {
    return Fail(Invariant::kLegalStep, step, "a claim with a strange word");
  }
  chunks_[index].position = position;
}

// From and to words of a chunk that is held by a writer, or was.
void RingMonitor::OnHeldChunk(const Step& step, uint32_t index) {
  const uint32_t before = Low(step.before);
  const uint32_t after = Low(step.after);
  const State from = abi::StateOf(before);
  const State to = abi::StateOf(after);
  const bool owner = step.party != reader_ && from != State::kAcknowledged &&
                     abi::WriterIdOf(before) == IdOf(step.party);
  const bool same_rest =
      (before & abi::kLowBitsMask) == (after & abi::kLowBitsMask);

  if (from == State::kAcquired && to == State::kRewriteRequested &&
      step.party == reader_ && same_rest) {
    if (chunks_[index].position != resolving_()) {
      return Fail(Invariant::kFifo, step, "a rewrite request out of turn");
    }
    // The reader has its copy, and the writer goes on behind it.
    const Published published = PublishedIn(index, before);
    Spoil(index, abi::kTargetBufferIdOffset, published.payload_end);
    Spoil(index, published.directory, geometry().chunk_size());
    return;
  }
  if (!owner) {
    return Fail(Invariant::kLegalStep, step, "somebody else's chunk changes");
  }
  if (from == State::kAcquired && to == State::kComplete) {
    constexpr uint32_t kMayChange =
        abi::kStateMask | abi::kNumFragmentsMask | abi::kFlagContinuesOnNext;
    if (((before ^ after) & ~kMayChange) != 0 ||
        abi::NumFragmentsOf(after) == 0 ||
        abi::NumFragmentsOf(after) < abi::NumFragmentsOf(before)) {
      Fail(Invariant::kLegalStep, step, "a strange publication");
    }
    return;
  }
  if (from == State::kComplete && to == State::kAcquired && same_rest &&
      (before & abi::kFlagContinuesOnNext) == 0) {
    return;
  }
  if (from == State::kRewriteRequested && after == abi::kAcknowledgedWord) {
    // The writer has finished every access.
    Spoil(index, abi::kTargetBufferIdOffset, geometry().chunk_size());
    return;
  }
  Fail(Invariant::kLegalStep, step, "no transition of a writer");
}

void RingMonitor::OnFreed(const Step& step, uint32_t index) {
  if (step.party != reader_) {
    return Fail(Invariant::kReaderFrees, step, "frees a chunk");
  }
  const abi::Position position = resolving_();
  const uint32_t before = Low(step.before);
  if (geometry().IndexOf(position).value() != index) {
    return Fail(Invariant::kFifo, step, "frees a chunk out of turn");
  }
  if (Low(step.after) != abi::FreeForWrap(geometry().NextWrapOf(position))) {
    return Fail(Invariant::kLegalStep, step, "frees for a wrong wrap");
  }
  switch (abi::StateOf(before)) {
    case State::kFreeForWrap:
      if (before == abi::FreeForWrap(geometry().WrapOf(position))) break;
      return Fail(Invariant::kFifo, step, "passes a hole twice");
    case State::kComplete:
      if (chunks_[index].position == position) break;
      return Fail(Invariant::kFifo, step, "takes a chunk out of turn");
    case State::kAcknowledged:
      break;
    default:
      return Fail(Invariant::kLegalStep, step, "frees a chunk that is held");
  }
  // The reader has its copy, and nobody has claimed it yet.
  Spoil(index, abi::kTargetBufferIdOffset, geometry().chunk_size());
}

// --- The header ---

void RingMonitor::OnWritePos(const Step& step) {
  if (step.party == reader_ || Low(step.after) != Low(step.before) + 1) {
    return Fail(Invariant::kLegalStep, step, "no reservation");
  }
  if (Low(step.after) - read_pos_ > geometry().num_chunks()) {
    return Fail(Invariant::kFifo, step, "a reservation in a full ring");
  }
  reserved_[static_cast<size_t>(step.party)] = abi::Position(Low(step.before));
}

void RingMonitor::OnReadPos(const Step& step) {
  if (step.party != reader_) {
    return Fail(Invariant::kLegalStep, step, "a writer moves read_pos");
  }
  const abi::Position after(Low(step.after));
  if (abi::Distance(after, resolving_()) > geometry().num_chunks()) {
    return Fail(Invariant::kFifo, step, "gives positions back too early");
  }
  for (abi::Position p(Low(step.before)); p != after; p = p.Next()) {
    const Chunk& chunk = chunks_[geometry().IndexOf(p).value()];
    const State state = abi::StateOf(chunk.word);
    const bool still_held =
        (state == State::kAcquired || state == State::kComplete) &&
        chunk.position == p;
    if (still_held || chunk.word == abi::FreeForWrap(geometry().WrapOf(p))) {
      return Fail(Invariant::kFifo, step, "leaves a position unresolved");
    }
  }
  read_pos_ = after.value();
}

void RingMonitor::OnHeaderWord(const Step& step, size_t offset) {
  const bool reader = step.party == reader_;
  switch (offset) {
    case abi::kReaderArmedOffset:
      // Both may disarm.
      if (reader || step.after == 0) return;
      break;
    case abi::kNumWritersWaitingOffset:
      if (!reader) return;
      break;
    default:
      if (!reader && offset >= abi::kWriterLossOffset &&
          step.after > step.before) {
        return;
      }
      break;
  }
  Fail(Invariant::kLegalStep, step, "a word of the header is not its own");
}

}  // namespace tracering::test
