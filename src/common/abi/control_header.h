// The 256 bytes before chunk 0: who writes which word where.
//
//     0  read_pos              reader        (also the futex word)
//     4  reader_epoch          reader        +1 at each attach
//     8  reader_loss (u64)     reader        packets it has counted as lost
//    16  magic                 producer, once
//    20  abi_version           producer, once
//    24  num_chunks            producer, once
//    28  chunk_size            producer, once
//    32  producer_pid          producer, once
//    36  reader_left           reader        epoch of the last that left well
//    40  left_pos              reader        and its read_pos at that time
//    64  write_pos             writers
//    68  num_writers_waiting   writers       lets the reader skip a futex call
//   128  wakeup_threshold      reader        0 means max(1, num_chunks / 2)
//   132  reader_armed          both          1 while the reader sleeps
//   136  left_writer_loss[8]   reader        low halves of what it had counted
//                                            of writer_loss when it left well
//   192  writer_loss[8] (u64)  writers       packets lost, by LossCause 0..7
//
// One owner per 64-byte line. A zero-filled header is a valid empty ring;
// magic, version and geometry serve post-mortem tools and cross-checks only.
// Offsets only: the words themselves are touched in src/common/ring.
#ifndef TRACERING_SRC_COMMON_ABI_CONTROL_HEADER_H_
#define TRACERING_SRC_COMMON_ABI_CONTROL_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "src/common/abi/geometry.h"
#include "tracering/data_loss.h"

namespace tracering::abi {

inline constexpr uint32_t kMagic = 0x474e'5254;  // "TRNG", little-endian
inline constexpr uint32_t kAbiVersion = 1;

inline constexpr size_t kReadPosOffset = 0;
inline constexpr size_t kReaderEpochOffset = 4;
inline constexpr size_t kReaderLossOffset = 8;
inline constexpr size_t kMagicOffset = 16;
inline constexpr size_t kAbiVersionOffset = 20;
inline constexpr size_t kNumChunksOffset = 24;
inline constexpr size_t kChunkSizeOffset = 28;
inline constexpr size_t kProducerPidOffset = 32;
inline constexpr size_t kReaderLeftOffset = 36;
inline constexpr size_t kLeftPosOffset = 40;
inline constexpr size_t kWritePosOffset = 64;
inline constexpr size_t kNumWritersWaitingOffset = 68;
inline constexpr size_t kWakeupThresholdOffset = 128;
inline constexpr size_t kReaderArmedOffset = 132;
inline constexpr size_t kLeftWriterLossOffset = 136;
inline constexpr size_t kWriterLossOffset = 192;

constexpr uint32_t EffectiveWakeupThreshold(uint32_t word,
                                            uint32_t num_chunks) {
  if (word != 0) return word;
  return num_chunks / 2 > 1 ? num_chunks / 2 : 1;
}

static_assert(kReadPosOffset == 0x00 && kReaderEpochOffset == 0x04);
static_assert(kReaderLossOffset == 0x08 && kMagicOffset == 0x10);
static_assert(kProducerPidOffset == 0x20 && kReaderLeftOffset == 0x24);
static_assert(kLeftPosOffset == 0x28);
static_assert(kWritePosOffset == 0x40 && kNumWritersWaitingOffset == 0x44);
static_assert(kWakeupThresholdOffset == 0x80 && kReaderArmedOffset == 0x84);
static_assert(kWriterLossOffset == 0xc0);
static_assert(kWriterLossOffset + kNumWriterLossCauses * sizeof(uint64_t) ==
              kControlHeaderSize);

}  // namespace tracering::abi

#endif  // TRACERING_SRC_COMMON_ABI_CONTROL_HEADER_H_
