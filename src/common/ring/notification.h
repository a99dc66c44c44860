// Waking the reader: the armed word and the eventfd.
//
//   writer                                reader
//   reserve write_pos (seq_cst)           publish read_pos
//   ... publish into the chunk ...        Arm: reader_armed = 1 (seq_cst)
//   look at reader_armed (seq_cst)        load write_pos (seq_cst)
//   1 -> 0 (exchange): signal             at the threshold: do not sleep
//
// In the total order of these seq_cst operations either the reader's load sees
// the reservation or the writer's look sees the arming, so no wake-up is lost.
// A busy reader costs writers no syscall, a sleeping one costs one per sleep.
#ifndef TRACERING_SRC_COMMON_RING_NOTIFICATION_H_
#define TRACERING_SRC_COMMON_RING_NOTIFICATION_H_

#include <atomic>
#include <cstdint>

#include "src/common/os/eventfd.h"
#include "src/common/ring/ring.h"

namespace tracering::internal {

// Writer: signals `event_fd` if the reader sleeps and nobody has signalled it
// yet. Called after publishing into a chunk whose reservation was at the
// threshold, after burning a position, on a full ring and before a stall.
// Thread-safe, async-signal-safe, never blocks on an eventfd that is
// non-blocking.
inline void NotifyIfArmed(const Ring& ring, int event_fd) {
  SharedWord<uint32_t>& armed = ring.words().reader_armed;
  if (armed.Load(std::memory_order_seq_cst) == 0) return;
  if (armed.Exchange(0, std::memory_order_seq_cst) == 1) {
    os::SignalEventFd(event_fd);
  }
}

// Reader: arms the ring. After it the reader looks at every armed ring once
// more (OutstandingSeqCst) and sleeps only if none is at its threshold.
inline void ArmReader(const Ring& ring) {
  ring.words().reader_armed.Store(1, std::memory_order_seq_cst);
}

// Reader: no signal is wanted while it drains anyway. A signal that is already
// on its way is harmless.
inline void DisarmReader(const Ring& ring) {
  ring.words().reader_armed.Store(0, std::memory_order_relaxed);
}

// Reader: positions outstanding after `read_pos`, which the reader published
// itself. Not bounded by num_chunks: the other side can forge write_pos.
inline uint32_t OutstandingSeqCst(const Ring& ring, abi::Position read_pos) {
  return abi::Distance(
      read_pos,
      abi::Position(ring.words().write_pos.Load(std::memory_order_seq_cst)));
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_NOTIFICATION_H_
