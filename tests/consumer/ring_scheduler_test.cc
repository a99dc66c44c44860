// Which ring is drained next, and when writers may let the consumer sleep.
#include "src/consumer/ring_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "src/common/os/shared_mapping.h"
#include "tests/consumer/fed_ring.h"

namespace tracering::internal {
namespace {

using test::FedRing;
using test::RingImageOptions;

// Rings of which one slice takes 8 chunks.
constexpr RingImageOptions kLargeChunks{64, 32768, 0, true};
constexpr uint32_t kChunksPerSlice = 8;

class RingSchedulerTest : public ::testing::Test {
 protected:
  RingSchedulerTest()
      : buffers_(*BufferSet::Create({{"main", 1 << 20, FillPolicy::kRing}},
                                    1 << 20)),
        owner_(1, 1 << 20) {
    owner_.targets = {{1, 0}};
  }

  std::unique_ptr<AttachedRing> Attach(FedRing& fed, uint32_t threshold) {
    AttachedRing::Options options;
    options.geometry = fed.image().geometry();
    options.mapping =
        *os::SharedMapping::Map(fed.image().fd(), fed.image().size());
    options.wakeup_threshold = threshold;
    options.partial_packet_limit = 1 << 20;
    return std::make_unique<AttachedRing>(std::move(options), &owner_,
                                          buffers_.get());
  }
  static bool IsArmed(FedRing& fed) {
    return fed.image().Word32(abi::kReaderArmedOffset) == 1;
  }
  // Runs what is due; true if everything may sleep then.
  bool RunToSleep() {
    do {
      while (scheduler_.RunSlice() != nullptr) {
      }
    } while (!scheduler_.ArmForSleep() && scheduler_.has_work());
    return !scheduler_.has_work();
  }

