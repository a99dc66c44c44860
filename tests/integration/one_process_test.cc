// Producer and consumer libraries in one process, which is also what lets
// ThreadSanitizer see both sides of a ring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/integration/numbered_packet.h"
#include "tests/integration/service_test.h"

namespace tracering::test {
namespace {

using std::chrono::milliseconds;

class OneProcessTest : public ServiceTest {
 protected:
  // Drives the consumer from here until `condition` holds.
  template <typename Condition>
  void DriveUntil(Condition condition) {
    ASSERT_TRUE(Eventually([&] {
      consumer_->ProcessReady();
      return condition(consumer_->stats());
    }));
  }
};

TEST_F(OneProcessTest, StallingWritersOnTwoChunksLoseNothing) {
  StartConsumer();
  ProducerOptions options = ProducerFor("stall");
  options.chunk_size = 256;
  options.ring_size = 512;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = kLong;
  auto producer = StartProducer(options);
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      TraceWriter& writer = producer->ThreadWriter("main");
      for (uint64_t i = 0; i < 200; ++i) WriteNumbered(writer, number, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(producer->Flush(kLong).ok());
  EXPECT_EQ(producer->stats().lost, 0u);
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(ExpectExact(1600).lost.total(), 0u);
}

TEST_F(OneProcessTest, PacketLargerThanTheRingPassesWhileItIsDrained) {
  StartConsumer();
  ProducerOptions options = ProducerFor("large");
  options.chunk_size = 1024;
  options.ring_size = 8 * 1024;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = kLong;
  auto producer = StartProducer(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  std::string text;
  while (text.size() < 1'000'000) text += "0123456789\x04\x7f";
  WriteNumbered(writer, 0, 0, text);
  WriteNumbered(writer, 0, 1);
  ASSERT_TRUE(producer->Flush(kLong).ok());
  TraceFileInfo info;
  const std::vector<TracePacket> packets = Save(&info);
  EXPECT_EQ(info.packets, 2u);
  int found = 0;
  for (const TracePacket& packet : packets) {
    for (const DebugAnnotation& note :
         packet.track_event().debug_annotations()) {
      if (note.name() != "text") continue;
      ++found;
      EXPECT_EQ(note.string_value(), text);
    }
  }
  EXPECT_EQ(found, 1);
}

// The writer would wait for the thread that it is on.
TEST_F(OneProcessTest, StallingWriteOnTheDrainingThreadDropsInsteadOfWaiting) {
  CreateConsumer();
  ProducerOptions options = ProducerFor("own loop");
  options.chunk_size = 256;
  options.ring_size = 512;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::hours(1);
  absl::StatusOr<std::unique_ptr<Producer>> producer =
      Producer::Create(options);
  ASSERT_TRUE(producer.ok()) << producer.status();
  DriveUntil(
      [&](const ConsumerStats&) { return (*producer)->consumer_attached(); });
  TraceWriter& writer = (*producer)->ThreadWriter("main");
  for (uint64_t i = 0; i < 100; ++i) WriteNumbered(writer, 0, i);
  EXPECT_GT(writer.stats().lost, 0u);
  EXPECT_TRUE(consumer_->Flush(kLong).complete);
  ExpectExact(100);
}

TEST_F(OneProcessTest, StallingWriteInACallbackOfTheConsumerDoesNotDeadlock) {
  std::atomic<Producer*> tracing{nullptr};
  std::atomic<uint64_t> traced{0};
  options_.log = [&](std::string_view) {
    Producer* producer = tracing;
    if (producer == nullptr) return;
    TraceWriter& writer = producer->ThreadWriter("main");
    for (int i = 0; i < 100; ++i) WriteNumbered(writer, 7, traced++);
  };
  StartConsumer();
  ProducerOptions options = ProducerFor("callback");
  options.chunk_size = 256;
  options.ring_size = 512;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::hours(1);
  auto producer = StartProducer(options);
  tracing = producer.get();
  // Something to log, on the consumer's own thread.
  auto other = StartProducer(ProducerFor("other"));
  EXPECT_TRUE(Eventually([&] { return traced >= 100; }));
  tracing = nullptr;
  other = nullptr;
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
}

// With a period of an hour every round needs its wake-up: one that got lost
// would never end.
TEST_F(OneProcessTest, PingPongOfSinglePacketsLosesNoWakeUp) {
  options_.drain_period = std::chrono::hours(1);
  options_.wakeup_threshold = 1;
  StartConsumer();
  auto producer = StartProducer(ProducerFor("ping"));
  TraceWriter& writer = producer->ThreadWriter("main");
  constexpr uint64_t kRounds = 3000;
  for (uint64_t i = 0; i < kRounds; ++i) {
    WriteNumbered(writer, 0, i);
    ASSERT_TRUE(Eventually([&] {
      return consumer_->stats().packets.delivered == i + 1;
    })) << i;
  }
  ExpectExact(kRounds);
}

TEST_F(OneProcessTest, DescriptorsOfThreadsAreInTheFileAndNotInTheCounts) {
  StartConsumer();
  auto producer = StartProducer(ProducerFor("named"));
  std::thread([&] {
    const uint64_t track = producer->ThreadTrack("worker bee");
    EXPECT_NE(track, 0u);
    WriteNumbered(producer->ThreadWriter("main"), 0, 0);
  }).join();
  ASSERT_TRUE(producer->Flush(kLong).ok());
  EXPECT_TRUE(consumer_->Flush(kLong).complete);
  EXPECT_EQ(consumer_->stats().packets.attempted(), 1u);
  TraceFileInfo info;
  bool named = false;
  for (const TracePacket& packet : Save(&info)) {
    named |= packet.track_descriptor().thread().thread_name() == "worker bee";
  }
  EXPECT_TRUE(named);
  EXPECT_EQ(info.packets, 1u);
  EXPECT_GT(info.metadata_packets, 0u);
}

}  // namespace
}  // namespace tracering::test
