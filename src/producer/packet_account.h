// What became of one writer's packets, counted exactly once each.
//
// The owner (the writer's thread) counts; any thread may read, and any thread
// may fold losses into the ring's counters. On the path of a packet that fits
// only Attempt is called: a plain load and store, no locked operation. What is
// private here is process memory that the consumer never sees.
#ifndef TRACERING_SRC_PRODUCER_PACKET_ACCOUNT_H_
#define TRACERING_SRC_PRODUCER_PACKET_ACCOUNT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/producer/producer_ring.h"
#include "tracering/data_loss.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

class PacketAccount {
 public:
  // `ring` outlives this object.
  explicit PacketAccount(ProducerRing& ring) : ring_(ring) {}
  PacketAccount(const PacketAccount&) = delete;
  PacketAccount& operator=(const PacketAccount&) = delete;

  // --- Owner ---

  // A packet was finished, whatever becomes of it.
  void Attempt() { Bump(attempted_, 1); }
  // Attempts that turned out to be no-ops: the ring was closed meanwhile.
  void Retract(uint64_t packets) { Bump(attempted_, uint64_t{0} - packets); }
  // A packet was given up before anything of it was published.
  void Discard() { Bump(discarded_, 1); }

  // `packets` attempts are lost. The reader finds `seen_by_reader` of them by
  // itself, since their first part was published; the others go into the
  // ring's counter of `cause`, at once if a consumer is attached. Without one
  // they stay private until the next Fold, so that a program without a service
  // pays no shared write per dropped packet.
  void Lose(LossCause cause, uint64_t packets, uint64_t seen_by_reader);

  // The reader has the first part of a packet that will not go on. It finds out
  // by the next chunk of the writer id: until that is published, neither the
  // ring's counters nor the reader count the packet. LeavePartial: the previous
  // owner of the id left one. TakeChunk: the chunk of the next packet was
  // claimed. LoseChunk: nothing of that chunk will ever be published.
  void LeavePartial() { SetPartial(Partial::kLeft); }
  void TakeChunk() {
    SetPartial(partial() == Partial::kLeft ? Partial::kEnding : Partial::kNone);
  }
  void LoseChunk() {
    if (partial() == Partial::kEnding) SetPartial(Partial::kLeft);
  }

  // --- Signal handlers on the owner's thread ---

  // A packet that was begun while another was open.
  void LoseNested();

  // --- Any thread ---

  // Adds to the ring's counters what has not been added yet. Also called by
  // the control thread when a consumer attaches. Async-signal-safe.
  void Fold();

  // See LeavePartial.
  bool left_partial() const { return partial() == Partial::kLeft; }

  // `unpublished` attempts are neither published nor lost yet.
  WriterStats Read(uint64_t unpublished) const;

 private:
  enum class Partial : uint32_t { kNone, kLeft, kEnding };

  Partial partial() const { return partial_.load(std::memory_order_relaxed); }
  void SetPartial(Partial partial) {
    partial_.store(partial, std::memory_order_relaxed);
  }

  // Only the owner writes these, so they need no read-modify-write.
  static void Bump(std::atomic<uint64_t>& counter, uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by,
                  std::memory_order_relaxed);
  }

  // Owner.
  std::atomic<uint64_t> attempted_{0};
  std::atomic<uint64_t> discarded_{0};
  std::atomic<Partial> partial_{Partial::kNone};
  ProducerRing& ring_;
  // Owner and signal handlers.
  std::atomic<uint64_t> nested_{0};
  std::atomic<uint64_t> lost_[kNumWriterLossCauses] = {};
  // Raised by the owner and signal handlers, taken to 0 by whoever folds.
  std::atomic<uint64_t> unfolded_[kNumWriterLossCauses] = {};
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PACKET_ACCOUNT_H_
