// What all writers of one ring share inside the producer's process.
//
// Private memory: the consumer never sees it. One per ring, owned by the
// producer and kept alive by every writer (shared_ptr), so that the mapping
// outlives the last of them.
#ifndef TRACERING_SRC_PRODUCER_PRODUCER_RING_H_
#define TRACERING_SRC_PRODUCER_PRODUCER_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/common/os/guarded_fd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/ring/ring.h"
#include "src/producer/fork_guard.h"

namespace tracering::internal {

// Looked at once per packet, relaxed.
enum class RingMode : uint32_t {
  kOn,
  kOff,       // nothing is wanted until a consumer attaches: no-op, not counted
  kPoisoned,  // an impossible word was found: drop and count
  kClosed,    // the producer is gone, or this is a forked child: no-op. Final
};

class ProducerRing {
 public:
  // `event_slot` is the producer's fd slot: the number stays, what it stands
  // for is exchanged. Shared by all rings of the producer and closed with the
  // last of them, so that no writer ever signals a recycled fd number.
  ProducerRing(os::SharedMapping mapping, const abi::Geometry& geometry,
               std::shared_ptr<const os::GuardedFd> event_slot, RingMode mode)
      : mapping_(std::move(mapping)),
        ring_(mapping_.data(), geometry),
        event_slot_(std::move(event_slot)),
        event_fd_(event_slot_->get()),
        mode_(mode),
        fork_registration_({mapping_.data(), mapping_.size(), &mode_,
                            &consumer_attached_, nullptr}) {}

  // A closed ring of private memory, shared by all writers that trace into
  // nothing. Never null, never destroyed.
  static std::shared_ptr<ProducerRing> Nowhere();

  ProducerRing(const ProducerRing&) = delete;
  ProducerRing& operator=(const ProducerRing&) = delete;

  const Ring& ring() const { return ring_; }
  int event_fd() const { return event_fd_; }

  // Whether somebody is there who frees chunks. Set by the control client;
  // release, so that a writer that sees it sees the installed eventfd.
  std::atomic<bool>& consumer_attached() { return consumer_attached_; }

  RingMode mode() const { return mode_.load(std::memory_order_relaxed); }
  // For the producer's life cycle and the fork handler, which may store from
  // any thread; kClosed is final.
  std::atomic<RingMode>& mutable_mode() { return mode_; }

  // A word stood where only a rewrite request may stand. Latches.
  void Poison() {
    RingMode expected = RingMode::kOn;
    mode_.compare_exchange_strong(expected, RingMode::kPoisoned,
                                  std::memory_order_relaxed);
  }

 private:
  // Memory that a ring which nobody traces into is looked at in.
  struct NowhereTag {
    alignas(64) static inline uint8_t
        memory[abi::Geometry(2, abi::kMinChunkSize).RingSize()];
  };
  explicit ProducerRing(NowhereTag)
      : ring_(NowhereTag::memory, abi::Geometry(2, abi::kMinChunkSize)),
        event_fd_(-1),
        mode_(RingMode::kClosed),
        fork_registration_({}) {}

  os::SharedMapping mapping_;
  Ring ring_;
  std::shared_ptr<const os::GuardedFd> event_slot_;
  int event_fd_;
  std::atomic<RingMode> mode_;
  std::atomic<bool> consumer_attached_{false};
  // Last: a ring that can be written to is never without it.
  ForkGuard::Registration fork_registration_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PRODUCER_RING_H_
