// How fragments lie in chunks, and when a chunk is kept, left or claimed:
// the writer's half of the chunk document, with its own numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/producer/writer_harness.h"

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void WriteEmpty(TraceWriter& writer) { Packet packet = writer.NewPacket(); }

TEST(ChunkWriterTest, LaysOutTheWorkedExampleByteForByte) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(0x0102);
  WriteSized(*writer, 5, 'a');
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(197, 'b'));  // 1 + 2 + 197 = 200
  }
  WriteSized(*writer, 3, 'c');

  const uint8_t* chunk = harness.image().chunk(0);
  EXPECT_EQ(harness.image().state_word(0), 0x4003'0102u);
  EXPECT_EQ(chunk[4], 7);
  EXPECT_EQ(chunk[5], 0);
  EXPECT_EQ(std::string(chunk + 6, chunk + 11), PacketBytes(5, 'a'));
  EXPECT_EQ(std::string(chunk + 14, chunk + 211), std::string(197, 'b'));
  EXPECT_EQ(std::string(chunk + 211, chunk + 214), PacketBytes(3, 'c'));
  EXPECT_EQ(std::string(chunk + 214, chunk + 253), std::string(39, '\0'));
  EXPECT_EQ(chunk[255], 0x05);
  EXPECT_EQ(chunk[254], 0xc8);
  EXPECT_EQ(chunk[253], 0x03);
}

TEST(ChunkWriterTest, LargerChunksHaveTwoByteEntries) {
  WriterHarness harness(Shape(2, 512));
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(297, 'b'));  // 300 bytes
  }
  const uint8_t* chunk = harness.image().chunk(0);
  EXPECT_EQ(chunk[510], 300 & 0xff);
  EXPECT_EQ(chunk[511], 300 >> 8);
}

TEST(ChunkWriterTest, OpenPacketHoldsAnAcquiredChunkOfWhichNothingIsPublished) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(9);
  Packet packet = writer->NewPacket();
  packet.AppendVarint(1, 1);
  EXPECT_EQ(harness.image().state_word(0), kAcquired | 9);
  packet.Finish();
  EXPECT_EQ(harness.image().state_word(0), kComplete | 0x1'0000 | 9);
}

TEST(ChunkWriterTest, CachedChunkIsReusedWithoutANewReservation) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 10; ++i) WriteSized(*writer, 10, 'x');
  EXPECT_EQ(harness.image().write_pos(), 1u);
  EXPECT_THAT(harness.DrainAll(), SizeIs(10));
}

TEST(ChunkWriterTest, ReclaimedCachedChunkIsReplaced) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_THAT(harness.DrainAll(), SizeIs(1));
  WriteSized(*writer, 10, 'b');
  EXPECT_EQ(harness.image().write_pos(), 2u);
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'b')));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(ChunkWriterTest, CachedChunkThatSomebodyElseOwnsNowIsLeftAlone) {
  WriterHarness harness(Shape(2));
  auto first = harness.MakeWriter(1);
  auto second = harness.MakeWriter(2);
  WriteSized(*first, 10, 'a');
  harness.DrainAll();
  WriteSized(*second, 10, 'b');  // position 1
  {
    auto third = harness.MakeWriter(3);
    WriteSized(*third, 10, 'c');  // position 2, the chunk of `first`
  }
  harness.reader().Drain();
  WriteSized(*first, 10, 'd');
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'b'),
                          PacketBytes(10, 'c'), PacketBytes(10, 'd')));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

// The numbers of the document: 250 and 253 entries fit the two smallest
// chunks, 255 is the limit of the others.
TEST(ChunkWriterTest, EmptyFragmentsFillADirectory) {
  struct {
    uint32_t chunk_size;
    uint32_t fit;
  } const kCases[] = {{256, 250}, {512, 253}, {1024, 255}, {4096, 255}};
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.chunk_size);
    WriterHarness harness(Shape(4, test.chunk_size));
    auto writer = harness.MakeWriter(1);
    for (uint32_t i = 0; i < test.fit; ++i) WriteEmpty(*writer);
    EXPECT_EQ(harness.image().write_pos(), 1u);
    EXPECT_EQ(harness.image().state_word(0), kComplete | test.fit << 16 | 1);
    WriteEmpty(*writer);
    EXPECT_EQ(harness.image().write_pos(), 2u);
    const auto packets = harness.DrainAll();
    EXPECT_EQ(packets.size(), test.fit + 1);
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

