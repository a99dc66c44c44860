// Which ring is drained next, and which ring's writers may let the consumer
// sleep.
//
// A ring that is woken gets one pass: what was reserved when the pass began, in
// slices, each of which queues it again behind the others. A ring whose
// position kept losing races goes behind the others too. A ring that was
// drained is armed before the consumer sleeps; rings that nobody woke since
// stay armed, so that a sleep does not cost a step per ring.
//
// A plain data structure; guarded by the loop mutex.
#ifndef TRACERING_SRC_CONSUMER_RING_SCHEDULER_H_
#define TRACERING_SRC_CONSUMER_RING_SCHEDULER_H_

#include <deque>
#include <vector>

#include "src/consumer/attached_ring.h"

namespace tracering::internal {

class RingScheduler {
 public:
  RingScheduler() = default;
  RingScheduler(const RingScheduler&) = delete;
  RingScheduler& operator=(const RingScheduler&) = delete;

  // Takes a ring in, and wakes it: what it holds is older than its attach.
  void Add(AttachedRing* ring);
  // Forgets a ring. O(rings).
  void Remove(AttachedRing* ring);

  // Gives the ring a pass, whatever its threshold. No effect if it is stopped.
  void Wake(AttachedRing* ring);

  // Gives a pass to each ring in which anything is outstanding. O(rings).
  void WakeAllOutstanding();

  bool has_work() const { return !queue_.empty(); }

  // Drains one slice of the ring whose turn it is, and returns that ring. Null
  // if there is no work.
  AttachedRing* RunSlice();

  // Before sleeping: arms the rings that were drained since, and wakes those
  // that reached their threshold meanwhile. True if there is no work: every
  // ring that may sleep is armed.
  [[nodiscard]] bool ArmForSleep();

 private:
  void Enqueue(AttachedRing* ring);

  std::vector<AttachedRing*> rings_;
  std::deque<AttachedRing*> queue_;
  std::vector<AttachedRing*> unarmed_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_RING_SCHEDULER_H_
