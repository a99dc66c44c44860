// Why packets are missing: one numbering of causes for the producer, the ring's
// counters, the consumer and the file.
//
// Values are part of the ring ABI (the first eight index its loss counters)
// and are only ever added. constexpr; no threading rules.
#ifndef TRACERING_DATA_LOSS_H_
#define TRACERING_DATA_LOSS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tracering {

enum class LossCause : uint32_t {
  // Counted by the writer side, in the ring's control header.
  kRingFull = 0,          // the ring had no free position (policy: drop)
  kNoChunkAvailable = 1,  // positions were free, but their chunks were held
  kStallTimeout = 2,      // a stalling writer's deadline passed
  kNoWriterId = 3,        // all 65535 writer ids of the ring were busy
  kWriterAbort = 4,       // the writer gave a packet up half-way
  kRingPoisoned = 5,      // the ring showed a word that may not stand there
  // 6 and 7 are reserved for the writer side.

  // Counted by the consumer.
  kReadGap = 8,              // taken by an earlier reader that did not store it
  kChunkCorrupted = 9,       // a chunk's directory or header made no sense
  kOrphanContinuation = 10,  // a packet's tail came without its head
  kReassemblyGap = 11,       // the tail of a packet never came
  kBrokenChain = 12,         // parts of one packet contradict each other
  kPacketTooLarge = 13,      // over the limit for partial packets or buffers
  kUnknownBuffer = 14,       // for a target buffer that the consumer lacks
  kBufferRefused = 15,       // a discard-policy buffer was full
  kOverwritten = 16,         // a ring-policy buffer lapped it
  kRejected = 17,            // not valid protobuf, or forged service fields
  kRingStopped = 18,         // the ring broke the protocol and was stopped
};

inline constexpr size_t kNumLossCauses = 19;
// Causes below this are counted by writers, the rest by the consumer.
inline constexpr size_t kNumWriterLossCauses = 8;

// A set of causes: bit i stands for the cause of value i.
using LossMask = uint32_t;

constexpr LossMask MaskOf(LossCause cause) {
  return LossMask{1} << static_cast<uint32_t>(cause);
}

// Short lower-case text, such as "ring full". Reserved values read "reserved".
constexpr std::string_view LossCauseName(LossCause cause) {
  constexpr std::array<std::string_view, kNumLossCauses> kNames = {
      "ring full",
      "no chunk available",
      "stall timeout",
      "no writer id",
      "writer abort",
      "ring poisoned",
      "reserved",
      "reserved",
      "read gap",
      "chunk corrupted",
      "orphan continuation",
      "reassembly gap",
      "broken chain",
      "packet too large",
      "unknown buffer",
      "buffer refused",
      "overwritten",
      "rejected",
      "ring stopped"};
  const auto index = static_cast<size_t>(cause);
  return index < kNames.size() ? kNames[index] : "unknown";
}

// Bits of TracePacket.previous_packet_dropped.
namespace perfetto_loss {
inline constexpr uint32_t kPresent = 1;
inline constexpr uint32_t kReadGap = 2;
inline constexpr uint32_t kChunkCorrupted = 4;
inline constexpr uint32_t kOrphanContinuation = 8;
inline constexpr uint32_t kReassemblyGap = 16;
inline constexpr uint32_t kReassemblyBrokenChain = 32;
inline constexpr uint32_t kOverwritten = 64;
inline constexpr uint32_t kWriterAbort = 128;
inline constexpr uint32_t kSharedMemoryFull = 256;
}  // namespace perfetto_loss

// The trace format's mask for a loss with these causes. `present` is always
// set, also where no cause is known.
constexpr uint32_t PerfettoDataLoss(LossMask causes) {
  constexpr std::array<uint32_t, kNumLossCauses> kBits = {
      perfetto_loss::kSharedMemoryFull,       // ring full
      perfetto_loss::kSharedMemoryFull,       // no chunk available
      perfetto_loss::kSharedMemoryFull,       // stall timeout
      perfetto_loss::kWriterAbort,            // no writer id
      perfetto_loss::kWriterAbort,            // writer abort
      perfetto_loss::kWriterAbort,            // ring poisoned
      0,                                      // reserved
      0,                                      // reserved
      perfetto_loss::kReadGap,                // read gap
      perfetto_loss::kChunkCorrupted,         // chunk corrupted
      perfetto_loss::kOrphanContinuation,     // orphan continuation
      perfetto_loss::kReassemblyGap,          // reassembly gap
      perfetto_loss::kReassemblyBrokenChain,  // broken chain
      perfetto_loss::kReassemblyBrokenChain,  // packet too large
      perfetto_loss::kChunkCorrupted,         // unknown buffer
      perfetto_loss::kOverwritten,            // buffer refused
      perfetto_loss::kOverwritten,            // overwritten
      perfetto_loss::kChunkCorrupted,         // rejected
      perfetto_loss::kChunkCorrupted,         // ring stopped
  };
  uint32_t mask = perfetto_loss::kPresent;
  for (size_t i = 0; i < kBits.size(); ++i) {
    if ((causes >> i) & 1) mask |= kBits[i];
  }
  return mask;
}

}  // namespace tracering

#endif  // TRACERING_DATA_LOSS_H_
