// Writers and the reader at full speed, held to the books: for every writer
// attempted = delivered + lost, in order, no duplicate, every byte right, and a
// mark wherever something is missing. Cursors start next to the roll-over of
// positions (2^32) or of wrap counts (2^29).
//
// What this does not prove: that no rare interleaving breaks the protocol (a
// run sees the ones that the scheduler happens to make; the race tests step
// through those we know of), that the memory orders suffice on hardware weaker
// than the one it ran on, or anything about other processes. ThreadSanitizer
// does not model the fence of PublishReadPos; that one only guards wake-ups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/common/ring/notification.h"
#include "tests/race/race_harness.h"
#include "tests/support/sanitizers.h"

namespace tracering::internal {
namespace {

using test::RingImageOptions;

constexpr int kWriters = 4;

struct Load {
  const char* name;
  uint32_t num_chunks;
  uint32_t chunk_size;
  uint32_t position;
  BufferExhaustedPolicy policy;
  uint64_t packets_per_writer;
};

class StressTest : public ::testing::TestWithParam<Load> {};

// Enough to go round every ring here, and over the edge that it starts at.
constexpr uint64_t kMinPositions = 64;

// Packets of all kinds, until `count` are finished and the reader has come far
// enough: writers that only drop are done before it has begun.
void WriteLoad(TraceWriterImpl& writer, const Load& load, uint64_t count,
               const std::atomic<uint64_t>& resolved) {
  std::minstd_rand random(writer.writer_id().value());
  const auto below = [&](uint32_t end) {
    return static_cast<uint32_t>(random()) % end;
  };
  const auto size = [&]() -> size_t {
    const uint32_t kind = below(20);
    if (kind == 0) return below(3 * load.chunk_size);
    if (kind < 4) return below(load.chunk_size);
    return below(40);
  };
  uint64_t number = 0;
  while (number < count || resolved < kMinPositions) {
    const uint32_t kind = below(32);
    if (kind == 0) {
      // Attempted only if a part was published; the number is used again.
      Packet packet = writer.NewPacket();
      AppendNumbered(packet, number, size());
      packet.Discard();
    } else if (kind < 4) {
      const WriterBatch batch = writer.Batch();
      for (uint32_t i = below(10); i != 0; --i) {
        Packet packet = writer.NewPacket();
        AppendNumbered(packet, number++, size());
      }
    } else {
      Packet packet = writer.NewPacket();
      AppendNumbered(packet, number++, size());
    }
  }
}

TEST_P(StressTest, BooksBalance) {
  const Load& load = GetParam();
  RingImageOptions options;
  options.num_chunks = load.num_chunks;
  options.chunk_size = load.chunk_size;
  options.position = load.position;
  RaceHarness harness(options);
  WriterOptions writer_options;
  writer_options.policy = load.policy;
  writer_options.stall_timeout = std::chrono::seconds(60);
  const uint64_t count =
      test::kSanitized ? load.packets_per_writer / 4 : load.packets_per_writer;

  std::vector<RaceHarness::Writer> writers;
  std::vector<std::thread> threads;
  std::atomic<int> running{kWriters};
  std::atomic<uint64_t> resolved{0};
  writers.reserve(kWriters);
  for (uint16_t id = 1; id <= kWriters; ++id) {
    writers.push_back(harness.MakeWriter(id, writer_options));
    threads.emplace_back([&, &writer = *writers.back()] {
      WriteLoad(writer, load, count, resolved);
      // The others need the chunk that this one holds.
      writer.Release();
      --running;
    });
  }
  // A ring that stops fails the test below; its writers must still end.
  while (running != 0) {
    const uint64_t before = harness.reader().resolved();
    if (harness.DrainPass() == DrainOutcome::kStopped) {
      harness.producer_ring().consumer_attached() = false;
      resolved = kMinPositions;
      break;
    }
    resolved = harness.reader().resolved();
    if (resolved == before) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();

  uint64_t delivered = 0;
  for (auto& writer : writers) {
    harness.ExpectExact(*writer);
    const WriterStats stats = writer->ReadStats();
    delivered += stats.published;
    if (load.policy == BufferExhaustedPolicy::kStall) {
      // Nothing is lost before the deadline, which is far away; only what the
      // writer itself gave up half-way.
      EXPECT_EQ(
          stats.lost,
          stats.lost_by_cause[static_cast<size_t>(LossCause::kWriterAbort)]);
    }
  }
  harness.ExpectRingExact();
  EXPECT_GT(delivered, 0u);
}

constexpr BufferExhaustedPolicy kDrop = BufferExhaustedPolicy::kDrop;
constexpr BufferExhaustedPolicy kStall = BufferExhaustedPolicy::kStall;

INSTANTIATE_TEST_SUITE_P(
    Loads, StressTest,
    ::testing::Values(
        Load{"Drop2Chunks", 2, 256, (1u << 30) - 8, kDrop, 30'000},
        Load{"Drop4Chunks", 4, 256, (1u << 31) - 8, kDrop, 30'000},
        Load{"Drop16Chunks", 16, 512, 0xffff'fff0, kDrop, 30'000},
        Load{"Drop64ChunksOf4KiB", 64, 4096, 0xffff'fff0, kDrop, 30'000},
        Load{"Stall2Chunks", 2, 256, 0xffff'fff0, kStall, 3'000},
        Load{"Stall4Chunks", 4, 512, 0xffff'fff0, kStall, 5'000},
        Load{"Stall16Chunks", 16, 256, 0xffff'fff0, kStall, 10'000},
        Load{"Stall64ChunksOf4KiB", 64, 4096, 0xffff'fff0, kStall, 20'000}),
    [](const auto& test) { return std::string(test.param.name); });

// Single packets to and fro: after each the writer waits until it is delivered,
// and the reader sleeps in between. A lost wake-up ends the test.
class PingPongTest : public ::testing::TestWithParam<bool> {};

TEST_P(PingPongTest, NoWakeUpIsLost) {
  constexpr uint64_t kRounds = 1'000'000;
  constexpr std::chrono::milliseconds kTime{1500};  // or fewer rounds
  cpu_set_t all_cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all_cpus), &all_cpus), 0);
  if (const bool one_cpu = GetParam(); one_cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all_cpus)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }

