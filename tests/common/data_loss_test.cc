// The causes of loss: their values, which index the counters of the ring, their
// names, and the mark that each leaves in the trace file.
#include "tracering/data_loss.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace tracering {
namespace {

TEST(LossCauseTest, WriterCausesIndexTheCountersOfTheRing) {
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kRingFull), 0u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kNoChunkAvailable), 1u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kStallTimeout), 2u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kNoWriterId), 3u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kWriterAbort), 4u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kRingPoisoned), 5u);
  EXPECT_EQ(static_cast<uint32_t>(LossCause::kReadGap), kNumWriterLossCauses);
}

TEST(LossCauseTest, EveryCauseHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < kNumLossCauses; ++i) {
    const std::string_view name = LossCauseName(static_cast<LossCause>(i));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown");
    if (name == "reserved") continue;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(names.size(), kNumLossCauses - 2);
  EXPECT_EQ(LossCauseName(static_cast<LossCause>(kNumLossCauses)), "unknown");
}

TEST(LossCauseTest, MarkInTheFileIsAlwaysPresent) {
  EXPECT_EQ(PerfettoDataLoss(0), 1u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kRingFull)), 1u | 256u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kReadGap)), 1u | 2u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kChunkCorrupted)), 1u | 4u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kOrphanContinuation)), 1u | 8u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kReassemblyGap)), 1u | 16u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kBrokenChain)), 1u | 32u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kOverwritten)), 1u | 64u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kWriterAbort)), 1u | 128u);
  EXPECT_EQ(PerfettoDataLoss(MaskOf(LossCause::kWriterAbort) |
                             MaskOf(LossCause::kStallTimeout)),
            1u | 128u | 256u);
}

}  // namespace
}  // namespace tracering
