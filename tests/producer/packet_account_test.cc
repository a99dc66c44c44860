// Each packet is counted once, and each loss reaches the ring's counters once,
// whoever folds.
#include "src/producer/packet_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/producer/writer_harness.h"

namespace tracering::test {
namespace {

using internal::PacketAccount;

TEST(PacketAccountTest, WithoutAConsumerTheRingIsNotTouched) {
  WriterHarness harness;
  PacketAccount account(harness.ring());
  account.Attempt();
  account.Lose(LossCause::kRingFull, 1);
  EXPECT_EQ(harness.image().WriterLoss(), 0u);
  account.Fold();
  EXPECT_EQ(harness.Loss(LossCause::kRingFull), 1u);
  account.Fold();
  EXPECT_EQ(harness.image().WriterLoss(), 1u);
}

TEST(PacketAccountTest, WithAConsumerTheRingKnowsAtOnce) {
  WriterHarness harness;
  harness.AttachConsumer();
  PacketAccount account(harness.ring());
  account.Lose(LossCause::kStallTimeout, 3, abi::Position(7));
  EXPECT_EQ(harness.Loss(LossCause::kStallTimeout), 2u);
  EXPECT_EQ(account.Read(0).lost, 3u);
  EXPECT_EQ(account.left_partial(), abi::Position(7));
}

TEST(PacketAccountTest, EveryCauseHasItsCounter) {
  WriterHarness harness;
  PacketAccount account(harness.ring());
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    account.Lose(static_cast<LossCause>(i), i + 1);
  }
  account.Fold();
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    EXPECT_EQ(harness.Loss(static_cast<LossCause>(i)), i + 1);
    EXPECT_EQ(account.Read(0).lost_by_cause[i], i + 1);
  }
}

TEST(PacketAccountTest, PublishedIsWhatIsNeitherLostNorPending) {
  WriterHarness harness;
  PacketAccount account(harness.ring());
  for (int i = 0; i < 10; ++i) account.Attempt();
  account.Retract(1);
  account.Discard();
  account.Lose(LossCause::kRingFull, 2);
  account.LoseNested();
  const WriterStats stats = account.Read(/*unpublished=*/4);
  EXPECT_EQ(stats.attempted, 10u);
  EXPECT_EQ(stats.lost, 3u);
  EXPECT_EQ(stats.published, 3u);
  EXPECT_EQ(stats.discarded, 1u);
}

// The owner loses packets while the control thread folds and consumers come
// and go.
TEST(PacketAccountTest, ConcurrentFoldsCountEachLossOnce) {
  WriterHarness harness;
  PacketAccount account(harness.ring());
  std::atomic<bool> done{false};
  std::thread control([&] {
    bool attached = false;
    while (!done.load()) {
      attached = !attached;
      harness.ring().consumer_attached().store(attached);
      account.Fold();
    }
  });
  constexpr uint64_t kPackets = 20'000;
  for (uint64_t i = 0; i < kPackets; ++i) {
    account.Attempt();
    account.Lose(static_cast<LossCause>(i % 3), 1);
  }
  done.store(true);
  control.join();
  account.Fold();
  EXPECT_EQ(harness.image().WriterLoss(), kPackets);
  EXPECT_EQ(account.Read(0).lost, kPackets);
  EXPECT_EQ(account.Read(0).published, 0u);
}

}  // namespace
}  // namespace tracering::test