TEST(ChunkWriterTest, OpensAFragmentWhileItsDirectoryEntryFits) {
  for (size_t left : {0, 1, 2}) {
    SCOPED_TRACE(left);
    WriterHarness harness;
    auto writer = harness.MakeWriter(1);
    // 250 bytes: 125 + 1 and then what leaves `left`.
    WriteSized(*writer, 124, 'a');
    WriteSized(*writer, 250 - 125 - 1 - left, 'b');
    WriteEmpty(*writer);
    // No byte left for the entry: the empty packet went elsewhere.
    EXPECT_EQ(harness.image().write_pos(), left == 0 ? 2u : 1u);
    EXPECT_THAT(harness.DrainAll(), SizeIs(3));
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

TEST(ChunkWriterTest, ChunkThatContinuesOnTheNextIsNeverReused) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(300, 'x'));
    // The head is published already, and complete.
    EXPECT_EQ(harness.image().state_word(0), 0x4201'0001u);
    EXPECT_EQ(harness.image().state_word(1), 0x2400'0001u);
  }
  EXPECT_EQ(harness.image().state_word(1), 0x4401'0001u);
  WriteSized(*writer, 10, 'y');
  EXPECT_EQ(harness.image().state_word(0), 0x4201'0001u);
  EXPECT_EQ(harness.image().state_word(1), 0x4402'0001u);
  ASSERT_THAT(harness.DrainAll(), SizeIs(2));
  EXPECT_EQ(harness.reader().joiner().packets()[0].num_fragments, 2u);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(ChunkWriterTest, TwoWritersNeverShareAChunk) {
  WriterHarness harness;
  auto first = harness.MakeWriter(1);
  auto second = harness.MakeWriter(2);
  WriteSized(*first, 10, 'a');
  WriteSized(*second, 10, 'b');
  WriteSized(*first, 10, 'c');
  EXPECT_EQ(harness.image().write_pos(), 2u);
  harness.reader().Drain();
  EXPECT_THAT(harness.reader().joiner().PacketsOf(1), SizeIs(2));
  EXPECT_THAT(harness.reader().joiner().PacketsOf(2), SizeIs(1));
}

TEST(ChunkWriterTest, WorksAcrossTheRollOverOfPositions) {
  for (uint32_t position : {0xffff'fff0u, 0x3fff'fffeu, 0x7fff'fff8u}) {
    SCOPED_TRACE(position);
    WriterHarness harness(Shape(2, 256, position));
    auto writer = harness.MakeWriter(1);
    for (int i = 0; i < 64; ++i) {
      WriteSized(*writer, 100, 'x');
      harness.reader().Drain();
    }
    EXPECT_EQ(harness.image().write_pos(), position + 64);
    EXPECT_THAT(harness.Taken(), SizeIs(64));
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

// --- Reservations whose chunk cannot be claimed ---

// Leaves the chunk as a scraped one whose writer sleeps.
void HoldByASleeper(RingImage& image, uint32_t chunk) {
  image.set_state_word(chunk, 0x6000'0063);
}

TEST(ChunkWriterTest, HeldChunkBurnsItsPositionAndTheNextIsClaimed) {
  WriterHarness harness;
  HoldByASleeper(harness.image(), 0);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.image().write_pos(), 2u);
  const DecodedRing ring = harness.Decode();
  EXPECT_THAT(ring.holes, ElementsAre(0u));
  ASSERT_THAT(ring.chunks, SizeIs(1));
  EXPECT_EQ(ring.chunks[0].position, 1u);
  ExpectBalanced(writer->ReadStats());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(ChunkWriterTest, ClaimBudgetIsEightPositions) {
  WriterHarness harness(Shape(32));
  for (uint32_t i = 0; i < 32; ++i) HoldByASleeper(harness.image(), i);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.image().write_pos(), 8u);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kNoChunkAvailable), 1u);
  EXPECT_EQ(writer->ReadStats().lost, 1u);
  // A ninth claim would have succeeded.
  harness.image().set_state_word(8, 0);
  WriteSized(*writer, 10, 'b');
  EXPECT_EQ(harness.image().write_pos(), 9u);
  EXPECT_EQ(writer->ReadStats().published, 1u);
}

TEST(ChunkWriterTest, ClaimBudgetIsTheRingIfThatIsSmaller) {
  WriterHarness harness(Shape(4));
  for (uint32_t i = 0; i < 4; ++i) HoldByASleeper(harness.image(), i);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.image().write_pos(), 4u);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kNoChunkAvailable), 1u);
}

TEST(ChunkWriterTest, FullRingIsNotCalledNoChunkAvailable) {
  WriterHarness harness;
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 1u);
  EXPECT_EQ(writer->ReadStats().lost, 1u);
}

TEST(ChunkWriterTest, LaterFullDoesNotEraseThatAClaimFailed) {
  WriterHarness harness;
  harness.image().set_write_pos(3);  // one position is left
  HoldByASleeper(harness.image(), 3);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.image().write_pos(), 4u);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kNoChunkAvailable), 1u);
  EXPECT_EQ(writer->ReadStats().lost, 1u);
}

