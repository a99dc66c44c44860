// Cursor operations of a ring that are not worth inlining; see ring.h for the
// trust and threading rules.
#include "src/common/ring/ring.h"

#include <climits>

#include "src/common/os/futex.h"

namespace tracering::internal {
namespace {

// An honest reader moves read_pos a bounded number of times while one writer
// looks; a forged cursor that moves for ever must not hold the writer.
constexpr int kMaxReserveRounds = 1 << 16;

}  // namespace

void Ring::WriteIdentity(uint32_t producer_pid) const {
  ControlWords& control = words();
  control.num_chunks.Store(geometry_.num_chunks(), std::memory_order_relaxed);
  control.chunk_size.Store(geometry_.chunk_size(), std::memory_order_relaxed);
  control.producer_pid.Store(producer_pid, std::memory_order_relaxed);
  control.abi_version.Store(abi::kAbiVersion, std::memory_order_relaxed);
  control.magic.Store(abi::kMagic, std::memory_order_release);
}

ReserveOutcome Ring::TryReserve(Reservation* reservation) const {
  ControlWords& control = words();
  uint32_t read = control.read_pos.Load(std::memory_order_acquire);
  for (int round = 0; round < kMaxReserveRounds; ++round) {
    uint32_t write = control.write_pos.Load(std::memory_order_relaxed);
    if (write - read >= geometry_.num_chunks()) {
      const uint32_t again = control.read_pos.Load(std::memory_order_acquire);
      if (again == read) break;
      read = again;
      continue;
    }
    // seq_cst, and so ordered before this writer's later look at
    // reader_armed: either the reader's last look at write_pos sees this
    // reservation or the writer sees the reader armed (notification.h).
    if (control.write_pos.CompareExchange(write, write + 1,
                                          std::memory_order_seq_cst,
                                          std::memory_order_relaxed)) {
      reservation->position = abi::Position(write);
      reservation->distance = write + 1 - read;
      reservation->read_pos = abi::Position(read);
      return ReserveOutcome::kReserved;
    }
  }
  reservation->read_pos = abi::Position(read);
  return ReserveOutcome::kFull;
}

void Ring::PublishReadPos(abi::Position read_pos) const {
  ControlWords& control = words();
  control.read_pos.Store(read_pos.value(), std::memory_order_release);
  SharedFenceSeqCst();
  // Only a hint: a waiter that died leaves it raised, which costs a call.
  if (control.num_writers_waiting.Load(std::memory_order_relaxed) == 0) return;
  OnSharedAccess(SharedAccess::kFutexWake, &control.read_pos);
  os::FutexWake(&control.read_pos, INT_MAX);
}

}  // namespace tracering::internal
