// The state machine of one writer over one ring: which chunk it holds, what of
// it is published, and where an open fragment goes.
//
//               +------------------ nothing held <---------------------+
//               | claim                  ^                             |
//               v                        | full, flagged, reclaimed    |
//   Acquired, n published, k finalised --+--> Complete, cached --------+
//        |  ^       publish                        |
//        |  +------------------ reuse -------------+
//        | the reader took the first n
//        +--> copy the rest, acknowledge, claim another chunk, go on there
//
// What is open or finalised is private until the state word says otherwise. One
// compare-exchange publishes all finalised fragments. The word that stands in
// the chunk is known at any time (`word_`); the only other one that the reader
// may have put in place of an Acquired word is the rewrite request for it, and
// anything else poisons the ring for the producer.
//
// Owned by one thread; nothing here is reentrant, allocates after construction,
// locks or logs. Only claims under BufferExhaustedPolicy::kStall wait. Losses
// of finalised packets are counted here; those of the open one by the caller.
#ifndef TRACERING_SRC_PRODUCER_CHUNK_WRITER_H_
#define TRACERING_SRC_PRODUCER_CHUNK_WRITER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/position.h"
#include "src/common/abi/state_word.h"
#include "src/common/ring/chunk_state.h"
#include "src/common/sync/prefetch.h"
#include "src/producer/packet_account.h"
#include "src/producer/producer_ring.h"
#include "tracering/ids.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

// Where an open fragment may be written.
struct FragmentRange {
  uint8_t* cur;
  uint8_t* end;
};

enum class ChunkOutcome {
  kOk,
  kRingFull,          // the logical distance reached num_chunks
  kNoChunkAvailable,  // positions were reserved, none of their chunks claimed
  kStallTimeout,      // the packet's deadline passed
  kPoisoned,          // a word stood where only a rewrite request may stand
  kClosed,            // the producer is gone, or we are in a forked child
};

class ChunkWriter {
 public:
  // `ring` and `account` outlive this object. `owes_loss`: the first chunk is
  // to say that data was lost before it.
  ChunkWriter(ProducerRing& ring, PacketAccount& account, WriterId id,
              BufferId buffer, const WriterOptions& options, bool owes_loss);
  ChunkWriter(const ChunkWriter&) = delete;
  ChunkWriter& operator=(const ChunkWriter&) = delete;

  // False if the scratch could not be allocated: the writer must not be used.
  bool usable() const { return scratch_ != nullptr; }

  // --- The path of a packet that fits ---
  // At most one fragment is open. `cur` is the end of what was written to it.

  // Opens a fragment in the held chunk, taking a cached one back. False if no
  // chunk is held, it is full, or the reader has reclaimed it: then
  // OpenInFreshChunk is next. Not to be called while a loss is owed.
  bool TryOpen(FragmentRange* range) {
    // Copies: to the compiler an atomic operation may change any member.
    uint8_t* const cur = payload_cursor_;
    uint8_t* const directory = dir_cursor_;
    const uint32_t entry_size = entry_size_;
    const uint32_t word = word_;
    const auto room = static_cast<size_t>(directory - cur);
    if (room < entry_size) return false;
    PrefetchForWrite(cur + std::min(room, kWriteAhead));
    if (abi::StateOf(word) == abi::State::kComplete) {
      if (!state_.TryReuse(word)) return false;
      word_ = abi::WithState(word, abi::State::kAcquired);
    }
    *range = {cur, directory - entry_size};
    return true;
  }

  // Closes the open fragment and publishes all finalised ones.
  void Publish(uint8_t* cur) {
    if (pending() != 0) {
      FinaliseAndPublish(cur);
      return;
    }
    uint8_t* const start = payload_cursor_;
    CloseFragment(cur);
    const uint32_t complete = CompleteWord(1);
    uint32_t observed = word_;
    if (!state_.TryPublish(observed, complete)) {
      PublishElsewhere(observed, start);
      return;
    }
    word_ = complete;
    if (attention_ != 0 || IsFullWord(complete)) AfterPublication();
  }

  // Closes the open fragment and leaves it for the next publication.
  void Finalise(uint8_t* cur) {
    const uint32_t finalised = pending() + 1;
    if (finalised == 1) suffix_ = payload_cursor_;
    CloseFragment(cur);
    SetPending(finalised);
    if ((attention_ & kNoReuse) != 0 || IsFullWord(CompleteWord(finalised))) {
      PublishFinalised();
    }
  }

  // Fragments that are finalised and not published. Any thread may ask.
  uint32_t pending() const { return pending_.load(std::memory_order_relaxed); }

  // The data-loss flag: it goes into the claim of the next chunk that begins
  // with a new packet. Signal handlers on the owner's thread may owe one too.
  bool owes_loss() const { return owes_loss_.load(std::memory_order_relaxed); }
  void OweLoss() { owes_loss_.store(true, std::memory_order_relaxed); }

  // --- Everything else; no fragment is open unless stated ---

  // Gives the held chunk back and opens a fragment, the first of its packet,
  // in a chunk of its own.
  [[nodiscard]] ChunkOutcome OpenInFreshChunk(FragmentRange* range);

