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
  // A producer that the consumer, driven from here, has attached.
  std::unique_ptr<Producer> DriveUntilAttached(const ProducerOptions& options) {
    absl::StatusOr<std::unique_ptr<Producer>> producer =
        Producer::Create(options);
    EXPECT_TRUE(producer.ok()) << producer.status();
    DriveUntil(
        [&](const ConsumerStats&) { return (*producer)->consumer_attached(); });
    return *std::move(producer);
  }
  // Only its end tells the consumer of a packet that was given up half-way and
  // was the last.
  void EndProducer(std::unique_ptr<Producer>* producer) {
    producer->reset();
    DriveUntil(
        [](const ConsumerStats& s) { return s.producers_connected == 0; });
  }
};

TEST_F(OneProcessTest, ManyWritersAtFullSpeedAreExact) {
  StartConsumer();
  ProducerOptions options = ProducerFor("load");
  options.ring_size = 64 * 1024;
  options.chunk_size = 1024;
  auto producer = StartProducer(options);
  constexpr uint64_t kThreads = 6;
  constexpr uint64_t kPackets = 5000;
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      TraceWriter& writer = producer->ThreadWriter("main");
      for (uint64_t i = 0; i < kPackets; ++i) {
        WriteNumbered(writer, number, i, std::string(i % 97, 'x'));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.attempted, kThreads * kPackets);
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
  const ConsumerStats seen = consumer_->stats();
  EXPECT_EQ(seen.packets.attempted(), stats.attempted);
  EXPECT_EQ(seen.packets.lost.total(), stats.lost);
  EXPECT_EQ(ExpectExact(stats.attempted).lost.total(), stats.lost);
}

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

TEST_F(OneProcessTest, NoisyBufferWithARingOfItsOwnCostsOthersNothing) {
  options_.buffers.push_back({"noisy", 1 << 20, FillPolicy::kRing});
  CreateConsumer();
  ProducerOptions options = ProducerFor("noise");
  BufferOptions noisy;
  noisy.name = "noisy";
  noisy.own_ring = true;
  noisy.ring_size = 64 * 1024;
  options.buffers = {noisy};
  std::unique_ptr<Producer> producer = DriveUntilAttached(options);
  // Nobody drains now.
  TraceWriter& loud = producer->ThreadWriter("noisy");
  TraceWriter& quiet = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 5000; ++i) WriteNumbered(loud, 0, i);
  for (uint64_t i = 0; i < 100; ++i) WriteNumbered(quiet, 1, i);
  EXPECT_TRUE(consumer_->Flush(kLong).complete);
  EXPECT_EQ(quiet.stats().lost, 0u);
  EXPECT_EQ(consumer_->stats().buffers[0].packets, 100u);
  const uint64_t lost = loud.stats().lost;
  EXPECT_GT(lost, 0u);
  EndProducer(&producer);
  const TraceFileInfo info = ExpectExact(5100);
  EXPECT_EQ(info.lost.total(), lost);
}

// The writer would wait for the thread that it is on.
TEST_F(OneProcessTest, StallingWriteOnTheDrainingThreadDropsInsteadOfWaiting) {
  CreateConsumer();
  ProducerOptions options = ProducerFor("own loop");
  options.chunk_size = 256;
  options.ring_size = 512;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::hours(1);
  std::unique_ptr<Producer> producer = DriveUntilAttached(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 100; ++i) WriteNumbered(writer, 0, i);
  EXPECT_GT(writer.stats().lost, 0u);
  EndProducer(&producer);
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

// Once nobody counted them: the second service began with what there was.
TEST_F(OneProcessTest, WhatIsDroppedBetweenTwoServicesIsCountedByTheSecond) {
  StartConsumer();
  ProducerOptions options = ProducerFor("dropping");
  options.ring_size = 1024;
  options.chunk_size = 256;
  auto producer = StartProducer(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t index = 0;
  for (int service = 0; service < 5; ++service) {
    for (int i = 0; i < 500; ++i) WriteNumbered(writer, 0, index++);
    consumer_->Stop();
    for (int i = 0; i < 500; ++i) WriteNumbered(writer, 0, index++);
    const PacketCounts counts = consumer_->stats().packets;
    delivered += counts.delivered;
    lost += counts.lost.total();
    consumer_ = nullptr;
    StartConsumer();
    ASSERT_TRUE(Eventually([&] { return producer->Flush(kLong).ok(); }));
  }
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
  const PacketCounts counts = consumer_->stats().packets;
  delivered += counts.delivered;
  lost += counts.lost.total();
  EXPECT_GT(lost, 2000u);
  EXPECT_EQ(delivered + lost, index);
}

TEST_F(OneProcessTest, TriggerArrivesWithWhatWasTracedBeforeIt) {
  std::vector<TriggerEvent> triggers;
  uint64_t packets = 0;
  options_.on_trigger = [&](const TriggerEvent& trigger) {
    triggers.push_back(trigger);
    consumer_->Flush(kLong);
    packets = consumer_->WriteTrace(trace_path())->packets;
  };
  std::unique_ptr<Producer> early = *Producer::Create(ProducerFor("early"));
  EXPECT_TRUE(absl::IsUnavailable(early->Trigger("nobody")));
  CreateConsumer();
  auto producer = DriveUntilAttached(ProducerFor("app"));
  EXPECT_TRUE(absl::IsInvalidArgument(producer->Trigger("")));
  EXPECT_TRUE(
      absl::IsInvalidArgument(producer->Trigger(std::string(256, 'x'))));
  TraceWriter& writer = producer->ThreadWriter("main");
  const WriterBatch batch = writer.Batch();
  WriteNumbered(writer, 0, 0);
  const std::string name(255, 'n');
  ASSERT_TRUE(producer->Trigger(name).ok());
  DriveUntil([&](const ConsumerStats&) { return !triggers.empty(); });
  ASSERT_EQ(triggers.size(), 1u);
  EXPECT_EQ(triggers[0].name, name);
  EXPECT_EQ(triggers[0].producer_name, "app");
  EXPECT_EQ(triggers[0].pid, getpid());
  EXPECT_EQ(packets, 1u);
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
