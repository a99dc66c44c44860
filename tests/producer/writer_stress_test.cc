// Many writers and one reader on small rings, by accounting identity: every
// packet that a writer attempted was delivered once, in order and whole, or is
// in its count of lost ones.
//
// Does not prove that a particular interleaving happened; those are in
// writer_interleaving_test.cc. Seeds are fixed, schedules are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/producer/writer_harness.h"
#include "tests/support/group_codec.h"

namespace tracering::test {
namespace {

using ::testing::IsEmpty;

constexpr uint32_t kIndex = 1;
constexpr uint32_t kPayload = 2;
constexpr uint32_t kDiscarded = 3;

std::string PayloadOf(uint64_t index, size_t size) {
  return std::string(size, static_cast<char>('a' + index % 26));
}

void WriteAtRandom(TraceWriter& writer, uint64_t packets, uint32_t seed) {
  std::mt19937 random(seed);
  const auto upto = [&](uint32_t limit) { return random() % (limit + 1); };
  uint64_t index = 0;
  const auto write_one = [&] {
    // Mostly small, sometimes over some chunks.
    const size_t size = upto(9) == 0 ? upto(1200) : upto(60);
    Packet packet = writer.NewPacket();
    if (upto(19) == 0) {
      packet.AppendVarint(kDiscarded, 1);
      packet.AppendString(kPayload, PayloadOf(0, size));
      packet.Discard();
      return;
    }
    packet.AppendVarint(kIndex, index);
    Message message = packet.BeginMessage(kPayload);
    message.AppendString(kPayload, PayloadOf(index, size));
    ++index;
  };
  while (index < packets) {
    if (upto(3) != 0) {
      write_one();
      continue;
    }
    auto batch = writer.Batch();
    for (uint32_t i = upto(12); i > 0; --i) write_one();
  }
}

void CheckDelivered(const std::vector<DecodedPacket>& packets) {
  uint64_t next = 0;
  for (const DecodedPacket& packet : packets) {
    const auto fields = ParseGroups(packet.bytes);
    ASSERT_TRUE(fields.has_value() && fields->size() == 2);
    EXPECT_EQ((*fields)[0].number, kIndex);
    const uint64_t index = (*fields)[0].value;
    ASSERT_GE(index, next) << "out of order, or twice";
    EXPECT_TRUE(index == next || packet.after_loss) << "a gap unmarked";
    next = index + 1;
    const auto& inner = (*fields)[1].children;
    ASSERT_EQ(inner.size(), 1u);
    EXPECT_TRUE(inner[0].bytes == PayloadOf(index, inner[0].bytes.size()));
  }
}

struct StressCase {
  uint32_t num_chunks;
  uint32_t position;
  bool stall;
};

class WriterStressTest : public testing::TestWithParam<StressCase> {};

TEST_P(WriterStressTest, EveryPacketIsDeliveredOnceOrCounted) {
  constexpr int kWriters = 4;
  constexpr uint64_t kPackets = 4000;
  const StressCase& param = GetParam();
  WriterHarness harness(Shape(param.num_chunks, 256, param.position));
  harness.AttachConsumer();
  const WriterOptions options =
      param.stall ? Stalling(std::chrono::hours(1)) : WriterOptions();
  std::vector<WriterHarness::Writer> writers;
  for (uint16_t id = 1; id <= kWriters; ++id) {
    writers.push_back(harness.MakeWriter(id, options));
  }
  std::atomic<int> running{kWriters};
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      WriteAtRandom(*writers[w], kPackets, w + 1);
      writers[w]->Release();
      running.fetch_sub(1);
    });
  }
  while (running.load() != 0) {
    harness.reader().Drain();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  while (harness.reader().Drain() != 0) {
  }

  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  uint64_t lost = 0;
  for (uint16_t id = 1; id <= kWriters; ++id) {
    SCOPED_TRACE(id);
    const WriterStats stats = writers[id - 1u]->ReadStats();
    ExpectBalanced(stats);
    lost += stats.lost;
    auto packets = harness.reader().joiner().PacketsOf(id);
    EXPECT_EQ(packets.size(), stats.published);
    // What gives back the chunk of a discarded packet.
    if (!packets.empty() && packets.back().bytes.empty()) packets.pop_back();
    CheckDelivered(packets);
    if (param.stall) {
      // Only packets that were discarded half-way.
      EXPECT_EQ(stats.lost, LostBy(stats, LossCause::kWriterAbort));
    }
  }
  // Each loss is counted by one side.
  EXPECT_EQ(
      harness.image().WriterLoss() + harness.reader().joiner().num_unfinished(),
      lost);
  EXPECT_EQ(harness.image().read_pos(), harness.image().write_pos());
}

INSTANTIATE_TEST_SUITE_P(AcrossRollOvers, WriterStressTest,
                         testing::Values(StressCase{2, 0x3fff'ff00, false},
                                         StressCase{2, 0x3fff'ff00, true},
                                         StressCase{4, 0x7fff'ff00, false},
                                         StressCase{4, 0x7fff'ff00, true},
                                         StressCase{16, 0xffff'fff0, false},
                                         StressCase{16, 0xffff'fff0, true},
                                         StressCase{64, 0xffff'fff0, false}));

}  // namespace
}  // namespace tracering::test
