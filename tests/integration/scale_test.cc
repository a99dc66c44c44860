// Many of everything: threads, producers, sessions, writers. Quick numbers in
// every build; tests/support/scale.h says how to get the full ones.
#include "tests/support/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/numbered_packet.h"
#include "tests/integration/service_test.h"
#include "tests/support/open_fds.h"
#include "tests/support/sanitizers.h"
#include "tracering/trace_fields.h"

namespace tracering::test {
namespace {

using ::testing::IsEmpty;

// Mapped rings of this process.
size_t CountRings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:tracering") != std::string::npos) ++count;
  }
  return count;
}

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t size = 0;
  size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class ScaleTest : public ServiceTest {
 protected:
  ProducerOptions StallingProducer(const std::string& name) const {
    ProducerOptions options = ProducerFor(name);
    options.chunk_size = 256;
    options.ring_size = 64 * options.chunk_size;
    options.writer_options.policy = BufferExhaustedPolicy::kStall;
    options.writer_options.stall_timeout = kLong;
    return options;
  }
};

// A packet on the calling thread's own track, `number` 0.
void WriteOnOwnTrack(Producer& producer, uint64_t number,
                     const std::string& name) {
  const uint64_t track = producer.ThreadTrack(name);
  Packet packet = producer.ThreadWriter("main").NewPacket();
  packet.AppendVarint(trace_packet::kTimestamp, NowNs());
  Message event = packet.BeginMessage(trace_packet::kTrackEvent);
  event.AppendVarint(track_event::kType, track_event::kTypeInstant);
  event.AppendVarint(track_event::kTrackUuid, track);
  for (const auto& [key, value] :
       {std::pair("writer", number), std::pair("index", uint64_t{0})}) {
    Message note = event.BeginMessage(track_event::kDebugAnnotations);
    note.AppendString(debug_annotation::kName, key);
    note.AppendVarint(debug_annotation::kUintValue, value);
  }
}

// Once the newest threads had no names: the buffer for them was full of those
// of threads of which nothing was left.
TEST_F(ScaleTest, ShortThreadsAreExactNamedAndLeaveNothingBehind) {
  const uint64_t threads = Scaled(4'000, 100'000);
  options_.buffers = {{"main", Scaled(64, 256) << 10, FillPolicy::kRing}};
  options_.limits.metadata_buffer_size = Scaled(256, 1024) << 10;
  StartConsumer();
  auto producer = StartProducer(StallingProducer("threads"));
  // Told first, and still there at the end.
  const uint64_t old_track = producer->ThreadTrack("old hand");

  std::atomic<uint64_t> next{0};
  std::atomic<size_t> resident_early{0};
  std::vector<std::thread> starters;
  for (int i = 0; i < 8; ++i) {
    starters.emplace_back([&] {
      for (uint64_t number; (number = next++) < threads;) {
        std::thread([&] {
          WriteOnOwnTrack(*producer, number,
                          "thread " + std::to_string(number));
        }).join();
        if (number == threads / 4) resident_early = ResidentBytes();
      }
    });
  }
  for (std::thread& starter : starters) starter.join();
  if (!kSanitized) {
    EXPECT_LT(ResidentBytes(), resident_early + (8 << 20));
  }
  WriteOnOwnTrack(*producer, threads, "old hand");
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.lost, 0u);
  EXPECT_EQ(stats.descriptors.dropped, 0u);

  const BufferStats metadata = consumer_->stats().buffers.back();
  EXPECT_LE(metadata.used_bytes, options_.limits.metadata_buffer_size);
  const TraceFileInfo info = ExpectExact(threads + 1);
  EXPECT_EQ(info.lost.total(), info.lost[LossCause::kOverwritten]);
  EXPECT_GT(info.packets, 100u);
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, uint64_t> numbers;
  std::set<std::string> processes;
  for (const TracePacket& packet : ReadTraceFile(trace_path()).packets) {
    const TrackDescriptor& descriptor = packet.track_descriptor();
    if (descriptor.has_thread()) {
      names[descriptor.uuid()] = descriptor.thread().thread_name();
    } else if (descriptor.has_process()) {
      processes.insert(descriptor.process().process_name());
    }
    if (const auto number = NumberOf(packet); number.has_value()) {
      numbers[packet.track_event().track_uuid()] = number->writer;
    }
  }
  EXPECT_EQ(processes, std::set<std::string>{"threads"});
  ASSERT_EQ(numbers.size(), info.packets);
  EXPECT_EQ(numbers[old_track], threads);
  uint64_t nameless = 0;
  for (const auto& [track, number] : numbers) {
    const std::string& name = names[track];
    if (name.empty()) {
      ++nameless;
    } else {
      EXPECT_EQ(name, number == threads ? "old hand"
                                        : "thread " + std::to_string(number));
    }
  }
  EXPECT_EQ(nameless, 0u);
}

