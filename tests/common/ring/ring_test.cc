// The cursors and counters of a ring: reservation up to the last free position
// and not beyond, across the roll-over, and on cursors that make no sense.
//
// What needs a second actor at a certain moment is in tests/race.
#include "src/common/ring/ring.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "src/common/os/futex.h"
#include "tests/support/ring_image.h"
#include "tests/support/thread_state.h"

namespace tracering::internal {
namespace {

using test::RingImage;
using test::RingImageOptions;

RingImage Image(uint32_t num_chunks, uint32_t position = 0) {
  RingImageOptions options;
  options.num_chunks = num_chunks;
  options.position = position;
  options.with_identity = false;
  return RingImage::InPlainMemory(options);
}

Ring RingOf(const RingImage& image) {
  return Ring(image.base(), image.geometry());
}

TEST(RingTest, PositionsAreReservedOneAfterTheOther) {
  RingImage image = Image(4);
  Reservation reservation;
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(RingOf(image).TryReserve(&reservation),
              ReserveOutcome::kReserved);
    EXPECT_EQ(reservation.position, abi::Position(i));
    EXPECT_EQ(reservation.distance, i + 1);
    EXPECT_EQ(reservation.read_pos, abi::Position(0));
    EXPECT_EQ(image.write_pos(), i + 1);
  }
}

TEST(RingTest, FullRingReservesNothingAndNamesTheReadPosToWaitOn) {
  RingImage image = Image(4, 0xffff'fffe);
  image.set_write_pos(2);
  const std::string before = image.Snapshot();
  Reservation reservation;
  EXPECT_EQ(RingOf(image).TryReserve(&reservation), ReserveOutcome::kFull);
  EXPECT_EQ(reservation.read_pos, abi::Position(0xffff'fffe));
  EXPECT_EQ(image.Snapshot(), before);
}

TEST(RingTest, OnePublishedPositionMakesRoomForOneReservation) {
  RingImage image = Image(2, 0xffff'ffff);
  const Ring ring = RingOf(image);
  Reservation reservation;
  ASSERT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kReserved);
  ASSERT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kReserved);
  EXPECT_EQ(reservation.position, abi::Position(0));
  ASSERT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kFull);
  ring.PublishReadPos(abi::Position(0));
  ASSERT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kReserved);
  EXPECT_EQ(reservation.position, abi::Position(1));
  EXPECT_EQ(reservation.distance, 2u);
  EXPECT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kFull);
}

