// Ring shapes: which are allowed, how a position maps onto a chunk and a wrap
// count, what the reader exposes next, and after how many reservations a
// (chunk, wrap count) pair returns.
#include "src/common/abi/geometry.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace tracering::abi {
namespace {

TEST(CheckGeometryTest, AcceptsEveryPowerOfTwoFrom256BytesTo32KiB) {
  for (uint32_t size :
       {256u, 512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u}) {
    EXPECT_EQ(CheckGeometry(4, size), GeometryError::kNone) << size;
  }
}

TEST(CheckGeometryTest, RefusesChunkSizesOutsideTheRange) {
  EXPECT_EQ(CheckGeometry(4, 128), GeometryError::kChunkSizeOutOfRange);
  EXPECT_EQ(CheckGeometry(4, 1), GeometryError::kChunkSizeOutOfRange);
  EXPECT_EQ(CheckGeometry(4, 65536), GeometryError::kChunkSizeOutOfRange);
  EXPECT_EQ(CheckGeometry(4, 0x8000'0000), GeometryError::kChunkSizeOutOfRange);
}

TEST(CheckGeometryTest, RefusesChunkSizesThatAreNoPowerOfTwo) {
  for (uint32_t size :
       {0u, 3u, 255u, 257u, 384u, 32767u, 32769u, 0xffff'ffffu}) {
    EXPECT_EQ(CheckGeometry(4, size), GeometryError::kChunkSizeNotPowerOfTwo)
        << size;
  }
}

TEST(CheckGeometryTest, NeedsAtLeastTwoChunksAndLessThan2To31) {
  EXPECT_EQ(CheckGeometry(1, 256), GeometryError::kNumChunksOutOfRange);
  EXPECT_EQ(CheckGeometry(2, 256), GeometryError::kNone);
  EXPECT_EQ(CheckGeometry(0x4000'0000, 256), GeometryError::kNone);
  EXPECT_EQ(CheckGeometry(0x8000'0000, 256),
            GeometryError::kNumChunksOutOfRange);
}

TEST(CheckGeometryTest, RefusesChunkCountsThatAreNoPowerOfTwo) {
  for (uint32_t count :
       {0u, 3u, 6u, 0x3fff'ffffu, 0x7fff'ffffu, 0xffff'ffffu}) {
    EXPECT_EQ(CheckGeometry(count, 256), GeometryError::kNumChunksNotPowerOfTwo)
        << count;
  }
}

TEST(CheckGeometryTest, EveryRuleHasItsOwnText) {
  const GeometryError errors[] = {GeometryError::kNone,
                                  GeometryError::kChunkSizeNotPowerOfTwo,
                                  GeometryError::kChunkSizeOutOfRange,
                                  GeometryError::kNumChunksNotPowerOfTwo,
                                  GeometryError::kNumChunksOutOfRange};
  std::vector<std::string_view> seen;
  for (GeometryError error : errors) {
    const std::string_view rule = GeometryRule(error);
    EXPECT_FALSE(rule.empty());
    for (std::string_view other : seen) EXPECT_NE(rule, other);
    seen.push_back(rule);
  }
}

TEST(GeometryTest, FourChunkPositionTable) {
  constexpr Geometry kGeometry(4, 256);
  const uint32_t index[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0};
  const uint32_t wrap[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3};
  for (uint32_t p = 0; p <= 12; ++p) {
    EXPECT_EQ(kGeometry.IndexOf(Position(p)), ChunkIndex(index[p])) << p;
    EXPECT_EQ(kGeometry.WrapOf(Position(p)), WrapCount(wrap[p])) << p;
  }
}

TEST(GeometryTest, PositionTwelveOfFourChunks) {
  constexpr Geometry kGeometry(4, 256);
  EXPECT_EQ(kGeometry.chunk_bits(), 2u);
  EXPECT_EQ(kGeometry.IndexOf(Position(12)), ChunkIndex(0));
  EXPECT_EQ(kGeometry.WrapOf(Position(12)), WrapCount(3));
}

TEST(GeometryTest, NextWrapIsOneRoundLater) {
  constexpr Geometry kGeometry(4, 256);
  EXPECT_EQ(kGeometry.NextWrapOf(Position(0)), WrapCount(1));
  EXPECT_EQ(kGeometry.NextWrapOf(Position(8)), WrapCount(3));
  EXPECT_EQ(kGeometry.NextWrapOf(Position(11)), WrapCount(3));
}

TEST(GeometryTest, NextWrapIsZeroWherePositionRollsOver) {
  constexpr Geometry kGeometry(16, 256);
  EXPECT_EQ(kGeometry.WrapOf(Position(0xffff'fff0)), WrapCount(0x0fff'ffff));
  EXPECT_EQ(kGeometry.NextWrapOf(Position(0xffff'fff0)), WrapCount(0));
  // What a blind increment of the tag would have left there instead.
  EXPECT_NE(kGeometry.NextWrapOf(Position(0xffff'fff0)),
            WrapCount(0x0fff'ffff + 1));
}

TEST(GeometryTest, WrapCountRollsOverAt29BitsInSmallRings) {
  // Two chunks: 2^29 rounds are 2^30 positions.
  constexpr Geometry kTwo(2, 256);
  EXPECT_EQ(kTwo.WrapOf(Position(0x3fff'ffff)), WrapCount(0x1fff'ffff));
  EXPECT_EQ(kTwo.WrapOf(Position(0x4000'0000)), WrapCount(0));
  EXPECT_EQ(kTwo.NextWrapOf(Position(0x3fff'fffe)), WrapCount(0));
  // Four chunks: 2^31 positions.
  constexpr Geometry kFour(4, 256);
  EXPECT_EQ(kFour.WrapOf(Position(0x7fff'ffff)), WrapCount(0x1fff'ffff));
  EXPECT_EQ(kFour.WrapOf(Position(0x8000'0000)), WrapCount(0));
  // Eight chunks: the position wraps first, at the top of the 29 bits.
  constexpr Geometry kEight(8, 256);
  EXPECT_EQ(kEight.WrapOf(Position(0xffff'ffff)), WrapCount(0x1fff'ffff));
}

TEST(GeometryTest, LargestRingStillTellsItsRoundsApart) {
  constexpr Geometry kGeometry(0x4000'0000, 256);
  EXPECT_EQ(kGeometry.chunk_bits(), 30u);
  EXPECT_EQ(kGeometry.IndexOf(Position(0xffff'ffff)), ChunkIndex(0x3fff'ffff));
  EXPECT_EQ(kGeometry.WrapOf(Position(0xffff'ffff)), WrapCount(3));
  EXPECT_EQ(kGeometry.NextWrapOf(Position(0xffff'ffff)), WrapCount(0));
}

TEST(GeometryTest, IndexAndWrapNameAReservationUntilTheIdentityPeriod) {
  for (uint32_t num_chunks : {2u, 4u}) {
    const Geometry geometry(num_chunks, 256);
    const auto period = static_cast<uint32_t>(IdentityPeriod(num_chunks));
    for (uint32_t p : {0u, 1u, 12u, 0xffff'fff0u}) {
      const Position here(p);
      const Position again = Advance(here, period);
      const Position half = Advance(here, period / 2);
      EXPECT_EQ(geometry.IndexOf(here), geometry.IndexOf(again));
      EXPECT_EQ(geometry.WrapOf(here), geometry.WrapOf(again));
      EXPECT_EQ(geometry.IndexOf(here), geometry.IndexOf(half));
      EXPECT_NE(geometry.WrapOf(here), geometry.WrapOf(half));
    }
  }
}

TEST(IdentityPeriodTest, TableOfRingSizes) {
  EXPECT_EQ(IdentityPeriod(2), 1'073'741'824u);
  EXPECT_EQ(IdentityPeriod(4), 2'147'483'648u);
  EXPECT_EQ(IdentityPeriod(8), 4'294'967'296u);
  EXPECT_EQ(IdentityPeriod(16), 4'294'967'296u);
  EXPECT_EQ(IdentityPeriod(0x4000'0000), 4'294'967'296u);
}

TEST(IdentityPeriodTest, TableOfTimes) {
  const auto seconds = [](uint32_t num_chunks, double per_second) {
    return static_cast<double>(IdentityPeriod(num_chunks)) / per_second;
  };
  EXPECT_NEAR(seconds(2, 1e9), 1.07, 0.005);
  EXPECT_NEAR(seconds(4, 1e9), 2.15, 0.005);
  EXPECT_NEAR(seconds(8, 1e9), 4.29, 0.005);
  EXPECT_NEAR(seconds(2, 1e6) / 60, 17.9, 0.05);
  EXPECT_NEAR(seconds(4, 1e6) / 60, 35.8, 0.05);
  EXPECT_NEAR(seconds(8, 1e6) / 60, 71.6, 0.05);
}

TEST(GeometryTest, ChunksFollowTheControlHeaderBackToBack) {
  constexpr Geometry kGeometry(8, 4096);
  EXPECT_EQ(kGeometry.ChunkOffset(ChunkIndex(0)), 256u);
  EXPECT_EQ(kGeometry.ChunkOffset(ChunkIndex(1)), 256u + 4096u);
  EXPECT_EQ(kGeometry.ChunkOffset(ChunkIndex(7)), 256u + 7u * 4096u);
  EXPECT_EQ(kGeometry.RingSize(), 256u + 8u * 4096u);
}

TEST(GeometryTest, RingSizeDoesNotOverflow32Bits) {
  constexpr Geometry kGeometry(0x4000'0000, 32768);
  EXPECT_EQ(kGeometry.RingSize(), 256u + (uint64_t{1} << 45));
}

TEST(GeometryTest, SizeEntryWidthDependsOnTheChunkSizeOnly) {
  EXPECT_EQ(Geometry(2, 256).dir_entry_size(), 1u);
  EXPECT_EQ(Geometry(1024, 256).dir_entry_size(), 1u);
  for (uint32_t size : {512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u}) {
    EXPECT_EQ(Geometry(2, size).dir_entry_size(), 2u) << size;
  }
}

}  // namespace
}  // namespace tracering::abi