  std::unique_ptr<BufferSet> buffers_;
  RingOwner owner_;
  RingScheduler scheduler_;
};

TEST_F(RingSchedulerTest, HotRingWaitsForItsTurnAfterEachSlice) {
  FedRing hot(kLargeChunks);
  FedRing quiet(kLargeChunks);
  while (!hot.Full()) hot.Publish();
  quiet.Publish();
  const auto hot_ring = Attach(hot, 0);
  const auto quiet_ring = Attach(quiet, 0);
  scheduler_.Add(hot_ring.get());
  scheduler_.Add(quiet_ring.get());

  EXPECT_EQ(scheduler_.RunSlice(), hot_ring.get());
  EXPECT_EQ(hot_ring->resolved(), kChunksPerSlice);
  EXPECT_EQ(scheduler_.RunSlice(), quiet_ring.get());
  EXPECT_EQ(quiet_ring->resolved(), 1u);
  EXPECT_EQ(scheduler_.RunSlice(), hot_ring.get());
  EXPECT_EQ(hot_ring->resolved(), 2 * kChunksPerSlice);
}

TEST_F(RingSchedulerTest, APassEndsWhereTheRingEndedWhenItBegan) {
  FedRing fed(kLargeChunks);
  for (uint32_t i = 0; i < 2 * kChunksPerSlice; ++i) fed.Publish();
  const auto ring = Attach(fed, 64);
  scheduler_.Add(ring.get());
  scheduler_.RunSlice();
  fed.Publish();
  scheduler_.RunSlice();
  EXPECT_EQ(scheduler_.RunSlice(), nullptr);
  EXPECT_EQ(ring->resolved(), 2 * kChunksPerSlice);
}

TEST_F(RingSchedulerTest, RingBelowItsThresholdLetsTheConsumerSleep) {
  FedRing fed;
  const auto ring = Attach(fed, 2);
  scheduler_.Add(ring.get());
  scheduler_.RunSlice();
  fed.Publish();  // left to its writer until the period
  EXPECT_TRUE(scheduler_.ArmForSleep());
  EXPECT_TRUE(IsArmed(fed));
  EXPECT_EQ(ring->resolved(), 0u);
  scheduler_.WakeAllOutstanding();
  scheduler_.RunSlice();
  EXPECT_EQ(ring->resolved(), 1u);
  EXPECT_FALSE(IsArmed(fed));
}

TEST_F(RingSchedulerTest, RingAtItsThresholdIsDrainedInsteadOfArmed) {
  FedRing fed;
  const auto ring = Attach(fed, 2);
  scheduler_.Add(ring.get());
  scheduler_.RunSlice();
  fed.Publish();
  fed.Publish();
  EXPECT_FALSE(scheduler_.ArmForSleep());
  EXPECT_FALSE(IsArmed(fed));
  EXPECT_TRUE(RunToSleep());
  EXPECT_EQ(ring->resolved(), 2u);
  EXPECT_TRUE(IsArmed(fed));
}

TEST_F(RingSchedulerTest, ThresholdAboveTheRingMeansAFullRing) {
  FedRing fed({4, 4096, 0, true});
  const auto ring = Attach(fed, 1000);
  EXPECT_EQ(fed.image().Word32(abi::kWakeupThresholdOffset), 4u);
  scheduler_.Add(ring.get());
  scheduler_.RunSlice();
  for (int i = 0; i < 4; ++i) fed.Publish();
  EXPECT_FALSE(scheduler_.ArmForSleep());
}

TEST_F(RingSchedulerTest, RingsThatSleepAreNotTouchedAgain) {
  FedRing busy;
  FedRing idle;
  const auto busy_ring = Attach(busy, 0);
  const auto idle_ring = Attach(idle, 0);
  scheduler_.Add(busy_ring.get());
  scheduler_.Add(idle_ring.get());
  EXPECT_TRUE(RunToSleep());
  // A mark that arming the idle ring again would overwrite.
  idle.image().SetWord32(abi::kReaderArmedOffset, 7);
  busy.Publish();
  scheduler_.WakeAllOutstanding();
  EXPECT_TRUE(RunToSleep());
  EXPECT_TRUE(IsArmed(busy));
  EXPECT_EQ(idle.image().Word32(abi::kReaderArmedOffset), 7u);
}

// A writer took the armed flag back, and a flush was faster than its signal:
// the ring is empty when the signal comes and has to be armed nevertheless.
TEST_F(RingSchedulerTest, SignalForAnEmptyRingArmsItAgain) {
  FedRing fed;
  const auto ring = Attach(fed, 1);
  scheduler_.Add(ring.get());
  EXPECT_TRUE(RunToSleep());
  fed.Publish();
  fed.image().SetWord32(abi::kReaderArmedOffset, 0);
  EXPECT_EQ(ring->DrainSlice(ring->CaptureEnd()), DrainOutcome::kDrained);
  scheduler_.Wake(ring.get());
  EXPECT_TRUE(RunToSleep());
  EXPECT_TRUE(IsArmed(fed));
}

TEST_F(RingSchedulerTest, StoppedRingNeverKeepsAnybodyAwake) {
  FedRing bad;
  const auto ring = Attach(bad, 1);
  scheduler_.Add(ring.get());
  EXPECT_TRUE(RunToSleep());
  bad.image().set_write_pos(65);
  scheduler_.WakeAllOutstanding();
  EXPECT_EQ(scheduler_.RunSlice(), ring.get());  // for whoever logs it
  EXPECT_TRUE(ring->stopped());
  scheduler_.Wake(ring.get());
  scheduler_.WakeAllOutstanding();
  EXPECT_FALSE(scheduler_.has_work());
  EXPECT_TRUE(scheduler_.ArmForSleep());
}

TEST_F(RingSchedulerTest, RemovedRingIsForgottenWhereverItStood) {
  FedRing first(kLargeChunks);
  FedRing second(kLargeChunks);
  while (!first.Full()) first.Publish();
  second.Publish();
  auto first_ring = Attach(first, 0);
  const auto second_ring = Attach(second, 0);
  scheduler_.Add(first_ring.get());
  scheduler_.Add(second_ring.get());
  scheduler_.RunSlice();
  scheduler_.Remove(first_ring.get());  // in the middle of its pass
  first_ring = nullptr;
  EXPECT_TRUE(RunToSleep());
  EXPECT_EQ(second_ring->resolved(), 1u);
  scheduler_.WakeAllOutstanding();
  EXPECT_FALSE(scheduler_.has_work());
}

}  // namespace
}  // namespace tracering::internal