TEST_F(ScaleTest, KilledProducersAreReadToTheEndAndLeaveNothingBehind) {
  options_.buffers = {{"main", 64 << 10, FillPolicy::kRing}};
  options_.limits.metadata_buffer_size = 64 << 10;
  StartConsumer();
  const size_t fds = CountOpenFds();
  uint64_t lives = 0;
  const auto live = [&](uint64_t count) {
    for (uint64_t life = 0; life < count; ++life, ++lives) {
      ChildProcess child =
          SpawnProgram({TRACERING_PRODUCER_CHILD, "die-after-packets"});
      ASSERT_EQ(child.Wait()->signal, SIGKILL) << child.error_output();
    }
    ASSERT_TRUE(AwaitNobody());
  };
  // Until the buffers have gone round.
  live(Scaled(20, 300));
  const size_t heap = HeapBytes();

  ASSERT_TRUE(
      consumer_->StreamTo(trace_path(), std::chrono::milliseconds(50)).ok());
  const uint64_t before = lives;
  live(Scaled(10, 1000));
  ASSERT_TRUE(consumer_->StopStreaming().ok());
  // What producers handed over may be closed on another thread.
  EXPECT_TRUE(Eventually([&] { return CountOpenFds() == fds; }));
  EXPECT_EQ(CountRings(), 0u);
  if (!kSanitized) {
    EXPECT_LT(HeapBytes(), heap + (256 << 10));
  }

  const ConsumerStats stats = consumer_->stats();
  EXPECT_EQ(stats.producers_seen, lives);
  EXPECT_EQ(stats.packets.delivered, 15 * lives);
  EXPECT_EQ(stats.packets.lost.total(), 0u);
  // No two lives share a sequence.
  const TraceFile file = ReadTraceFile(trace_path());
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_THAT(CheckTrace(file), IsEmpty());
  std::map<uint32_t, int32_t> owners;
  std::set<std::pair<int32_t, uint64_t>> writers;
  Accounting accounting;
  for (const TracePacket& packet : file.packets) {
    const auto number = NumberOf(packet);
    if (!number.has_value()) continue;
    const int32_t pid = packet.trusted_pid();
    const auto owner =
        owners.emplace(packet.trusted_packet_sequence_id(), pid).first;
    EXPECT_EQ(owner->second, pid);
    writers.emplace(pid, number->writer);
  }
  accounting.Add(file.packets);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_GE(owners.size(), lives - before);
  EXPECT_GE(writers.size(), 3 * (lives - before));
}