// A ring full of abandoned reservations: the reader hears of it, the holes
// drain, the writer goes on.
TEST(ChunkWriterTest, HolesNotifyTheReaderAndDrain) {
  WriterHarness harness(Shape(16));
  for (uint32_t i = 0; i < 16; ++i) HoldByASleeper(harness.image(), i);
  harness.AttachConsumer();
  harness.image().SetWord32(128, 1000);  // no publication ever notifies
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 100; ++i) {
    harness.image().SetWord32(132, 1);  // the reader sleeps
    WriteSized(*writer, 10, 'a');
    EXPECT_EQ(harness.TakeSignals(), 1u);
    harness.reader().Drain();
  }
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kNoChunkAvailable), 100u);
  EXPECT_EQ(harness.Loss(LossCause::kNoChunkAvailable), 100u);
  // The sleepers wake and acknowledge.
  for (uint32_t i = 0; i < 16; ++i) {
    harness.image().set_state_word(i, 0x8000'0000);
  }
  WriteSized(*writer, 10, 'b');  // still burns: only the reader frees
  harness.reader().Drain();
  WriteSized(*writer, 10, 'b');
  harness.reader().Drain();
  WriteSized(*writer, 10, 'c');
  const auto taken = harness.DrainAll();
  EXPECT_EQ(taken.back(), PacketBytes(10, 'c'));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  ExpectBalanced(writer->ReadStats());
  EXPECT_EQ(writer->ReadStats().published, taken.size());
}

// --- Notification ---

TEST(ChunkWriterTest, BelowTheThresholdNobodyIsWoken) {
  WriterHarness harness(Shape(8));
  harness.image().SetWord32(132, 1);
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 6; ++i) WriteSized(*writer, 120, 'x');  // 3 chunks
  EXPECT_EQ(harness.image().write_pos(), 3u);
  EXPECT_EQ(harness.TakeSignals(), 0u);
  // The default threshold is half the ring.
  WriteSized(*writer, 120, 'x');
  EXPECT_EQ(harness.image().write_pos(), 4u);
  EXPECT_EQ(harness.TakeSignals(), 1u);
  EXPECT_EQ(harness.image().Word32(132), 0u);
}

TEST(ChunkWriterTest, ChunkAtTheThresholdNotifiesAtEachPublication) {
  WriterHarness harness;
  harness.image().SetWord32(128, 1);
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 5; ++i) {
    harness.image().SetWord32(132, 1);
    WriteSized(*writer, 10, 'x');
    EXPECT_EQ(harness.TakeSignals(), 1u);
  }
  EXPECT_EQ(harness.image().write_pos(), 1u);
}

TEST(ChunkWriterTest, BusyReaderIsNotSignalled) {
  WriterHarness harness;
  harness.image().SetWord32(128, 1);
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 100; ++i) WriteSized(*writer, 100, 'x');
  EXPECT_EQ(harness.TakeSignals(), 0u);
}

TEST(ChunkWriterTest, SleepingReaderIsSignalledOnce) {
  WriterHarness harness(Shape(4));
  harness.image().SetWord32(132, 1);
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 200; ++i) WriteSized(*writer, 100, 'x');
  EXPECT_EQ(harness.TakeSignals(), 1u);
  EXPECT_GT(writer->ReadStats().lost, 0u);
}

TEST(ChunkWriterTest, FullRingNotifiesAlsoWhenItDrops) {
  WriterHarness harness;
  harness.image().SetWord32(128, 1000);
  harness.FillWithReservations();
  harness.image().SetWord32(132, 1);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.TakeSignals(), 1u);
}

TEST(ChunkWriterTest, PublishedPartOfALargePacketNotifies) {
  WriterHarness harness;
  harness.image().SetWord32(128, 1);
  harness.image().SetWord32(132, 1);
  auto writer = harness.MakeWriter(1);
  Packet packet = writer->NewPacket();
  packet.AppendString(1, std::string(300, 'x'));
  EXPECT_EQ(harness.TakeSignals(), 1u);
}

}  // namespace
}  // namespace tracering::test
