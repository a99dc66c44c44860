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
#include <optional>

#include "src/common/abi/position.h"
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

  // `packets` attempts are lost. One of them the reader finds by itself, if its
  // last part was published, in the chunk at `part`: see LeavePartial. The
  // others go into the ring's counter of `cause`, at once if a consumer is
  // attached. Without one they stay private until the next Fold, so that a
  // program without a service pays no shared write per dropped packet.
  void Lose(LossCause cause, uint64_t packets,
            std::optional<abi::Position> part = std::nullopt);

  // The chunk at `position` is the last with a part of a packet that will not
  // go on. The reader finds out by the next chunk of the writer id, or counts
  // the packet when it leaves: until then nobody does. LeavePartial: also if
  // the previous owner of the id left one. TakeChunk: the chunk of the next
  // packet was claimed. LoseChunk: nothing of that chunk will ever be
  // published.
  void LeavePartial(abi::Position position) {
    SetPartial({Partial::kLeft, position});
  }
  void TakeChunk() {
    const LeftPacket packet = partial();
    if (packet.state == Partial::kNone) return;
    SetPartial(
        {packet.state == Partial::kLeft ? Partial::kEnding : Partial::kNone,
         packet.position});
  }
  void LoseChunk() {
    const LeftPacket packet = partial();
    if (packet.state == Partial::kEnding) LeavePartial(packet.position);
  }

  // --- Signal handlers on the owner's thread ---

  // A packet that was begun while another was open.
  void LoseNested();

  // --- Any thread ---

  // Adds to the ring's counters what has not been added yet. Also called by
  // the control thread when a consumer attaches. Async-signal-safe.
  void Fold();

  // What LeavePartial was told, while the reader cannot know of it.
  std::optional<abi::Position> left_partial() const {
    const LeftPacket packet = partial();
    if (packet.state != Partial::kLeft) return std::nullopt;
    return packet.position;
  }

  // `unpublished` attempts are neither published nor lost yet.
  WriterStats Read(uint64_t unpublished) const;

 private:
  enum class Partial : uint32_t { kNone, kLeft, kEnding };
  // Aligned to its size, or clang calls libatomic for each access.
  struct alignas(uint64_t) LeftPacket {
    Partial state = Partial::kNone;
    abi::Position position;
  };

  LeftPacket partial() const {
    return partial_.load(std::memory_order_relaxed);
  }
  void SetPartial(LeftPacket packet) {
    partial_.store(packet, std::memory_order_relaxed);
  }

  // Only the owner writes these, so they need no read-modify-write.
  static void Bump(std::atomic<uint64_t>& counter, uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by,
                  std::memory_order_relaxed);
  }

  // Owner.
  std::atomic<uint64_t> attempted_{0};
  std::atomic<uint64_t> discarded_{0};
  std::atomic<LeftPacket> partial_{LeftPacket()};
  static_assert(std::atomic<LeftPacket>::is_always_lock_free);
  ProducerRing& ring_;
  // Owner and signal handlers.
  std::atomic<uint64_t> nested_{0};
  std::atomic<uint64_t> lost_[kNumWriterLossCauses] = {};
  // Raised by the owner and signal handlers, taken to 0 by whoever folds.
  std::atomic<uint64_t> unfolded_[kNumWriterLossCauses] = {};
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PACKET_ACCOUNT_H_
