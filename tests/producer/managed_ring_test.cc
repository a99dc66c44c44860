// Rings and their writers' life: ids, surplus, debts, counts, the end.
#include "src/producer/managed_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/eventfd.h"
#include "tests/support/ring_decoder.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

using test::DecodedPacket;
using test::ReferenceReader;
using testing::IsEmpty;

constexpr uint32_t kNumChunks = 8;
constexpr uint32_t kChunkSize = 256;
constexpr BufferId kBuffer(3);

class ManagedRingTest : public testing::Test {
 protected:
  void MakeRing(uint16_t max_writer_id, RingMode mode = RingMode::kOn) {
    auto event_fd = os::CreateEventFd();
    ASSERT_TRUE(event_fd.ok());
    ManagedRing::Config config{"test", abi::Geometry(kNumChunks, kChunkSize),
                               mode, false, max_writer_id};
    auto ring = ManagedRing::Create(
        std::move(config),
        std::make_shared<const os::GuardedFd>(*std::move(event_fd)));
    ASSERT_TRUE(ring.ok()) << ring.status().ToString();
    ring_ = *std::move(ring);
    reader_ = std::make_unique<ReferenceReader>(
        reinterpret_cast<uint8_t*>(&ring_->ring().words()),
        test::RingShape{kNumChunks, kChunkSize});
  }

  std::unique_ptr<ManagedWriter> AddWriter() {
    return ring_->AddWriter(kBuffer, WriterOptions());
  }

  static void Trace(ManagedWriter& writer, const std::string& text = "x") {
    Packet packet = writer.writer().NewPacket();
    packet.AppendString(trace_packet::kForTesting, text);
  }

  uint64_t Lost(LossCause cause) {
    return ring_->ReadStats().lost_by_cause[static_cast<size_t>(cause)];
  }

  uint64_t NumBrokenOff() const { return reader_->joiner().num_broken_off(); }
  size_t NumPackets() const { return reader_->joiner().packets().size(); }

  std::shared_ptr<ManagedRing> ring_;
  std::unique_ptr<ReferenceReader> reader_;
};

// More writers than ids: the surplus discards and counts, the others are
// untouched, ids come back.
TEST_F(ManagedRingTest, SurplusWritersDiscardAndCountAndIdsComeBack) {
  MakeRing(2);
  auto first = AddWriter();
  auto second = AddWriter();
  auto third = AddWriter();
  EXPECT_FALSE(first->is_surplus());
  EXPECT_FALSE(second->is_surplus());
  EXPECT_TRUE(third->is_surplus());
  EXPECT_EQ(third->writer().writer_id(), WriterId(0));
  EXPECT_EQ(ring_->TryAddWriter(kBuffer, WriterOptions()), nullptr);
  for (int i = 0; i < 3; ++i) {
    Trace(*first);
    Trace(*second);
    Trace(*third);
  }
  EXPECT_EQ(Lost(LossCause::kNoWriterId), 3u);
  first.reset();
  // Its chunk has not been read: the id still names it.
  EXPECT_EQ(ring_->TryAddWriter(kBuffer, WriterOptions()), nullptr);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 6u);
  auto fourth = ring_->TryAddWriter(kBuffer, WriterOptions());
  ASSERT_NE(fourth, nullptr);
  EXPECT_EQ(fourth->writer().writer_id(), WriterId(1));
  Trace(*fourth);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 7u);
  EXPECT_EQ(ring_->ReadStats().attempted, 10u);
  EXPECT_EQ(ring_->ReadStats().surplus_writers, 1u);
  EXPECT_THAT(reader_->violations(), IsEmpty());
}

