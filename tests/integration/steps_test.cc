// Death and standstill at each step of the protocol, with real processes: one
// side ends right before its Nth access to shared memory, for every N of a
// session, and the other side goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/integration/numbered_packet.h"
#include "tests/integration/service_test.h"
#include "tests/integration/steps_session.h"

namespace tracering::test {
namespace {

// More than any session has. A loop that gets there has not seen an end.
constexpr uint64_t kTooManySteps = 1000;

class StepsTest : public ServiceTest {
 protected:
  ChildProcess Spawn(const std::string& kind, uint64_t step) const {
    return SpawnProgram({TRACERING_STEPS_PROGRAM, kind, std::to_string(step)});
  }
  static bool Survived(const ChildProcess& child) {
    return child.LastLine() == "survived";
  }
  static uint64_t PacketsSaid(const ChildProcess& child) {
    const std::string& said = child.output();
    return static_cast<uint64_t>(std::count(said.begin(), said.end(), '\n'));
  }
  // The indices of each process's packets, in the order of the file.
  std::map<int32_t, std::vector<uint64_t>> Delivered(TraceFileInfo* info) {
    std::map<int32_t, std::vector<uint64_t>> delivered;
    for (const TracePacket& packet : Save(info)) {
      const auto number = NumberOf(packet);
      if (!number.has_value()) continue;
      delivered[packet.trusted_pid()].push_back(number->index);
    }
    return delivered;
  }
};

std::vector<uint64_t> FirstIndices(uint64_t count) {
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; i < count; ++i) indices.push_back(i);
  return indices;
}

TEST_F(StepsTest, ProducerMayDieAtEachStep) {
  StartConsumer();
  std::map<int32_t, uint64_t> complete;
  uint64_t step = 0;
  for (; step < kTooManySteps; ++step) {
    ChildProcess child = Spawn("producer-dies", step);
    const auto end = child.Wait();
    ASSERT_TRUE(end.has_value()) << "at step " << step;
    if (Survived(child)) break;
    ASSERT_EQ(end->signal, SIGKILL)
        << "at step " << step << ": " << child.error_output();
    complete[child.pid()] = PacketsSaid(child);
  }
  EXPECT_GT(step, 5 * kStepsPackets);
  EXPECT_LT(step, kTooManySteps);
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().rings_stopped, 0u);

  TraceFileInfo info;
  const auto delivered = Delivered(&info);
  uint64_t unsaid = 0;
  for (const auto& [pid, count] : complete) {
    const auto found = delivered.find(pid);
    const std::vector<uint64_t> indices =
        found == delivered.end() ? std::vector<uint64_t>() : found->second;
    // The last may have been published just before the end.
    if (indices != FirstIndices(count)) {
      EXPECT_EQ(indices, FirstIndices(count + 1)) << "pid " << pid;
      ++unsaid;
    }
  }
  // A packet that was lost with its process is one loss; the others are not
  // known to anybody.
  EXPECT_GT(info.lost[LossCause::kReassemblyGap], 0u);
  EXPECT_EQ(info.lost.total(), info.lost[LossCause::kReassemblyGap]);
  EXPECT_LE(info.lost.total() + unsaid, step);
}

TEST_F(StepsTest, ProducerMayStandStillAtEachStep) {
  StartConsumer();
  uint64_t step = 0;
  uint64_t sessions = 0;
  for (; step < kTooManySteps; ++step) {
    ChildProcess child = Spawn("producer-stands-still", step);
    const bool stood_still = child.AwaitReport();
    if (stood_still) {
      EXPECT_TRUE(consumer_->Flush(kLong).complete) << "at step " << step;
      // What it had published is there already.
      EXPECT_GE(consumer_->stats().packets.delivered,
                sessions * kStepsPackets + PacketsSaid(child));
      child.Release();
    }
    const auto end = child.Wait();
    ASSERT_TRUE(end.has_value()) << "at step " << step;
    ASSERT_EQ(end->code, 0)
        << "at step " << step << ": " << child.error_output();
    ASSERT_TRUE(AwaitNobody());
    ++sessions;
    ASSERT_EQ(consumer_->stats().packets.delivered, sessions * kStepsPackets)
        << "at step " << step;
    if (!stood_still) break;
  }
  EXPECT_GT(step, 5 * kStepsPackets);
  EXPECT_LT(step, kTooManySteps);
  ExpectExact(sessions * kStepsPackets);
}

TEST_F(StepsTest, ConsumerMayDieAtEachStep) {
  uint64_t step = 0;
  uint64_t cuts = 0;
  for (; step < kTooManySteps; ++step) {
    ChildProcess first = Spawn("consumer-dies", step);
    ASSERT_TRUE(first.AwaitReport()) << first.error_output();
    ProducerOptions options = StepsProducer();
    options.socket_path = options_.socket_path;
    auto created = Producer::Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
    std::unique_ptr<Producer> producer = *std::move(created);
    const OwnedTraceWriter writer = producer->CreateWriter("main");
    uint64_t index = 0;
    for (; index < kStepsPackets; ++index) {
      WriteNumbered(*writer, 0, index, StepsText(index));
    }
    const auto end = first.Wait();
    ASSERT_TRUE(end.has_value()) << "at step " << step;
    ASSERT_EQ(end->signal, SIGKILL) << first.error_output();

    StartConsumer();
    for (; index < 2 * kStepsPackets; ++index) {
      WriteNumbered(*writer, 0, index, StepsText(index % kStepsPackets));
    }
    // It may not have seen the end of the first one yet.
    ASSERT_TRUE(Eventually([&] { return producer->Flush(kLong).ok(); }));
    const Producer::Stats stats = producer->stats();
    EXPECT_EQ(stats.attempted, 2 * kStepsPackets);
    producer = nullptr;
    ASSERT_TRUE(AwaitNobody());
    EXPECT_EQ(consumer_->stats().rings_stopped, 0u);
    TraceFileInfo info;
    const std::vector<uint64_t> indices = Delivered(&info)[getpid()];
    // In order and once: all but what the first one took, at the front.
    ASSERT_FALSE(indices.empty());
    const uint64_t taken = indices.front();
    EXPECT_LE(taken, kStepsPackets);
    std::vector<uint64_t> expected(index - taken);
    std::iota(expected.begin(), expected.end(), taken);
    EXPECT_EQ(indices, expected) << "at step " << step;
    // A packet whose first chunks only the first one saw is lost to the second.
    EXPECT_LE(info.lost.total(), taken > 0 ? 1u : 0u) << "at step " << step;
    cuts += info.lost.total();
    consumer_ = nullptr;
    unlink(trace_path().c_str());
    if (Survived(first)) break;
  }
  EXPECT_GT(step, 5 * kStepsPackets);
  EXPECT_GT(cuts, 0u);
  EXPECT_LT(step, kTooManySteps);
}

}  // namespace
}  // namespace tracering::test
