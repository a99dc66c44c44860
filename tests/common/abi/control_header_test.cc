// The control header: the offset of every word as a literal, one owner per
// cache line, and the rule for the wake-up threshold.
#include "src/common/abi/control_header.h"

#include <gtest/gtest.h>

namespace tracering::abi {
namespace {

TEST(ControlHeaderTest, EveryWordSitsAtItsOffset) {
  EXPECT_EQ(kReadPosOffset, 0u);
  EXPECT_EQ(kReaderEpochOffset, 4u);
  EXPECT_EQ(kReaderLossOffset, 8u);
  EXPECT_EQ(kReaderLeftOffset, 36u);
  EXPECT_EQ(kLeftPosOffset, 40u);
  EXPECT_EQ(kMagicOffset, 16u);
  EXPECT_EQ(kAbiVersionOffset, 20u);
  EXPECT_EQ(kNumChunksOffset, 24u);
  EXPECT_EQ(kChunkSizeOffset, 28u);
  EXPECT_EQ(kProducerPidOffset, 32u);
  EXPECT_EQ(kWritePosOffset, 64u);
  EXPECT_EQ(kNumWritersWaitingOffset, 68u);
  EXPECT_EQ(kWakeupThresholdOffset, 128u);
  EXPECT_EQ(kReaderArmedOffset, 132u);
  EXPECT_EQ(kLeftWriterLossOffset, 136u);
  EXPECT_EQ(kWriterLossOffset, 192u);
  EXPECT_EQ(kControlHeaderSize, 256u);
}

TEST(ControlHeaderTest, WordsThatChangeKeepToTheLineOfTheirOwner) {
  const auto line = [](size_t offset) { return offset / 64; };
  // Reader.
  EXPECT_EQ(line(kReadPosOffset), 0u);
  EXPECT_EQ(line(kReaderEpochOffset), 0u);
  EXPECT_EQ(line(kReaderLossOffset), 0u);
  EXPECT_EQ(line(kReaderLeftOffset), 0u);
  EXPECT_EQ(line(kLeftPosOffset), 0u);
  // Writers.
  EXPECT_EQ(line(kWritePosOffset), 1u);
  EXPECT_EQ(line(kNumWritersWaitingOffset), 1u);
  // The wake-up words, which writers mostly read.
  EXPECT_EQ(line(kWakeupThresholdOffset), 2u);
  EXPECT_EQ(line(kReaderArmedOffset), 2u);
  // The reader, once, when it leaves.
  EXPECT_EQ(line(kLeftWriterLossOffset), 2u);
  EXPECT_EQ(line(kLeftWriterLossOffset + 4 * kNumWriterLossCauses - 1), 2u);
  // Writers, on the drop path only.
  EXPECT_EQ(line(kWriterLossOffset), 3u);
}

TEST(ControlHeaderTest, EightByteWordsAreNaturallyAligned) {
  EXPECT_EQ(kReaderLossOffset % 8, 0u);
  EXPECT_EQ(kWriterLossOffset % 8, 0u);
}

TEST(ControlHeaderTest, OneLossCounterPerWriterCauseFillsTheLastLine) {
  EXPECT_EQ(kNumWriterLossCauses, 8u);
  EXPECT_EQ(kWriterLossOffset + 8 * kNumWriterLossCauses, kControlHeaderSize);
}

TEST(ControlHeaderTest, MagicReadsAsTextInADump) {
  const char bytes[] = {'T', 'R', 'N', 'G'};
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  EXPECT_EQ(kMagic, value);
  EXPECT_EQ(kAbiVersion, 1u);
}

TEST(WakeupThresholdTest, ZeroMeansHalfOfTheChunks) {
  EXPECT_EQ(EffectiveWakeupThreshold(0, 2), 1u);
  EXPECT_EQ(EffectiveWakeupThreshold(0, 4), 2u);
  EXPECT_EQ(EffectiveWakeupThreshold(0, 256), 128u);
}

TEST(WakeupThresholdTest, NeverBecomesZero) {
  EXPECT_EQ(EffectiveWakeupThreshold(0, 1), 1u);
}

TEST(WakeupThresholdTest, OtherValuesStandAsTheyAre) {
  EXPECT_EQ(EffectiveWakeupThreshold(1, 256), 1u);
  EXPECT_EQ(EffectiveWakeupThreshold(200, 256), 200u);
  EXPECT_EQ(EffectiveWakeupThreshold(0xffff'ffff, 2), 0xffff'ffffu);
}

}  // namespace
}  // namespace tracering::abi
