// Which ids are free, busy, owing; against positions of its own making.
#include "src/producer/writer_id_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace tracering::internal {
namespace {

using abi::Position;

constexpr uint32_t kChunksOfRing = 8;

TEST(WriterIdPoolTest, FirstIdIsOneAndZeroIsNeverHandedOut) {
  WriterIdPool pool(kChunksOfRing);
  EXPECT_EQ(pool.Acquire(Position(0)).id, WriterId(1));
  EXPECT_EQ(pool.Acquire(Position(0)).id, WriterId(2));
}

TEST(WriterIdPoolTest, All65535IdsAreHandedOutOnceAndThenNone) {
  WriterIdPool pool(kChunksOfRing);
  std::set<uint16_t> ids;
  for (uint32_t i = 0; i < 65535; ++i) {
    ids.insert(pool.Acquire(Position(0)).id.value());
  }
  EXPECT_EQ(ids.size(), 65535u);
  EXPECT_EQ(*ids.begin(), 1);
  EXPECT_EQ(*ids.rbegin(), 65535);
  EXPECT_EQ(pool.Acquire(Position(0)).id, WriterId(0));
}

TEST(WriterIdPoolTest, AnIdIsBusyFromItsLastPositionUntilTheReaderPassedIt) {
  WriterIdPool pool(kChunksOfRing, 1);
  const WriterId id = pool.Acquire(Position(0)).id;
  pool.Release(id, {Position(5), false});
  for (uint32_t read_pos = 0; read_pos <= 5; ++read_pos) {
    ASSERT_EQ(pool.Acquire(Position(read_pos)).id, WriterId(0)) << read_pos;
  }
  EXPECT_EQ(pool.Acquire(Position(6)).id, id);
}

TEST(WriterIdPoolTest, AnIdIsBusyAcrossTheRollOverOfPositions) {
  WriterIdPool pool(kChunksOfRing, 1);
  const WriterId id = pool.Acquire(Position(0xffff'fff0)).id;
  pool.Release(id, {Position(1), false});
  EXPECT_EQ(pool.Acquire(Position(0xffff'fffa)).id, WriterId(0));
  EXPECT_EQ(pool.Acquire(Position(1)).id, WriterId(0));
  EXPECT_EQ(pool.Acquire(Position(2)).id, id);
}

TEST(WriterIdPoolTest, AnIdThatNeverHadAChunkIsFreeAtOnce) {
  WriterIdPool pool(kChunksOfRing, 1);
  const WriterId id = pool.Acquire(Position(0)).id;
  pool.Release(id, {std::nullopt, false});
  EXPECT_EQ(pool.Acquire(Position(0)).id, id);
}

TEST(WriterIdPoolTest, DebtPassesToTheNextOwnerAndNoFurther) {
  WriterIdPool pool(kChunksOfRing, 1);
  const WriterId id = pool.Acquire(Position(0)).id;
  pool.Release(id, {Position(0), true});
  const WriterLease second = pool.Acquire(Position(1));
  EXPECT_EQ(second.id, id);
  EXPECT_TRUE(second.owes_loss);
  pool.Release(id, {Position(1), false});
  EXPECT_FALSE(pool.Acquire(Position(2)).owes_loss);
}

TEST(WriterIdPoolTest, ReleasedIdsAreReusedInOrderBeforeNewOnes) {
  WriterIdPool pool(kChunksOfRing);
  const WriterId a = pool.Acquire(Position(0)).id;
  const WriterId b = pool.Acquire(Position(0)).id;
  pool.Release(b, {Position(0), false});
  pool.Release(a, {Position(1), false});
  EXPECT_EQ(pool.Acquire(Position(2)).id, b);
  EXPECT_EQ(pool.Acquire(Position(2)).id, a);
  EXPECT_EQ(pool.Acquire(Position(2)).id, WriterId(3));
}

TEST(WriterIdPoolTest, ABusyFrontDoesNotHideAFreeIdBehindIt) {
  WriterIdPool pool(kChunksOfRing, 2);
  const WriterId a = pool.Acquire(Position(0)).id;
  const WriterId b = pool.Acquire(Position(0)).id;
  pool.Release(a, {Position(7), false});
  pool.Release(b, {Position(0), false});
  EXPECT_EQ(pool.Acquire(Position(1)).id, b);
  EXPECT_EQ(pool.Acquire(Position(1)).id, WriterId(0));
  EXPECT_EQ(pool.Acquire(Position(8)).id, a);
}

// Short-lived writers with one chunk each need no more ids than the ring has
// chunks, plus those that live at the same time.
TEST(WriterIdPoolTest, ShortLivedWritersUseAsManyIdsAsTheRingHasChunks) {
  WriterIdPool pool(kChunksOfRing);
  std::set<uint16_t> ids;
  for (uint32_t position = 0; position < 10'000; ++position) {
    // The reader lags by the whole ring.
    const Position read_pos(
        position < kChunksOfRing ? 0 : position - kChunksOfRing);
    const WriterLease lease = pool.Acquire(read_pos);
    ids.insert(lease.id.value());
    pool.Release(lease.id, {Position(position), false});
  }
  EXPECT_LE(ids.size(), kChunksOfRing + 1);
}

}  // namespace
}  // namespace tracering::internal
