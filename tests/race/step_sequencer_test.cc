// The sequencer itself: actors move only when told, one access at a time, and
// stand before the access, not behind it.
#include "tests/support/step_sequencer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace tracering::test {
namespace {

using internal::SharedWord;

class StepSequencerTest : public ::testing::Test {
 protected:
  SharedWord<uint32_t>& word(int i) {
    return *reinterpret_cast<SharedWord<uint32_t>*>(&memory_[i]);
  }

  alignas(4) uint32_t memory_[2] = {0, 0};
};

TEST_F(StepSequencerTest, ActorStandsBeforeItsFirstStatementUntilItIsTold) {
  std::atomic<bool> started{false};
  StepSequencer sequencer;
  Actor& actor = sequencer.Start("actor", [&] { started = true; });
  EXPECT_FALSE(started);
  EXPECT_FALSE(actor.finished());
  EXPECT_FALSE(actor.Step());
  EXPECT_TRUE(started);
  EXPECT_TRUE(actor.finished());
}

TEST_F(StepSequencerTest, EveryKindOfAccessIsAStep) {
  StepSequencer sequencer;
  Actor& actor = sequencer.Start("actor", [&] {
    uint32_t expected = 0;
    (void)word(0).Load(std::memory_order_relaxed);
    word(1).Store(1, std::memory_order_relaxed);
    (void)word(0).Exchange(1, std::memory_order_relaxed);
    (void)word(1).CompareExchange(expected, 2, std::memory_order_relaxed,
                                  std::memory_order_relaxed);
    (void)word(0).FetchAdd(1, std::memory_order_relaxed);
    (void)word(1).FetchSub(1, std::memory_order_relaxed);
    internal::SharedFenceSeqCst();
  });
  const struct {
    SharedAccess kind;
    const void* word;
  } kExpected[] = {
      {SharedAccess::kLoad, &word(0)},
      {SharedAccess::kStore, &word(1)},
      {SharedAccess::kExchange, &word(0)},
      {SharedAccess::kCompareExchange, &word(1)},
      {SharedAccess::kFetchAdd, &word(0)},
      {SharedAccess::kFetchAdd, &word(1)},
      {SharedAccess::kFence, nullptr},
  };
  for (const auto& expected : kExpected) {
    ASSERT_TRUE(actor.Step());
    EXPECT_EQ(actor.pending().kind, expected.kind);
    EXPECT_EQ(actor.pending().word, expected.word);
  }
  EXPECT_FALSE(actor.Step());
}

TEST_F(StepSequencerTest, AccessHappensOnlyWhenTheActorGoesOn) {
  StepSequencer sequencer;
  Actor& actor = sequencer.Start(
      "actor", [&] { word(0).Store(7, std::memory_order_relaxed); });
  ASSERT_TRUE(actor.RunBefore(SharedAccess::kStore, &word(0)));
  EXPECT_EQ(word(0).Load(std::memory_order_relaxed), 0u);
  actor.RunToEnd();
  EXPECT_EQ(word(0).Load(std::memory_order_relaxed), 7u);
}

TEST_F(StepSequencerTest, NthMatchingAccessIsFound) {
  StepSequencer sequencer;
  Actor& actor = sequencer.Start("actor", [&] {
    for (uint32_t i = 1; i <= 3; ++i) {
      word(0).Store(i, std::memory_order_relaxed);
      word(1).Store(i, std::memory_order_relaxed);
    }
  });
  ASSERT_TRUE(actor.RunBefore(SharedAccess::kStore, &word(1), 2));
  EXPECT_EQ(memory_[0], 2u);
  EXPECT_EQ(memory_[1], 1u);
  // The access before which it stands counts.
  ASSERT_TRUE(actor.RunBefore(SharedAccess::kStore, &word(1)));
  EXPECT_EQ(memory_[1], 1u);
  EXPECT_FALSE(actor.RunBefore(SharedAccess::kStore, &word(1), 3));
  EXPECT_TRUE(actor.finished());
}

TEST_F(StepSequencerTest, ActorsInterleaveAsTold) {
  std::vector<int> order;
  StepSequencer sequencer;
  const auto body = [&](int id) {
    for (int i = 0; i < 2; ++i) {
      (void)word(0).Load(std::memory_order_relaxed);
      order.push_back(id);
    }
  };
  Actor& one = sequencer.Start("one", [&] { body(1); });
  Actor& two = sequencer.Start("two", [&] { body(2); });
  one.Step();
  two.Step();
  two.Step();
  one.Step();
  one.Step();
  two.Step();
  EXPECT_EQ(order, (std::vector<int>{2, 1, 1, 2}));
}

TEST_F(StepSequencerTest, ReleasedActorRunsByItself) {
  StepSequencer sequencer;
  std::atomic<bool> go{false};
  Actor& actor = sequencer.Start("actor", [&] {
    (void)word(0).Load(std::memory_order_relaxed);
    while (!go) std::this_thread::yield();
    (void)word(0).Load(std::memory_order_relaxed);
  });
  ASSERT_TRUE(actor.Step());
  actor.Release();
  go = true;
  actor.RunToEnd();
  EXPECT_TRUE(actor.finished());
}

}  // namespace
}  // namespace tracering::test
