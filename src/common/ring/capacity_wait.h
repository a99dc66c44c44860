// How a stalling writer waits for the reader to free positions.
//
// Blocking by policy only: a writer under the drop policy never comes here.
// The wait is on the shared futex word read_pos. It trusts no word for its end:
// the deadline is the caller's, and slices bound what a lost consumer costs.
#ifndef TRACERING_SRC_COMMON_RING_CAPACITY_WAIT_H_
#define TRACERING_SRC_COMMON_RING_CAPACITY_WAIT_H_

#include <atomic>
#include <cstdint>

#include "src/common/ring/ring.h"

namespace tracering::internal {

enum class CapacityWaitOutcome {
  kRetry,       // read_pos moved before the deadline: reserve again
  kDeadline,    // the deadline passed
  kNoConsumer,  // nobody is attached who could free a chunk
};

// Waits until read_pos differs from `sampled`, in slices of at most 10 ms.
// After each slice the eventfd is written unconditionally, so that a consumer
// which was not armed when the writer looked still comes. Signals that
// interrupt the wait neither shorten nor lengthen it. `deadline_ns` is in
// CLOCK_MONOTONIC nanoseconds; once it has passed the answer is kDeadline even
// if read_pos moved, so that a loop over reserving and waiting ends.
// `consumer_attached` is the producer's private view. Keeps errno. Thread-safe;
// not for signal handlers or the draining thread.
[[nodiscard]] CapacityWaitOutcome WaitForCapacity(
    const Ring& ring, abi::Position sampled, int64_t deadline_ns, int event_fd,
    const std::atomic<bool>& consumer_attached);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_CAPACITY_WAIT_H_