// Services that start and stop while many threads trace: no packet is in two
// sessions, and none is missing without having been counted.
TEST_F(ScaleTest, SessionsComeAndGoBesideSixteenThreads) {
  options_.buffers = {{"main", 256 << 10, FillPolicy::kRing}};
  ProducerOptions options = StallingProducer("lasting");
  absl::StatusOr<std::unique_ptr<Producer>> producer =
      Producer::Create(options);
  ASSERT_TRUE(producer.ok()) << producer.status();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 16; ++number) {
    threads.emplace_back([&, number] {
      TraceWriter& writer = (*producer)->ThreadWriter("main");
      for (uint64_t i = 0; !done; ++i) WriteNumbered(writer, number, i);
    });
  }
  const uint64_t sessions = Scaled(3, 1000);
  Accounting accounting;
  uint64_t delivered = 0;
  for (uint64_t session = 1; session <= sessions; ++session) {
    StartConsumer();
    EXPECT_TRUE(
        Await([](const ConsumerStats& s) { return s.packets.delivered > 0; }));
    if (session == sessions) {
      done = true;
      for (std::thread& thread : threads) thread.join();
      EXPECT_TRUE((*producer)->Flush(kLong).ok());
    }
    consumer_->Stop();
    TraceFileInfo info;
    accounting.Add(Save(&info));
    delivered += info.packets + info.lost[LossCause::kOverwritten];
    consumer_ = nullptr;
  }
  const Producer::Stats stats = (*producer)->stats();
  EXPECT_EQ(stats.sessions, sessions);
  EXPECT_EQ(delivered, stats.attempted - stats.lost);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

// On two chunks: with less than one left to them the others would end here.
TEST_F(ScaleTest, ThreadParkedInsideAPacketCostsOthersOneChunk) {
  StartConsumer();
  ProducerOptions options = StallingProducer("parked");
  options.chunk_size = 4096;
  options.ring_size = 2 * options.chunk_size;
  auto producer = StartProducer(options);
  const OwnedTraceWriter parked = producer->CreateWriter("main");
  WriteNumbered(*parked, 0, 0);
  const uint64_t each = Scaled(2'000, 125'000);
  {
    const WriterBatch batch = parked->Batch();
    WriteNumbered(*parked, 0, 1);
    Packet packet = parked->NewPacket();
    packet.AppendVarint(trace_packet::kTimestampClockId, 6);
    std::vector<std::thread> threads;
    for (uint64_t number = 1; number <= 8; ++number) {
      threads.emplace_back([&, number] {
        TraceWriter& writer = producer->ThreadWriter("main");
        for (uint64_t i = 0; i < each; ++i) WriteNumbered(writer, number, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    AppendNumber(packet, 0, 2);
  }
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.attempted, 8 * each + 3);
  EXPECT_EQ(stats.lost, 0u);
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().packets.delivered, 8 * each + 3);
  ExpectExact(8 * each + 3);
}

TEST_F(ScaleTest, WritersBeyondTheLastIdCountAndOthersGoOn) {
  constexpr uint64_t kIds = 65'535;
  StartConsumer();
  ProducerOptions options = ProducerFor("writers");
  options.chunk_size = 256;
  options.ring_size = 64 * options.chunk_size;
  auto producer = StartProducer(options);
  std::vector<OwnedTraceWriter> writers;
  for (uint64_t i = 0; i < kIds + 5; ++i) {
    writers.push_back(producer->CreateWriter("main"));
  }
  for (uint64_t i = 0; i < 5; ++i) {
    WriteNumbered(*writers[i], i, 0);
    WriteNumbered(*writers[kIds + i], kIds + i, 0);
  }
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.rings[0].surplus_writers, 5u);
  EXPECT_EQ(
      stats.rings[0].lost_by_cause[static_cast<size_t>(LossCause::kNoWriterId)],
      5u);
  EXPECT_EQ(stats.lost, 5u);
  writers.erase(writers.begin(), writers.begin() + 5);
  for (uint64_t i = 0; i < 5; ++i) {
    writers.push_back(producer->CreateWriter("main"));
    WriteNumbered(*writers.back(), kIds + 5 + i, 0);
  }
  ASSERT_TRUE(producer->Flush(kLong).ok());
  EXPECT_EQ(producer->stats().lost, 5u);
  EXPECT_EQ(producer->stats().rings[0].surplus_writers, 5u);
  producer = nullptr;
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(ExpectExact(15).packets, 10u);
}

}  // namespace
}  // namespace tracering::test
