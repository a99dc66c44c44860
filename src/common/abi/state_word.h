// The 32-bit state word at the start of every chunk.
//
//    31 29 28                                                          0
//   +-----+-------------------------------------------------------------+
//   | 000 |                    29-bit wrap count                        |
//   +-----+--------+-------+---------------+----------------------------+
//   | 001 | format | flags | num_fragments |          WriterID          |
//   | 010 | 28 27  | 26 24 | 23         16 | 15                       0 |
//   | 011 |        |       |               |                            |
//   +-----+--------+-------+---------------+----------------------------+
//   | 100 |                            0                                |
//   +-----+-------------------------------------------------------------+
//
// The state is decoded first: it says what the other 29 bits mean. Words are
// numeric values of a 32-bit atomic, little-endian in memory, not C structs.
// constexpr only; nothing here reads memory.
#ifndef TRACERING_SRC_COMMON_ABI_STATE_WORD_H_
#define TRACERING_SRC_COMMON_ABI_STATE_WORD_H_

#include <cstdint>

#include "src/common/abi/position.h"
#include "tracering/ids.h"

namespace tracering::abi {

enum class State : uint32_t {
  kFreeForWrap = 0,       // free for the reservation with that wrap count
  kAcquired = 1,          // the writer owns the chunk; n fragments published
  kComplete = 2,          // n fragments published; nobody changes the payload
  kRewriteRequested = 3,  // the reader took n; the writer owns the suffix
  kAcknowledged = 4,      // the old writer has finished every access
  kReserved5 = 5,
  kReserved6 = 6,
  kReserved7 = 7,
};

enum class Format : uint32_t {
  kTargetBuffer = 0,   // BufferID in bytes 4-5, payload from byte 6
  kPacketRouting = 1,  // reserved
  kReserved2 = 2,
  kReserved3 = 3,
};

inline constexpr uint32_t kStateShift = 29;
inline constexpr uint32_t kFormatShift = 27;
inline constexpr uint32_t kFlagsShift = 24;
inline constexpr uint32_t kNumFragmentsShift = 16;

inline constexpr uint32_t kStateMask = 0xe000'0000;
inline constexpr uint32_t kFormatMask = 0x1800'0000;
inline constexpr uint32_t kFlagsMask = 0x0700'0000;
inline constexpr uint32_t kNumFragmentsMask = 0x00ff'0000;
inline constexpr uint32_t kWriterIdMask = 0x0000'ffff;
// Everything below the state: the wrap count, or zero in Acknowledged.
inline constexpr uint32_t kLowBitsMask = kWrapCountMask;

// Flags describe the payload, never ownership.
inline constexpr uint32_t kFlagContinuesFromPrevious = 1u << 26;
inline constexpr uint32_t kFlagContinuesOnNext = 1u << 25;
inline constexpr uint32_t kFlagDataLoss = 1u << 24;

inline constexpr uint32_t kMaxFragmentsPerChunk = 255;

inline constexpr uint32_t kAcknowledgedWord = 0x8000'0000;

constexpr State StateOf(uint32_t word) {
  return static_cast<State>(word >> kStateShift);
}

constexpr uint32_t FreeForWrap(WrapCount wrap) { return wrap.value(); }

// A data-bearing word. `flags` is any combination of the kFlag constants;
// `num_fragments` is at most kMaxFragmentsPerChunk.
constexpr uint32_t MakeDataWord(State state, WriterId writer,
                                uint32_t num_fragments, uint32_t flags,
                                Format format = Format::kTargetBuffer) {
  return (static_cast<uint32_t>(state) << kStateShift) |
         (static_cast<uint32_t>(format) << kFormatShift) |
         (flags & kFlagsMask) |
         ((num_fragments << kNumFragmentsShift) & kNumFragmentsMask) |
         writer.value();
}

// The same word under another state: what an ownership hand-over changes.
constexpr uint32_t WithState(uint32_t word, State state) {
  return (word & kLowBitsMask) | (static_cast<uint32_t>(state) << kStateShift);
}

// Meaningful only where StateOf(word) is kFreeForWrap.
constexpr WrapCount WrapCountOf(uint32_t word) { return WrapCount(word); }

// Meaningful only where IsDataBearing(StateOf(word)).
constexpr Format FormatOf(uint32_t word) {
  return static_cast<Format>((word & kFormatMask) >> kFormatShift);
}
constexpr uint32_t FlagsOf(uint32_t word) { return word & kFlagsMask; }
constexpr uint32_t NumFragmentsOf(uint32_t word) {
  return (word & kNumFragmentsMask) >> kNumFragmentsShift;
}
constexpr WriterId WriterIdOf(uint32_t word) {
  return WriterId(static_cast<uint16_t>(word & kWriterIdMask));
}

constexpr bool IsDataBearing(State state) {
  return state == State::kAcquired || state == State::kComplete ||
         state == State::kRewriteRequested;
}

// The masks partition the word.
static_assert((kStateMask ^ kFormatMask ^ kFlagsMask ^ kNumFragmentsMask ^
               kWriterIdMask) == 0xffff'ffff);
static_assert((kStateMask | kFormatMask | kFlagsMask | kNumFragmentsMask |
               kWriterIdMask) == 0xffff'ffff);
static_assert((kFlagContinuesFromPrevious | kFlagContinuesOnNext |
               kFlagDataLoss) == kFlagsMask);
// A zero-filled mapping is a ring of free chunks.
static_assert(FreeForWrap(WrapCount(0)) == 0);
static_assert(StateOf(kAcknowledgedWord) == State::kAcknowledged);
static_assert((kAcknowledgedWord & kLowBitsMask) == 0);
static_assert(MakeDataWord(State::kAcquired, WriterId(0x1234), 0, 0) ==
              0x2000'1234);
static_assert(MakeDataWord(State::kComplete, WriterId(0xffff), 255,
                           kFlagsMask) == 0x47ff'ffff);
static_assert(WithState(0x2703'0001, State::kRewriteRequested) == 0x6703'0001);

}  // namespace tracering::abi

#endif  // TRACERING_SRC_COMMON_ABI_STATE_WORD_H_
