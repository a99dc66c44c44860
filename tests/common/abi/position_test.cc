// Logical positions: the unsigned distance across the roll-over and the width
// of the wrap count. How positions map onto chunks is tested with Geometry.
#include "src/common/abi/position.h"

#include <gtest/gtest.h>

namespace tracering::abi {
namespace {

TEST(PositionTest, DistanceCountsAcrossTheRollOver) {
  EXPECT_EQ(Distance(Position(0xffff'fffc), Position(0x0000'0002)), 6u);
}

TEST(PositionTest, DistanceIsZeroOnlyForEqualPositions) {
  EXPECT_EQ(Distance(Position(0xffff'ffff), Position(0xffff'ffff)), 0u);
  EXPECT_EQ(Distance(Position(0xffff'ffff), Position(0)), 1u);
  EXPECT_EQ(Distance(Position(0), Position(0xffff'ffff)), 0xffff'ffffu);
}

TEST(PositionTest, DistanceIsDirected) {
  EXPECT_EQ(Distance(Position(2), Position(5)), 3u);
  EXPECT_EQ(Distance(Position(5), Position(2)), 0xffff'fffdu);
}

TEST(PositionTest, NextAndAdvanceRollOver) {
  EXPECT_EQ(Position(7).Next(), Position(8));
  EXPECT_EQ(Position(0xffff'ffff).Next(), Position(0));
  EXPECT_EQ(Advance(Position(0xffff'fff0), 16), Position(0));
  EXPECT_EQ(Advance(Position(0xffff'fff0), 0x20), Position(0x10));
  EXPECT_EQ(Advance(Position(9), 0), Position(9));
}

TEST(PositionTest, AdvanceInvertsDistance) {
  for (uint32_t from : {0u, 1u, 0x7fff'ffffu, 0x8000'0000u, 0xffff'fff0u}) {
    for (uint32_t count : {0u, 1u, 16u, 0x4000'0000u, 0x7fff'ffffu}) {
      EXPECT_EQ(Distance(Position(from), Advance(Position(from), count)),
                count);
    }
  }
}

TEST(WrapCountTest, Keeps29Bits) {
  EXPECT_EQ(kWrapCountMask, 0x1fff'ffffu);
  EXPECT_EQ(WrapCount(0x1fff'ffff).value(), 0x1fff'ffffu);
  EXPECT_EQ(WrapCount(0x2000'0000).value(), 0u);
  EXPECT_EQ(WrapCount(0xffff'ffff), WrapCount(0x1fff'ffff));
  EXPECT_NE(WrapCount(1), WrapCount(0x1000'0001));
}

}  // namespace
}  // namespace tracering::abi