  // The open fragment is full and its packet goes on. On kOk `range` is where:
  // in place in the replacement of a chunk that was scraped of something, else
  // in a next chunk. On anything else the fragment is gone. `split` becomes
  // true once a part of the packet is published.
  [[nodiscard]] ChunkOutcome Continue(uint8_t* cur, FragmentRange* range,
                                      bool* split);

  // Publishes what is finalised, and ends a reuse that published nothing. A
  // fragment that was open is forgotten. A chunk that holds nothing at all
  // stays acquired for the next packet.
  void Settle();

  // The open fragment belongs to a packet of which a part is published, or of
  // which none need be: leaves an unfinished packet that the reader finds and
  // counts. False if nothing was published and nobody will count it.
  bool PublishUnfinished();

  // Publishes what is finalised and holds no chunk afterwards. One that holds
  // nothing at all gets an empty packet, since a chunk without any cannot be
  // handed back.
  void GiveBack();

  // Ends the deadline of a packet. The first wait after it starts a new one.
  void EndDeadline() { deadline_ns_ = 0; }

  // Whether the held chunk has fragments, other than an open one.
  bool HoldsFragments() const {
    return abi::StateOf(word_) == abi::State::kAcquired &&
           pending() + abi::NumFragmentsOf(word_) != 0;
  }

  const ProducerRing& ring() const { return ring_; }

  // Of the last chunk that was claimed.
  std::optional<abi::Position> last_position() const { return last_position_; }

  // Of the last chunk that was published with a packet that goes on.
  abi::Position split_position() const { return split_position_; }

 private:
  // How far ahead of the payload its memory is asked for, in bytes. Not beyond
  // the chunk: what comes next may be another writer's.
  static constexpr size_t kWriteAhead = 1024;

  // Bits of attention_: what is to be done after a publication.
  static constexpr uint8_t kNotify = 1;   // look whether the reader sleeps
  static constexpr uint8_t kNoReuse = 2;  // holds a relocated finalised suffix

  void CloseFragment(uint8_t* cur) {
    const auto size = static_cast<uint32_t>(cur - payload_cursor_);
    dir_cursor_ -= entry_size_;
    abi::StoreDirEntry(dir_cursor_, entry_size_, size);
    payload_cursor_ = cur;
  }
  // The directory entry of the open fragment is set aside in advance.
  FragmentRange OpenRange() const {
    return {payload_cursor_, dir_cursor_ - entry_size_};
  }
  // What `word_`, an Acquired word, becomes with `finalised` more fragments.
  uint32_t CompleteWord(uint32_t finalised) const {
    return abi::WithState(word_, abi::State::kComplete) +
           (finalised << abi::kNumFragmentsShift);
  }
  static bool IsFullWord(uint32_t word) {
    return abi::NumFragmentsOf(word) == abi::kMaxFragmentsPerChunk;
  }
  void SetPending(uint32_t fragments) {
    pending_.store(fragments, std::memory_order_relaxed);
  }

  [[gnu::cold]] void AfterPublication();
  [[gnu::cold]] void PublishElsewhere(uint32_t observed, uint8_t* start);
  [[gnu::cold]] void FinaliseAndPublish(uint8_t* cur);
  [[gnu::cold]] void PublishFinalised();
  bool PublishEmpty(uint32_t flags);
  ChunkOutcome MoveSuffix(uint32_t observed, uint8_t** cur);
  bool Acknowledge(uint32_t observed);
  void LoseSuffix(ChunkOutcome outcome, uint32_t finalised, uint32_t flags);
  void Notify() const;
  void Forget();

  ChunkOutcome Acquire(uint32_t flags);
  ChunkOutcome TryAcquire(uint32_t flags, abi::Position* read_pos);
  void TakeChunk(abi::Position position, uint32_t word);
  bool MayWait() const;
  ChunkOutcome Wait(abi::Position read_pos, ChunkOutcome otherwise);

  // Owned by the writer's thread, but for the atomics. The first nine members
  // are all that a packet touches. What it need not store it does not: every
  // store has to leave the core before the next compare-exchange can start.
  ProducerRing& ring_;
  ChunkState state_;         // of the held chunk
  uint8_t* payload_cursor_;  // start of the open or next fragment
  uint8_t* dir_cursor_;      // equal to payload_cursor_: no chunk is held
  uint8_t* suffix_;          // if pending_: where unpublished payload starts
  uint32_t word_;            // what we last put into the state word, or 0
  std::atomic<uint32_t> pending_{0};
  uint8_t entry_size_;
  uint8_t attention_ = 0;
  std::atomic<bool> owes_loss_;

  bool may_stall_;
  bool stall_expired_ = false;  // a deadline passed, and no claim succeeded yet
  int64_t stall_timeout_ns_;
  int64_t deadline_ns_ = 0;  // 0: the packet has not waited yet
  PacketAccount& account_;
  uint32_t chunk_size_;
  uint32_t claim_budget_;
  WriterId id_;
  BufferId buffer_;
  std::optional<abi::Position> last_position_;
  abi::Position split_position_;
  std::unique_ptr<uint8_t[]> scratch_;  // one chunk
};

LossCause CauseOf(ChunkOutcome outcome);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CHUNK_WRITER_H_