  RaceHarness harness({});
  harness.ring().StoreWakeupThreshold(1);
  auto writer = harness.MakeWriter(1);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  ASSERT_GE(epoll, 0);
  epoll_event edge = {};
  edge.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, harness.event_fd(), &edge), 0);

  std::atomic<uint64_t> delivered{0};
  std::atomic<uint64_t> rounds{kRounds};
  std::thread pinger([&] {
    const auto end = std::chrono::steady_clock::now() + kTime;
    uint64_t round = 0;
    while (round < rounds) {
      // The last round is announced before it is played.
      if (std::chrono::steady_clock::now() >= end) rounds = round + 1;
      harness.Write(*writer);
      ++round;
      while (delivered < round) std::this_thread::yield();
    }
  });
  const Ring& ring = harness.ring();
  bool lost_wake_up = false;
  while (delivered < rounds && !lost_wake_up) {
    EXPECT_EQ(harness.DrainPass(), DrainOutcome::kDrained);
    delivered = harness.reader().stats().fragments;
    ArmReader(ring);
    if (OutstandingSeqCst(ring, harness.reader().read_pos()) >=
        ring.LoadWakeupThreshold()) {
      continue;
    }
    if (delivered == rounds) break;
    epoll_event event = {};
    const int ready = epoll_wait(epoll, &event, 1, 20'000);
    lost_wake_up = ready == 0;
  }
  if (lost_wake_up) delivered = UINT64_MAX;  // lets the other thread go
  pinger.join();
  close(epoll);
  sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
  EXPECT_FALSE(lost_wake_up);
  RecordProperty("rounds", std::to_string(rounds));
  harness.ExpectExact(*writer);
  harness.ExpectRingExact();
}

INSTANTIATE_TEST_SUITE_P(Cpus, PingPongTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? std::string("OnOneCpu")
                                             : std::string("OnAllCpus");
                         });

}  // namespace
}  // namespace tracering::internal
