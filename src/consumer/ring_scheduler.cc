// See ring_scheduler.h.
#include "src/consumer/ring_scheduler.h"

#include <algorithm>

namespace tracering::internal {
namespace {

template <typename Container>
void EraseValue(Container* container, const AttachedRing* ring) {
  container->erase(std::remove(container->begin(), container->end(), ring),
                   container->end());
}

}  // namespace

void RingScheduler::Add(AttachedRing* ring) {
  rings_.push_back(ring);
  unarmed_.push_back(ring);
  Wake(ring);
}

void RingScheduler::Remove(AttachedRing* ring) {
  EraseValue(&rings_, ring);
  if (ring->queued_) EraseValue(&queue_, ring);
  if (ring->unarmed_) EraseValue(&unarmed_, ring);
}

void RingScheduler::Wake(AttachedRing* ring) {
  if (ring->stopped()) return;
  // Also for a ring that waits for the rest of its pass: whoever wakes it
  // wants what is there now.
  ring->pass_end_ = ring->CaptureEnd();
  Enqueue(ring);
}

void RingScheduler::WakeAllOutstanding() {
  for (AttachedRing* ring : rings_) {
    if (!ring->queued_ && ring->Outstanding() != 0) Wake(ring);
  }
}

void RingScheduler::Enqueue(AttachedRing* ring) {
  if (ring->queued_) return;
  ring->queued_ = true;
  queue_.push_back(ring);
}

AttachedRing* RingScheduler::RunSlice() {
  if (queue_.empty()) return nullptr;
  AttachedRing* ring = queue_.front();
  queue_.pop_front();
  ring->queued_ = false;
  if (!ring->unarmed_) {
    // Writers need not signal a consumer that is at work on their ring.
    ring->Disarm();
    ring->unarmed_ = true;
    unarmed_.push_back(ring);
  }
  ring->DrainSlice(ring->pass_end_);
  if (!ring->stopped() && ring->resolved() < ring->pass_end_) Enqueue(ring);
  return ring;
}

bool RingScheduler::ArmForSleep() {
  if (!queue_.empty()) return false;
  const auto may_sleep = [this](AttachedRing* ring) {
    if (ring->stopped()) return true;  // for good: never looked at again
    // The first look saves a busy ring's writers the exchange.
    if (!ring->AtThreshold()) {
      ring->Arm();
      ring->unarmed_ = false;
      if (!ring->AtThreshold()) return true;
      ring->Disarm();
      ring->unarmed_ = true;
    }
    Wake(ring);
    return false;
  };
  unarmed_.erase(std::remove_if(unarmed_.begin(), unarmed_.end(), may_sleep),
                 unarmed_.end());
  return queue_.empty();
}

}  // namespace tracering::internal
