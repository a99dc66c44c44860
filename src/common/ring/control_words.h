// The control header as words: abi/control_header.h says where each lies and
// who writes it, this struct makes them accessible.
//
// Overlaid on the mapping, never constructed. Members are grouped by owner,
// one owner per cache line.
#ifndef TRACERING_SRC_COMMON_RING_CONTROL_WORDS_H_
#define TRACERING_SRC_COMMON_RING_CONTROL_WORDS_H_

#include <cstddef>
#include <cstdint>

#include "src/common/abi/control_header.h"
#include "src/common/sync/shared_word.h"

namespace tracering::internal {

struct ControlWords {
  // Written by the reader. Writers poll this line for capacity.
  SharedWord<uint32_t> read_pos;
  SharedWord<uint32_t> reader_epoch;
  SharedWord<uint64_t> reader_loss;
  // Written by the producer once, before the ring is handed over.
  SharedWord<uint32_t> magic;
  SharedWord<uint32_t> abi_version;
  SharedWord<uint32_t> num_chunks;
  SharedWord<uint32_t> chunk_size;
  SharedWord<uint32_t> producer_pid;
  // Written by the reader when it leaves in good order.
  SharedWord<uint32_t> reader_left;
  SharedWord<uint32_t> left_pos;
  uint8_t unused0[20];

  // Written by writers.
  SharedWord<uint32_t> write_pos;
  SharedWord<uint32_t> num_writers_waiting;
  uint8_t unused1[56];

  // Written by the reader around its sleep; writers disarm.
  SharedWord<uint32_t> wakeup_threshold;
  SharedWord<uint32_t> reader_armed;
  // Written by the reader when it leaves in good order.
  SharedWord<uint32_t> left_writer_loss[kNumWriterLossCauses];
  uint8_t unused2[24];

  // Written by writers that drop.
  SharedWord<uint64_t> writer_loss[kNumWriterLossCauses];
};

static_assert(offsetof(ControlWords, read_pos) == abi::kReadPosOffset);
static_assert(offsetof(ControlWords, reader_epoch) == abi::kReaderEpochOffset);
static_assert(offsetof(ControlWords, reader_loss) == abi::kReaderLossOffset);
static_assert(offsetof(ControlWords, magic) == abi::kMagicOffset);
static_assert(offsetof(ControlWords, abi_version) == abi::kAbiVersionOffset);
static_assert(offsetof(ControlWords, num_chunks) == abi::kNumChunksOffset);
static_assert(offsetof(ControlWords, chunk_size) == abi::kChunkSizeOffset);
static_assert(offsetof(ControlWords, producer_pid) == abi::kProducerPidOffset);
static_assert(offsetof(ControlWords, reader_left) == abi::kReaderLeftOffset);
static_assert(offsetof(ControlWords, left_pos) == abi::kLeftPosOffset);
static_assert(offsetof(ControlWords, write_pos) == abi::kWritePosOffset);
static_assert(offsetof(ControlWords, num_writers_waiting) ==
              abi::kNumWritersWaitingOffset);
static_assert(offsetof(ControlWords, wakeup_threshold) ==
              abi::kWakeupThresholdOffset);
static_assert(offsetof(ControlWords, reader_armed) == abi::kReaderArmedOffset);
static_assert(offsetof(ControlWords, left_writer_loss) ==
              abi::kLeftWriterLossOffset);
static_assert(offsetof(ControlWords, writer_loss) == abi::kWriterLossOffset);
static_assert(sizeof(ControlWords) == abi::kControlHeaderSize);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_CONTROL_WORDS_H_