// read_pos = 0xfffffffc, write_pos = 2: six positions are outstanding.
TEST(RingTest, DistanceCountsAcrossTheRollOver) {
  RingImage image = Image(8, 0xffff'fffc);
  image.set_write_pos(2);
  Reservation reservation;
  ASSERT_EQ(RingOf(image).TryReserve(&reservation), ReserveOutcome::kReserved);
  EXPECT_EQ(reservation.distance, 7u);
}

TEST(RingTest, ForgedCursorsLookFullAndAreLeftAlone) {
  for (const uint32_t distance : {5u, 0x8000'0000u, 0xffff'ffffu}) {
    SCOPED_TRACE(distance);
    RingImage image = Image(4);
    image.set_read_pos(100);
    image.set_write_pos(100 + distance);
    const std::string before = image.Snapshot();
    Reservation reservation;
    EXPECT_EQ(RingOf(image).TryReserve(&reservation), ReserveOutcome::kFull);
    EXPECT_EQ(image.Snapshot(), before);
  }
}

TEST(RingTest, ConcurrentWritersNeverShareAPosition) {
  constexpr int kThreads = 4;
  constexpr uint32_t kPerThread = 1000;
  RingImage image = Image(4096, 0xffff'ff00);
  const Ring ring = RingOf(image);
  std::vector<std::vector<uint32_t>> reserved(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&ring, &mine = reserved[i]] {
      for (uint32_t n = 0; n < kPerThread; ++n) {
        Reservation reservation;
        if (ring.TryReserve(&reservation) != ReserveOutcome::kReserved) return;
        mine.push_back(reservation.position.value() - 0xffff'ff00);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint32_t> all;
  for (const auto& mine : reserved) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), kThreads * kPerThread);
  for (uint32_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
}

TEST(RingTest, IdentityIsWrittenWhereToolsLookForIt) {
  RingImage image = Image(4);
  RingOf(image).WriteIdentity(4711);
  EXPECT_EQ(image.Word32(16), 0x474e'5254u);  // "TRNG"
  EXPECT_EQ(image.Word32(20), 1u);
  EXPECT_EQ(image.Word32(24), 4u);
  EXPECT_EQ(image.Word32(28), 256u);
  EXPECT_EQ(image.Word32(32), 4711u);
}

TEST(RingTest, EachCauseOfLossHasACounterOfItsOwn) {
  RingImage image = Image(4);
  const Ring ring = RingOf(image);
  for (uint32_t i = 0; i < 8; ++i) {
    ring.AddWriterLoss(static_cast<LossCause>(i), i + 1);
    ring.AddWriterLoss(static_cast<LossCause>(i), 10);
  }
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(image.Word64(192 + i * 8), i + 11);
    EXPECT_EQ(ring.LoadWriterLoss(static_cast<LossCause>(i)), i + 11);
  }
}

TEST(RingTest, ReaderLossIsVisibleToTheProducer) {
  RingImage image = Image(4);
  RingOf(image).StoreReaderLoss(0x1'0000'0002);
  EXPECT_EQ(image.Word64(8), 0x1'0000'0002u);
  EXPECT_EQ(RingOf(image).LoadReaderLoss(), 0x1'0000'0002u);
}

TEST(RingTest, WakeupThresholdIsHalfTheRingUnlessItIsSet) {
  RingImage image = Image(16);
  const Ring ring = RingOf(image);
  EXPECT_EQ(ring.LoadWakeupThreshold(), 8u);
  ring.StoreWakeupThreshold(3);
  EXPECT_EQ(ring.LoadWakeupThreshold(), 3u);
  EXPECT_EQ(image.Word32(128), 3u);
  RingImage smallest = Image(2);
  EXPECT_EQ(RingOf(smallest).LoadWakeupThreshold(), 1u);
}

TEST(RingTest, ReaderThatLeavesSaysUpToWhereItHasTaken) {
  RingImage image = Image(4);
  const Ring ring = RingOf(image);
  EXPECT_FALSE(ring.WasLeftBehind(abi::Position(0xffff'fff0)));
  ring.StoreReaderLeft(7, abi::Position(2));
  EXPECT_EQ(ring.LoadReaderLeftAcquire(), 7u);
  EXPECT_TRUE(ring.WasLeftBehind(abi::Position(0xffff'fff0)));
  EXPECT_TRUE(ring.WasLeftBehind(abi::Position(1)));
  EXPECT_FALSE(ring.WasLeftBehind(abi::Position(2)));
}

// Asleep in the kernel, as a stalled writer is. Were the wake-up missing, only
// the time-out would end the wait.
TEST(RingTest, PublishingReadPosWakesEveryWaiter) {
  RingImage image = Image(4);
  const Ring ring = RingOf(image);
  ring.words().num_writers_waiting.FetchAdd(2, std::memory_order_seq_cst);
  std::vector<os::FutexWaitOutcome> outcomes(2);
  std::atomic<pid_t> tids[2] = {};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&, i] {
      tids[i] = static_cast<pid_t>(syscall(SYS_gettid));
      outcomes[i] =
          os::FutexWait(&ring.words().read_pos, 0, std::chrono::seconds(60));
    });
  }
  for (const auto& tid : tids) test::AwaitAsleep(tid);
  ring.PublishReadPos(abi::Position(1));
  for (std::thread& waiter : waiters) waiter.join();
  for (const os::FutexWaitOutcome outcome : outcomes) {
    EXPECT_NE(outcome, os::FutexWaitOutcome::kTimedOut);
  }
}

}  // namespace
}  // namespace tracering::internal
