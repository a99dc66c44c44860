// The state word, number by number: values of the states, place and width of
// each field, flags, formats, and which words may stand for which owner.
//
// Expected values are literals worked out by hand, never computed with the
// functions under test.
#include "src/common/abi/state_word.h"

#include <gtest/gtest.h>

#include "src/common/abi/geometry.h"

namespace tracering::abi {
namespace {

TEST(StateWordTest, TopThreeBitsSelectTheState) {
  EXPECT_EQ(StateOf(0x0000'0000), State::kFreeForWrap);
  EXPECT_EQ(StateOf(0x2000'0000), State::kAcquired);
  EXPECT_EQ(StateOf(0x4000'0000), State::kComplete);
  EXPECT_EQ(StateOf(0x6000'0000), State::kRewriteRequested);
  EXPECT_EQ(StateOf(0x8000'0000), State::kAcknowledged);
  EXPECT_EQ(StateOf(0xa000'0000), State::kReserved5);
  EXPECT_EQ(StateOf(0xc000'0000), State::kReserved6);
  EXPECT_EQ(StateOf(0xe000'0000), State::kReserved7);
}

TEST(StateWordTest, LowBitsNeverChangeTheState) {
  for (uint32_t state = 0; state < 8; ++state) {
    const uint32_t word = state * 0x2000'0000u + 0x1fff'ffff;
    EXPECT_EQ(static_cast<uint32_t>(StateOf(word)), state);
  }
}

TEST(StateWordTest, StatesHaveTheValuesOfTheTable) {
  EXPECT_EQ(static_cast<uint32_t>(State::kFreeForWrap), 0b000u);
  EXPECT_EQ(static_cast<uint32_t>(State::kAcquired), 0b001u);
  EXPECT_EQ(static_cast<uint32_t>(State::kComplete), 0b010u);
  EXPECT_EQ(static_cast<uint32_t>(State::kRewriteRequested), 0b011u);
  EXPECT_EQ(static_cast<uint32_t>(State::kAcknowledged), 0b100u);
}

TEST(StateWordTest, OnlyThreeStatesCarryData) {
  EXPECT_FALSE(IsDataBearing(State::kFreeForWrap));
  EXPECT_TRUE(IsDataBearing(State::kAcquired));
  EXPECT_TRUE(IsDataBearing(State::kComplete));
  EXPECT_TRUE(IsDataBearing(State::kRewriteRequested));
  EXPECT_FALSE(IsDataBearing(State::kAcknowledged));
  EXPECT_FALSE(IsDataBearing(State::kReserved5));
  EXPECT_FALSE(IsDataBearing(State::kReserved6));
  EXPECT_FALSE(IsDataBearing(State::kReserved7));
}

TEST(StateWordTest, FieldsSitAtTheirBits) {
  EXPECT_EQ(kStateMask, 0xe000'0000);
  EXPECT_EQ(kFormatMask, 0x1800'0000);
  EXPECT_EQ(kFlagsMask, 0x0700'0000);
  EXPECT_EQ(kNumFragmentsMask, 0x00ff'0000);
  EXPECT_EQ(kWriterIdMask, 0x0000'ffff);
  EXPECT_EQ(kLowBitsMask, 0x1fff'ffff);
  EXPECT_EQ(kStateShift, 29u);
  EXPECT_EQ(kFormatShift, 27u);
  EXPECT_EQ(kFlagsShift, 24u);
  EXPECT_EQ(kNumFragmentsShift, 16u);
}

TEST(StateWordTest, MasksPartitionTheWord) {
  const uint32_t masks[] = {kStateMask, kFormatMask, kFlagsMask,
                            kNumFragmentsMask, kWriterIdMask};
  uint32_t seen = 0;
  for (uint32_t mask : masks) {
    EXPECT_EQ(seen & mask, 0u) << std::hex << mask;
    seen |= mask;
  }
  EXPECT_EQ(seen, 0xffff'ffff);
}

TEST(StateWordTest, FlagsSitAtBits26To24) {
  EXPECT_EQ(kFlagContinuesFromPrevious, 1u << 26);
  EXPECT_EQ(kFlagContinuesOnNext, 1u << 25);
  EXPECT_EQ(kFlagDataLoss, 1u << 24);
}

TEST(StateWordTest, FormatsHaveTheValuesOfTheTable) {
  EXPECT_EQ(static_cast<uint32_t>(Format::kTargetBuffer), 0b00u);
  EXPECT_EQ(static_cast<uint32_t>(Format::kPacketRouting), 0b01u);
  EXPECT_EQ(static_cast<uint32_t>(Format::kReserved2), 0b10u);
  EXPECT_EQ(static_cast<uint32_t>(Format::kReserved3), 0b11u);
}

TEST(StateWordTest, DataWordPutsEachFieldInItsPlace) {
  // Acquired, format 00, no flags, no fragment yet, writer 0x1234.
  EXPECT_EQ(MakeDataWord(State::kAcquired, WriterId(0x1234), 0, 0),
            0x2000'1234u);
  // Complete, 3 fragments, the last continues.
  EXPECT_EQ(
      MakeDataWord(State::kComplete, WriterId(7), 3, kFlagContinuesOnNext),
      0x4203'0007u);
  // RewriteRequested, format 01, loss and continuation, 0xab fragments.
  EXPECT_EQ(MakeDataWord(State::kRewriteRequested, WriterId(0xbeef), 0xab,
                         kFlagContinuesFromPrevious | kFlagDataLoss,
                         Format::kPacketRouting),
            0x6dab'beefu);
  // Every field at its maximum.
  EXPECT_EQ(MakeDataWord(State::kComplete, WriterId(0xffff), 255, kFlagsMask,
                         Format::kReserved3),
            0x5fff'ffffu);
}

TEST(StateWordTest, DataWordDecodesIntoItsFields) {
  constexpr uint32_t kWord = 0x6dab'beef;
  EXPECT_EQ(StateOf(kWord), State::kRewriteRequested);
  EXPECT_EQ(FormatOf(kWord), Format::kPacketRouting);
  EXPECT_EQ(FlagsOf(kWord), kFlagContinuesFromPrevious | kFlagDataLoss);
  EXPECT_EQ(NumFragmentsOf(kWord), 0xabu);
  EXPECT_EQ(WriterIdOf(kWord), WriterId(0xbeef));
}

TEST(StateWordTest, FieldsDoNotLeakIntoTheirNeighbours) {
  for (uint32_t n : {0u, 1u, 127u, 128u, 254u, 255u}) {
    for (uint16_t id : {uint16_t{1}, uint16_t{0x7fff}, uint16_t{0xffff}}) {
      for (uint32_t flags = 0; flags < 8; ++flags) {
        const uint32_t word =
            MakeDataWord(State::kAcquired, WriterId(id), n, flags << 24);
        EXPECT_EQ(StateOf(word), State::kAcquired);
        EXPECT_EQ(FormatOf(word), Format::kTargetBuffer);
        EXPECT_EQ(FlagsOf(word), flags << 24);
        EXPECT_EQ(NumFragmentsOf(word), n);
        EXPECT_EQ(WriterIdOf(word), WriterId(id));
      }
    }
  }
}

TEST(StateWordTest, ChunkPublishesAtMost255Fragments) {
  EXPECT_EQ(kMaxFragmentsPerChunk, 255u);
  EXPECT_EQ(kNumFragmentsMask >> kNumFragmentsShift, kMaxFragmentsPerChunk);
}

TEST(StateWordTest, RewriteRequestChangesOnlyTheStateBits) {
  // Acquired, format 10, continues from previous, 9 fragments, writer 0x0102.
  EXPECT_EQ(WithState(0x3409'0102, State::kRewriteRequested), 0x7409'0102u);
  EXPECT_EQ(0x3409'0102u ^ 0x7409'0102u, 0x4000'0000u);
  // And back: any data-bearing word keeps format, flags, count and writer.
  EXPECT_EQ(WithState(0x7fff'ffff, State::kAcquired), 0x3fff'ffffu);
  EXPECT_EQ(WithState(0x4203'0007, State::kAcquired), 0x2203'0007u);
}

TEST(StateWordTest, UnknownFormatLeavesOwnershipReadable) {
  for (Format format :
       {Format::kPacketRouting, Format::kReserved2, Format::kReserved3}) {
    const uint32_t word =
        MakeDataWord(State::kAcquired, WriterId(3), 2, 0, format);
    EXPECT_EQ(StateOf(word), State::kAcquired);
    EXPECT_EQ(NumFragmentsOf(word), 2u);
    EXPECT_EQ(FormatOf(WithState(word, State::kRewriteRequested)), format);
  }
}

TEST(StateWordTest, ZeroWordIsFreeForWrapZero) {
  EXPECT_EQ(FreeForWrap(WrapCount(0)), 0u);
  EXPECT_EQ(StateOf(0), State::kFreeForWrap);
  EXPECT_EQ(WrapCountOf(0), WrapCount(0));
}

TEST(StateWordTest, FreeWordIsItsWrapCount) {
  EXPECT_EQ(FreeForWrap(WrapCount(3)), 0x0000'0003u);
  EXPECT_EQ(FreeForWrap(WrapCount(0x1fff'ffff)), 0x1fff'ffffu);
  EXPECT_EQ(WrapCountOf(0x1234'5678), WrapCount(0x1234'5678));
  EXPECT_EQ(StateOf(FreeForWrap(WrapCount(0x1fff'ffff))), State::kFreeForWrap);
}

TEST(StateWordTest, AcknowledgedCarriesNothingElse) {
  EXPECT_EQ(kAcknowledgedWord, 0x8000'0000u);
  EXPECT_EQ(StateOf(kAcknowledgedWord), State::kAcknowledged);
  EXPECT_EQ(kAcknowledgedWord & kLowBitsMask, 0u);
  // A forged one has the same state and is told apart by its low bits.
  EXPECT_EQ(StateOf(0x8000'0001), State::kAcknowledged);
  EXPECT_NE(0x8000'0001u & kLowBitsMask, 0u);
}

TEST(StateWordTest, WordsOfDifferentStatesNeverCollide) {
  // A claim compares the whole word, so no owned or acknowledged word may
  // equal any free word, whatever its wrap count.
  EXPECT_LT(FreeForWrap(WrapCount(~0u)),
            MakeDataWord(State::kAcquired, WriterId(0), 0, 0));
  EXPECT_LT(MakeDataWord(State::kRewriteRequested, WriterId(0xffff), 255,
                         kFlagsMask, Format::kReserved3),
            kAcknowledgedWord);
}

// Four chunks. A writer reserves position 4 and sleeps; the reader resolves
// positions 4 and, a round later, 8 on the same chunk.
TEST(StateWordTest, DelayedClaimDoesNotMatchALaterTraversal) {
  constexpr Geometry kGeometry(4, 256);
  const uint32_t claim = FreeForWrap(kGeometry.WrapOf(Position(4)));
  const uint32_t now = FreeForWrap(kGeometry.NextWrapOf(Position(8)));
  EXPECT_EQ(claim, 1u);
  EXPECT_EQ(now, 3u);
  EXPECT_NE(claim, now);
}

// Position 0 is reserved and never claimed; resolving the hole moves the tag.
TEST(StateWordTest, ResolvingAHoleMovesTheTagPastTheSleepingWriter) {
  constexpr Geometry kGeometry(4, 256);
  EXPECT_EQ(FreeForWrap(kGeometry.WrapOf(Position(0))), 0u);
  EXPECT_EQ(FreeForWrap(kGeometry.NextWrapOf(Position(0))), 1u);
}

}  // namespace
}  // namespace tracering::abi
