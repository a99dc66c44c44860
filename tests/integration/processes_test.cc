// Real producer processes against a service in this one: freezing, death,
// forks, and tracing before there is anybody to read it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/service_test.h"

namespace tracering::test {
namespace {

using ::testing::IsEmpty;

class ProcessesTest : public ServiceTest {
 protected:
  // What producer_child.cc calls so.
  ChildProcess SpawnProducer(const std::string& what) const {
    return SpawnProgram({TRACERING_PRODUCER_CHILD, what});
  }
};

const ProducerFlushResult* Find(const FlushResult& result, pid_t pid) {
  const auto found = std::find_if(
      result.producers.begin(), result.producers.end(),
      [pid](const ProducerFlushResult& p) { return p.pid == pid; });
  return found == result.producers.end() ? nullptr : &*found;
}

TEST_F(ProcessesTest, FrozenProducerDelaysNobodyAndIsNamed) {
  StartConsumer();
  std::vector<ChildProcess> children;
  for (int i = 0; i < 3; ++i) children.push_back(SpawnProducer("hold"));
  for (ChildProcess& child : children) ASSERT_TRUE(child.AwaitReport());
  ASSERT_TRUE(children[1].Signal(SIGSTOP));

  const FlushResult flush = consumer_->Flush(kLong);
  EXPECT_TRUE(flush.complete);
  ASSERT_EQ(flush.producers.size(), 3u);
  const ProducerFlushResult* frozen = Find(flush, children[1].pid());
  ASSERT_NE(frozen, nullptr);
  EXPECT_EQ(frozen->outcome, FlushOutcome::kComplete);
  EXPECT_EQ(frozen->open_writers, 1u);
  // What each had published before is there, the frozen one's included.
  EXPECT_EQ(consumer_->stats().packets.delivered, 6u);

  ASSERT_TRUE(children[1].Signal(SIGCONT));
  for (ChildProcess& child : children) {
    child.Release();
    EXPECT_EQ(child.Wait()->code, 0) << child.error_output();
    EXPECT_EQ(ParseTotals(child.LastLine()).first, 4u);
  }
  EXPECT_TRUE(AwaitNobody());
  ExpectExact(12);
}

TEST_F(ProcessesTest, LastPacketOfAThreadThatBlocksForEverIsThere) {
  StartConsumer();
  ChildProcess child = SpawnProducer("one-packet-then-block");
  ASSERT_TRUE(child.AwaitReport());
  EXPECT_TRUE(consumer_->Flush(kLong).complete);
  ExpectExact(1);
}

TEST_F(ProcessesTest, RingFilledBeforeAnyConsumerIsDeliveredOnAttach) {
  ChildProcess child = SpawnProducer("before-any-consumer");
  ASSERT_TRUE(child.AwaitReport());
  StartConsumer();
  EXPECT_EQ(child.Wait()->code, 0) << child.error_output();
  const Totals totals = ParseTotals(child.LastLine());
  EXPECT_EQ(totals.first, 50'000u);
  EXPECT_GT(totals.lost, 0u);
  EXPECT_LT(totals.lost, totals.first);
  EXPECT_TRUE(AwaitNobody());
  const TraceFileInfo info = ExpectExact(50'000);
  EXPECT_EQ(info.lost.total(), totals.lost);
  // The last that fitted in part is the consumer's to count.
  EXPECT_EQ(
      info.lost[LossCause::kRingFull] + info.lost[LossCause::kReassemblyGap],
      totals.lost);
}

TEST_F(ProcessesTest, DeathInsideALargePacketIsOneLossAndLeavesNoPartOfIt) {
  StartConsumer();
  ChildProcess child = SpawnProducer("die-inside-a-large-packet");
  EXPECT_EQ(child.Wait()->signal, SIGKILL);
  EXPECT_TRUE(AwaitNobody());
  const TraceFileInfo info = ExpectExact(11);
  EXPECT_EQ(info.packets, 10u);
  EXPECT_EQ(info.lost[LossCause::kReassemblyGap], 1u);
}

TEST_F(ProcessesTest, FlushAtExitEndsBesideAThreadThatTracesOn) {
  StartConsumer();
  ChildProcess child = SpawnProducer("exit-beside-a-detached-thread");
  EXPECT_EQ(child.Wait()->code, 0) << child.error_output();
  EXPECT_TRUE(AwaitNobody());
  EXPECT_GT(consumer_->stats().packets.delivered, 0u);
}

TEST_F(ProcessesTest, ForkWithoutExecLeavesTheParentsSessionAlone) {
  StartConsumer();
  ChildProcess child = SpawnProducer("fork-inside-a-packet");
  EXPECT_EQ(child.Wait()->code, 0) << child.error_output();
  const Totals totals = ParseTotals(child.LastLine());
  EXPECT_EQ(totals.first, 22u);
  EXPECT_EQ(totals.lost, 0u);
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().producers_seen, 1u);
  EXPECT_EQ(consumer_->stats().rings_stopped, 0u);
  ExpectExact(22);
}

}  // namespace
}  // namespace tracering::test