TEST_F(ManagedRingTest, ALossThatAWriterCouldNotMarkIsMarkedByItsIdsNextOwner) {
  MakeRing(1);
  auto first = AddWriter();
  // Fills the ring and loses at least one packet.
  while (ring_->ReadStats().lost() == 0) Trace(*first, std::string(150, 'x'));
  first.reset();
  reader_->Drain();
  const size_t before = NumPackets();
  auto second = AddWriter();
  ASSERT_EQ(second->writer().writer_id(), WriterId(1));
  Trace(*second);
  Trace(*second);
  reader_->Drain();
  const std::vector<DecodedPacket>& packets = reader_->joiner().packets();
  ASSERT_EQ(packets.size(), before + 2);
  EXPECT_TRUE(packets[before].after_loss);
  EXPECT_FALSE(packets[before + 1].after_loss);
}

TEST_F(ManagedRingTest, APacketOfWhichHalfWasPublishedEndsWithItsWriter) {
  MakeRing(1);
  auto first = AddWriter();
  {
    Packet packet = first->writer().NewPacket();
    packet.AppendString(trace_packet::kForTesting, std::string(400, 'x'));
    first->writer().Release();
  }
  first.reset();
  reader_->Drain();
  EXPECT_TRUE(reader_->joiner().HasPartial(1));
  EXPECT_EQ(ring_->ReadStats().attempted, 1u);
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 1u);
  auto second = AddWriter();
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 1u);
  ASSERT_EQ(second->writer().writer_id(), WriterId(1));
  Trace(*second, "whole");
  reader_->Drain();
  ASSERT_EQ(NumPackets(), 1u);
  EXPECT_TRUE(reader_->joiner().packets()[0].after_loss);
  // Now the reader can know.
  EXPECT_FALSE(reader_->joiner().HasPartial(1));
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 0u);
}

// A reader that leaves counts what it has a part of, before and after the
// writer has given the packet up.
TEST_F(ManagedRingTest, UnfinishedPacketThatAReaderCountedIsNotCountedAgain) {
  MakeRing(2);
  auto writer = AddWriter();
  while (ring_->ReadStats().lost_unfinished == 0) {
    Trace(*writer, std::string(150, 'x'));
  }
  reader_->Drain();
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 1u);
  const abi::Position read_pos = ring_->ring().LoadReadPosAcquire();
  ring_->ring().StoreReaderLeft(1, read_pos);
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 0u);

  // Another one, which that reader has not seen.
  Trace(*writer, "whole");
  while (ring_->ReadStats().lost_unfinished == 0) {
    Trace(*writer, std::string(150, 'x'));
  }
  writer.reset();
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 1u);
  reader_->Drain();
  ring_->ring().StoreReaderLeft(2, ring_->ring().LoadReadPosAcquire());
  EXPECT_EQ(ring_->ReadStats().lost_unfinished, 0u);
}

// Random sizes on a ring that is read now and then: at each quiet moment every
// packet is delivered, counted in the ring, or known to be unfinished; those
// that a reader would count are what the joiner saw begin and not end.
TEST_F(ManagedRingTest,
       AtEveryQuietMomentEachPacketIsDeliveredOrKnownToBeLost) {
  MakeRing(3);
  std::mt19937_64 random(7);
  std::vector<std::unique_ptr<ManagedWriter>> writers(3);
  uint64_t attempted = 0;
  uint64_t most_unfinished = 0;
  for (int round = 0; round < 3000; ++round) {
    for (auto& writer : writers) {
      if (writer == nullptr) {
        writer = ring_->TryAddWriter(kBuffer, WriterOptions());
        if (writer == nullptr) continue;
      }
      Trace(*writer, std::string(random() % 700, 'x'));
      ++attempted;
      if (random() % 16 == 0) writer.reset();
    }
    if (random() % 8 != 0) continue;
    reader_->Drain();
    const Producer::RingStats stats = ring_->ReadStats();
    uint64_t partial = 0;
    for (uint16_t id = 1; id <= 3; ++id) {
      if (reader_->joiner().HasPartial(id)) ++partial;
    }
    ASSERT_EQ(stats.lost_unfinished, partial) << round;
    ASSERT_EQ(stats.attempted, attempted);
    ASSERT_EQ(NumPackets() + stats.lost() + NumBrokenOff(), attempted) << round;
    most_unfinished = std::max(most_unfinished, stats.lost_unfinished);
  }
  EXPECT_GT(most_unfinished, 1u);
  EXPECT_GT(NumBrokenOff(), 10u);
}

