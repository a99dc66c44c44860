// One ring in a mapping: its chunks, its cursors and its counters.
//
// A Ring does not own the mapping and is cheap to copy. It keeps a private
// copy of the geometry and never reads the one in the header, which the other
// process can change. Nothing here logs, allocates, fails on a strange word or
// decides policy; callers judge what they are given.
//
// Writer and reader methods may be called from any thread and any process that
// maps the ring. There is one reader at a time.
#ifndef TRACERING_SRC_COMMON_RING_RING_H_
#define TRACERING_SRC_COMMON_RING_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/common/abi/geometry.h"
#include "src/common/ring/chunk_state.h"
#include "src/common/ring/control_words.h"
#include "tracering/data_loss.h"

namespace tracering::internal {

enum class ReserveOutcome {
  kReserved,
  kFull,  // the logical distance reached num_chunks
};

struct Reservation {
  // Valid after kReserved. The claim is tried once, against the wrap count of
  // this position.
  abi::Position position;
  // uint32_t(position + 1 - read_pos), never less than the true distance at
  // the reservation: the writer signals if it is at the wake-up threshold.
  uint32_t distance = 0;
  // The read_pos that was sampled; after kFull what a stalling writer waits on.
  abi::Position read_pos;
};

class Ring {
 public:
  // `base` is the start of a mapping of geometry.RingSize() bytes, aligned to
  // a cache line, that started as zeroes.
  Ring(void* base, const abi::Geometry& geometry)
      : base_(static_cast<uint8_t*>(base)), geometry_(geometry) {}

  const abi::Geometry& geometry() const { return geometry_; }
  ControlWords& words() const {
    return *reinterpret_cast<ControlWords*>(base_);
  }
  uint8_t* ChunkBytes(abi::ChunkIndex index) const {
    return base_ + geometry_.ChunkOffset(index);
  }
  ChunkState StateOf(abi::ChunkIndex index) const {
    return ChunkState(
        *reinterpret_cast<SharedWord<uint32_t>*>(ChunkBytes(index)));
  }

  // --- Producer, once, before the ring is handed to anybody ---

  // Magic, version, geometry and pid, for post-mortem tools.
  void WriteIdentity(uint32_t producer_pid) const;

  // --- Writers ---

  // Reserves the next position. kFull only if read_pos did not move while
  // write_pos was read: a distance between two moments is no distance.
  // Lock-free; bounded even if the other side plays with the cursors.
  [[nodiscard]] ReserveOutcome TryReserve(Reservation* reservation) const;

  // Distance at which writers signal, at least 1. Relaxed: a change of the
  // threshold may be missed for one chunk.
  uint32_t LoadWakeupThreshold() const {
    return abi::EffectiveWakeupThreshold(
        words().wakeup_threshold.Load(std::memory_order_relaxed),
        geometry_.num_chunks());
  }

  // Acquire pairs with PublishReadPos.
  abi::Position LoadReadPosAcquire() const {
    return abi::Position(words().read_pos.Load(std::memory_order_acquire));
  }

  // Counts `count` packets as lost by a writer. `cause` is below
  // kNumWriterLossCauses. Relaxed: the data-loss flag that follows is
  // published with release.
  void AddWriterLoss(LossCause cause, uint64_t count) const {
    words().writer_loss[static_cast<size_t>(cause)].FetchAdd(
        count, std::memory_order_relaxed);
  }

  // --- Reader ---

  // Announces a new reader; returns its epoch.
  uint32_t AttachReader() const {
    return words().reader_epoch.FetchAdd(1, std::memory_order_acq_rel) + 1;
  }
  uint32_t LoadReaderEpoch() const {
    return words().reader_epoch.Load(std::memory_order_relaxed);
  }

  // Says how many packets of `cause` the reader counts that is about to leave.
  // The low half: the next reader knows that fewer than 2^32 came since.
  // Relaxed: StoreReaderLeft follows.
  void StoreLeftWriterLoss(LossCause cause, uint64_t count) const {
    words().left_writer_loss[static_cast<size_t>(cause)].Store(
        static_cast<uint32_t>(count), std::memory_order_relaxed);
  }
  // After LoadReaderLeftAcquire, which orders it.
  uint32_t LoadLeftWriterLoss(LossCause cause) const {
    return words().left_writer_loss[static_cast<size_t>(cause)].Load(
        std::memory_order_relaxed);
  }

  // Says that the reader of `epoch` has counted the packets of which it has
  // only a part, so that the next one need not, and that those were published
  // before `read_pos`. Release: what it counted (StoreReaderLoss,
  // StoreLeftWriterLoss) comes first; pairs with LoadReaderLeftAcquire.
  void StoreReaderLeft(uint32_t epoch, abi::Position read_pos) const {
    words().left_pos.Store(read_pos.value(), std::memory_order_relaxed);
    words().reader_left.Store(epoch, std::memory_order_release);
  }
  uint32_t LoadReaderLeftAcquire() const {
    return words().reader_left.Load(std::memory_order_acquire);
  }
  // Whether a reader that left in good order had taken `position`. One less
  // than 2^31 positions old is judged right.
  bool WasLeftBehind(abi::Position position) const {
    if (LoadReaderLeftAcquire() == 0) return false;
    const uint32_t left = words().left_pos.Load(std::memory_order_relaxed);
    return static_cast<int32_t>(abi::Distance(position, abi::Position(left))) >
           0;
  }

  // A stale value only delays one drain pass.
  abi::Position LoadWritePosRelaxed() const {
    return abi::Position(words().write_pos.Load(std::memory_order_relaxed));
  }

  // Advertises capacity after the physical transitions of all positions before
  // `read_pos`, and wakes stalled writers. Release pairs with TryReserve and
  // LoadReadPosAcquire; the fence pairs with the waiter's seq_cst operations.
  void PublishReadPos(abi::Position read_pos) const;

  // Packets that the reader has counted as lost, for the producer's API.
  void StoreReaderLoss(uint64_t packets) const {
    words().reader_loss.Store(packets, std::memory_order_relaxed);
  }

  // 0 means half the ring.
  void StoreWakeupThreshold(uint32_t chunks) const {
    words().wakeup_threshold.Store(chunks, std::memory_order_relaxed);
  }

  // --- Either side ---

  uint64_t LoadWriterLoss(LossCause cause) const {
    return words().writer_loss[static_cast<size_t>(cause)].Load(
        std::memory_order_relaxed);
  }
  uint64_t LoadReaderLoss() const {
    return words().reader_loss.Load(std::memory_order_relaxed);
  }

 private:
  uint8_t* base_;
  abi::Geometry geometry_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_RING_H_
