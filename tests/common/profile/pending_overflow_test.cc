// Pending drops, seeded in the memory under them.
#include "src/common/profile/pending_overflow.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tracering::internal {
namespace {

class PendingOverflowTest : public testing::Test {
 protected:
  PendingOverflow& pending() {
    return *reinterpret_cast<PendingOverflow*>(words_);
  }

  PendingOverflow::Taken Take() {
    return pending().TakeIfStill(pending().Look());
  }

  // The count with its generation, and the time.
  alignas(8) uint64_t words_[2] = {};
};

TEST_F(PendingOverflowTest, TakesTheCountWithTheTimeOfTheFirst) {
  EXPECT_FALSE(pending().Look().any());
  pending().Increment(500);
  pending().Increment(501);
  pending().Increment(502);
  EXPECT_TRUE(pending().Look().any());
  const PendingOverflow::Taken taken = Take();
  EXPECT_EQ(taken.count, 3u);
  EXPECT_EQ(taken.time, 500u);
  EXPECT_FALSE(pending().Look().any());
  pending().Increment(600);
  EXPECT_EQ(Take().time, 600u);
}

TEST_F(PendingOverflowTest, GenerationGoesUpWheneverTheCountLeavesOrReaches0) {
  pending().Increment(1);
  EXPECT_EQ(words_[0], 0x1'0000'0001u);
  pending().Increment(2);
  EXPECT_EQ(words_[0], 0x1'0000'0002u);
  Take();
  EXPECT_EQ(words_[0], 0x2'0000'0000u);
  pending().Increment(3);
  EXPECT_EQ(words_[0], 0x3'0000'0001u);
}

TEST_F(PendingOverflowTest, OnlyWhatWasSeenIsTaken) {
  pending().Increment(1);
  const PendingOverflow::Seen seen = pending().Look();
  pending().Increment(2);
  EXPECT_EQ(pending().TakeIfStill(seen).count, 0u) << "it has grown";
  EXPECT_EQ(Take().count, 2u);
  pending().Increment(3);
  EXPECT_EQ(pending().TakeIfStill(seen).count, 0u)
      << "the same count, of another event";
  EXPECT_EQ(Take().time, 3u);
}

TEST_F(PendingOverflowTest, GenerationWraps) {
  words_[0] = 0xffff'ffff'0000'0001;
  EXPECT_EQ(Take().count, 1u);
  EXPECT_EQ(words_[0], 0u);
}

TEST_F(PendingOverflowTest, CountStaysAtItsMaximum) {
  words_[0] = 0x7'ffff'fffe;
  words_[1] = 42;
  pending().Increment(1);
  pending().Increment(2);
  pending().Increment(3);
  EXPECT_EQ(words_[0], 0x7'ffff'ffffu);
  const PendingOverflow::Taken taken = Take();
  EXPECT_EQ(taken.count, UINT32_MAX);
  EXPECT_EQ(taken.time, 42u);
}

}  // namespace
}  // namespace tracering::internal