TEST_F(ManagedRingTest, AReleasedWriterHasPublishedItsBatch) {
  MakeRing(1);
  auto writer = AddWriter();
  writer->writer().BeginBatch();
  Trace(*writer);
  Trace(*writer);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 0u);
  writer.reset();
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 2u);
}

TEST_F(ManagedRingTest,
       AWriterKeepsTheRingAliveAndTracesIntoNothingWhenClosed) {
  MakeRing(4);
  auto writer = AddWriter();
  Trace(*writer);
  reader_->Drain();
  ring_->Close();
  std::weak_ptr<ManagedRing> ring = ring_;
  ring_.reset();
  EXPECT_FALSE(ring.expired());
  Trace(*writer);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 1u);
  TraceWriter* const address = &writer->writer();
  writer->LetGoIfClosed();
  EXPECT_TRUE(ring.expired());
  EXPECT_EQ(&writer->writer(), address);
  Trace(*writer);
  const WriterBatch batch = writer->writer().Batch();
  Trace(*writer);
  EXPECT_EQ(writer->writer().ReadStats().attempted, 0u);
}

TEST_F(ManagedRingTest, AWriterInUseDoesNotLetGo) {
  MakeRing(4);
  auto writer = AddWriter();
  {
    const WriterBatch batch = writer->writer().Batch();
    ring_->Close();
    std::weak_ptr<ManagedRing> ring = ring_;
    ring_.reset();
    writer->LetGoIfClosed();
    EXPECT_FALSE(ring.expired());
  }
  writer->LetGoIfClosed();
}

TEST_F(ManagedRingTest, AnOpenRingIsNotLetGo) {
  MakeRing(4);
  auto writer = AddWriter();
  writer->LetGoIfClosed();
  Trace(*writer);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 1u);
}

TEST_F(ManagedRingTest, ARingThatIsOffIsOnFromAttachToDetach) {
  MakeRing(4, RingMode::kOff);
  auto writer = AddWriter();
  Trace(*writer);
  ring_->Attach();
  Trace(*writer);
  ring_->Detach(RingMode::kOff);
  Trace(*writer);
  reader_->Drain();
  EXPECT_EQ(NumPackets(), 1u);
  EXPECT_EQ(ring_->ReadStats().attempted, 1u);
}

TEST_F(ManagedRingTest, NeitherAttachNorDetachReopensAClosedRing) {
  MakeRing(4, RingMode::kOff);
  auto writer = AddWriter();
  ring_->Close();
  ring_->Attach();
  Trace(*writer);
  ring_->Detach(RingMode::kOn);
  Trace(*writer);
  EXPECT_EQ(ring_->ReadStats().attempted, 0u);
}

TEST_F(ManagedRingTest, StatsAreTheSumOfWritersThatAreAndThatWere) {
  MakeRing(4);
  auto first = AddWriter();
  auto second = AddWriter();
  auto third = AddWriter();
  Trace(*first);
  Trace(*second);
  Trace(*third);
  {
    Packet packet = second->writer().NewPacket();
    packet.Discard();
  }
  // From the middle, then the front.
  second.reset();
  first.reset();
  const Producer::RingStats stats = ring_->ReadStats();
  EXPECT_EQ(stats.attempted, 3u);
  EXPECT_EQ(stats.discarded, 1u);
  EXPECT_EQ(stats.writers, 1u);
  EXPECT_EQ(stats.outstanding_chunks, 3u);
  EXPECT_EQ(stats.num_chunks, kNumChunks);
}

}  // namespace
}  // namespace tracering::internal
