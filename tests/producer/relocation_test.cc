// A chunk that the reader scrapes while its writer holds it: each fragment
// once, flags where they belong, and no packet half.
//
// The reader acts while a packet is open, so that every case is deterministic.
// What happens between two instructions of the writer is in
// writer_interleaving_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/producer/writer_harness.h"

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kFromPrevious = 0x0400'0000;
constexpr uint32_t kOnNext = 0x0200'0000;
constexpr uint32_t kDataLoss = 0x0100'0000;
constexpr uint32_t kAcknowledged = 0x8000'0000;

constexpr uint32_t Fragments(uint32_t count) { return count << 16; }

// What the reader leaves of an Acquired word.
constexpr uint32_t Scraped(uint32_t acquired) {
  return acquired - kAcquired + 0x6000'0000;
}

TEST(RelocationTest, OpenFragmentMovesWhenNothingWasPublished) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    EXPECT_EQ(harness.reader().Drain(), 1u);
    EXPECT_EQ(harness.image().state_word(0), Scraped(kAcquired | 1));
    AppendSized(packet, 20, 'b');  // still into the old chunk
  }
  EXPECT_EQ(harness.image().state_word(0), kAcknowledged);
  EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(1) | 1);
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a') + PacketBytes(20, 'b')));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, PublishedPrefixStaysAndOnlyTheSuffixMoves) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  for (char fill : {'a', 'b', 'c'}) WriteSized(*writer, 10, fill);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'd');
    EXPECT_EQ(harness.image().state_word(0), kAcquired | Fragments(3) | 1);
    harness.reader().Drain();
    EXPECT_THAT(harness.Taken(), SizeIs(3));
  }
  const DecodedRing ring = harness.Decode();
  ASSERT_THAT(ring.chunks, SizeIs(1));
  EXPECT_THAT(ring.chunks[0].fragments, ElementsAre(PacketBytes(10, 'd')));
  EXPECT_EQ(ring.chunks[0].position, 1u);
  EXPECT_THAT(harness.DrainAll(), SizeIs(4));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(RelocationTest, DataLossFlagMovesIfNothingWasTaken) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1, {}, /*owes_loss=*/true);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    EXPECT_EQ(harness.image().state_word(0), kAcquired | kDataLoss | 1);
    harness.reader().Drain();
  }
  EXPECT_EQ(harness.image().state_word(1),
            kComplete | kDataLoss | Fragments(1) | 1);
  WriteSized(*writer, 10, 'b');
  harness.reader().Drain();
  const auto& packets = harness.reader().joiner().packets();
  ASSERT_THAT(packets, SizeIs(2));
  EXPECT_TRUE(packets[0].after_loss);
  EXPECT_FALSE(packets[1].after_loss);
}

TEST(RelocationTest, DataLossFlagIsNotRepeatedOnceItWasTaken) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1, {}, /*owes_loss=*/true);
  WriteSized(*writer, 10, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'b');
    EXPECT_EQ(harness.image().state_word(0),
              kAcquired | kDataLoss | Fragments(1) | 1);
    harness.reader().Drain();
  }
  EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(1) | 1);
  harness.reader().Drain();
  const auto& packets = harness.reader().joiner().packets();
  ASSERT_THAT(packets, SizeIs(2));
  EXPECT_TRUE(packets[0].after_loss);
  EXPECT_FALSE(packets[1].after_loss);
}

TEST(RelocationTest, ContinuationFlagMovesIfNothingWasTaken) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(300, 'x'));
    EXPECT_EQ(harness.image().state_word(1), kAcquired | kFromPrevious | 1);
    harness.reader().Drain();  // takes the head
    AppendSized(packet, 10, 'y');
  }
  EXPECT_EQ(harness.image().state_word(2),
            kComplete | kFromPrevious | Fragments(1) | 1);
  const auto packets = harness.DrainAll();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_EQ(packets[0].substr(packets[0].size() - 10), PacketBytes(10, 'y'));
  EXPECT_EQ(packets[0].size(), 3 + 300 + 10);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, ContinuationFlagIsNotRepeatedOnceItWasTaken) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(300, 'x'));
  }
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'y');
    EXPECT_EQ(harness.image().state_word(1),
              kAcquired | kFromPrevious | Fragments(1) | 1);
    harness.reader().Drain();
  }
  EXPECT_EQ(harness.image().state_word(2), kComplete | Fragments(1) | 1);
  EXPECT_THAT(harness.DrainAll(), SizeIs(2));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, ContinuesOnNextIsSetWhenTheRelocatedTailIsPublished) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 100, 'a');
    harness.reader().Drain();
    // Nothing was taken, so that the replacement is as full as the old chunk.
    packet.AppendString(1, std::string(200, 'b'));
    EXPECT_EQ(harness.image().state_word(1),
              kComplete | kOnNext | Fragments(1) | 1);
    EXPECT_EQ(harness.image().state_word(2), kAcquired | kFromPrevious | 1);
  }
  const auto packets = harness.DrainAll();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_EQ(packets[0].size(), 100 + 3 + 200u);
  EXPECT_EQ(harness.reader().joiner().packets()[0].num_fragments, 2u);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, FullFragmentGoesOnInPlaceIfSomethingWasTaken) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 100, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 100, 'b');
    harness.reader().Drain();
    // 48 bytes are left here; in a chunk without the first packet, 149.
    AppendSized(packet, 120, 'c');
    EXPECT_EQ(harness.image().state_word(0), kAcknowledged);
    EXPECT_EQ(harness.image().state_word(1), kAcquired | 1);
  }
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(100, 'a'),
                          PacketBytes(100, 'b') + PacketBytes(120, 'c')));
  EXPECT_EQ(harness.reader().joiner().packets()[1].num_fragments, 1u);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, WholeBatchAndTheOpenFragmentMoveTogether) {
  for (uint32_t published : {0u, 1u, 3u}) {
    for (uint32_t finalised : {1u, 2u, 5u}) {
      SCOPED_TRACE(testing::Message() << published << " " << finalised);
      WriterHarness harness;
      auto writer = harness.MakeWriter(1);
      std::vector<std::string> expected;
      char fill = 'a';
      for (uint32_t i = 0; i < published; ++i, ++fill) {
        WriteSized(*writer, 10 + i, fill);
        expected.push_back(PacketBytes(10 + i, fill));
      }
      {
        auto batch = writer->Batch();
        for (uint32_t i = 0; i < finalised; ++i, ++fill) {
          WriteSized(*writer, 20 + i, fill);
          expected.push_back(PacketBytes(20 + i, fill));
        }
        Packet packet = writer->NewPacket();
        AppendSized(packet, 30, fill);
        harness.reader().Drain();
        EXPECT_THAT(harness.Taken(), SizeIs(published));
        AppendSized(packet, 5, 'z');
        expected.push_back(PacketBytes(30, fill) + PacketBytes(5, 'z'));
      }
      EXPECT_EQ(harness.DrainAll(), expected);
      EXPECT_THAT(harness.reader().violations(), IsEmpty());
      EXPECT_EQ(writer->ReadStats().lost, 0u);
      EXPECT_EQ(writer->ReadStats().published, expected.size());
    }
  }
}

TEST(RelocationTest, ReplacementOfAFinalisedSuffixIsNotReused) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    harness.reader().Drain();
  }
  EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(1) | 1);
  WriteSized(*writer, 10, 'b');
  EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(1) | 1);
  EXPECT_EQ(harness.image().state_word(2), kComplete | Fragments(1) | 1);
}

TEST(RelocationTest, ReplacementWithAnOpenFragmentStaysAcquiredUntilItCloses) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 100, 'a');
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 20, 'b');
    {
      Packet packet = writer->NewPacket();
      AppendSized(packet, 100, 'c');
      harness.reader().Drain();
      AppendSized(packet, 60, 'd');  // forces the move
      EXPECT_EQ(harness.image().state_word(1), kAcquired | 1);
    }
    // It held a finalised suffix: published, and not for another packet.
    EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(2) | 1);
    WriteSized(*writer, 10, 'e');
    EXPECT_EQ(harness.image().state_word(2), kAcquired | 1);
  }
  EXPECT_THAT(harness.DrainAll(), SizeIs(4));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(RelocationTest, ReplacementWithOnlyAnOpenFragmentIsAnOrdinaryChunk) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 100, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 100, 'b');
    harness.reader().Drain();
    AppendSized(packet, 100, 'c');
  }
  WriteSized(*writer, 10, 'd');
  EXPECT_EQ(harness.image().state_word(1), kComplete | Fragments(2) | 1);
}

// The replacement of one open packet is scraped again and again.
TEST(RelocationTest, PacketMovesAsOftenAsItMust) {
  WriterHarness harness(Shape(8));
  auto writer = harness.MakeWriter(1);
  std::string expected;
  {
    Packet packet = writer->NewPacket();
    for (int i = 0; i < 100; ++i) {
      harness.reader().Drain();
      AppendSized(packet, 120, static_cast<char>('a' + i % 26));
      expected += PacketBytes(120, static_cast<char>('a' + i % 26));
    }
  }
  const auto taken = harness.DrainAll();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_TRUE(taken[0] == expected);
  EXPECT_GT(harness.reader().num_rewrites_requested(), 40u);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(RelocationTest, DirectoriesOfBothWidthsMove) {
  for (uint32_t chunk_size : {256u, 512u, 4096u, 32768u}) {
    SCOPED_TRACE(chunk_size);
    WriterHarness harness(Shape(4, chunk_size));
    auto writer = harness.MakeWriter(1);
    std::vector<std::string> expected;
    {
      auto batch = writer->Batch();
      for (size_t size = 2; size < 20; ++size) {
        WriteSized(*writer, size, 'x');
        expected.push_back(PacketBytes(size, 'x'));
      }
      harness.reader().Drain();
    }
    EXPECT_EQ(harness.DrainAll(), expected);
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

// --- No replacement ---

// A ring of two chunks of which the other is held by a writer that sleeps.
class NoReplacementTest : public testing::Test {
 protected:
  NoReplacementTest() : harness_(Shape(2)), writer_(harness_.MakeWriter(1)) {
    harness_.AttachConsumer();
  }

  void HoldTheOther(uint32_t chunk) {
    harness_.image().set_state_word(chunk, 0x6000'0063);
  }
  // The sleeper is done, and what is resolvable is resolved.
  void FreeAll(uint32_t chunk) {
    harness_.image().set_state_word(chunk, kAcknowledged);
    harness_.reader().Drain();
    harness_.reader().Drain();
  }
  WriterStats stats() { return writer_->ReadStats(); }

  WriterHarness harness_;
  WriterHarness::Writer writer_;
};

TEST_F(NoReplacementTest, OldChunkIsAcknowledgedAndThePacketCountedOnce) {
  HoldTheOther(1);
  {
    Packet packet = writer_->NewPacket();
    AppendSized(packet, 10, 'a');
    harness_.reader().Drain();
  }
  EXPECT_EQ(harness_.image().state_word(0), kAcknowledged);
  EXPECT_EQ(LostBy(stats(), LossCause::kNoChunkAvailable), 1u);
  EXPECT_EQ(harness_.Loss(LossCause::kNoChunkAvailable), 1u);
  ExpectBalanced(stats());

  FreeAll(1);
  WriteSized(*writer_, 10, 'b');
  harness_.reader().Drain();
  WriteSized(*writer_, 10, 'c');
  EXPECT_THAT(harness_.DrainAll(),
              ElementsAre(PacketBytes(10, 'b'), PacketBytes(10, 'c')));
  const auto& packets = harness_.reader().joiner().packets();
  EXPECT_TRUE(packets[0].after_loss);
  EXPECT_FALSE(packets[1].after_loss);
  EXPECT_THAT(harness_.reader().violations(), IsEmpty());
}

TEST_F(NoReplacementTest, EveryPacketOfTheSuffixIsCountedOnce) {
  HoldTheOther(1);
  WriteSized(*writer_, 10, 'a');
  {
    auto batch = writer_->Batch();
    for (char fill : {'b', 'c', 'd'}) WriteSized(*writer_, 10, fill);
    Packet packet = writer_->NewPacket();
    AppendSized(packet, 10, 'e');
    harness_.reader().Drain();
    packet.AppendString(1, std::string(500, 'f'));  // runs out of room
    EXPECT_EQ(LostBy(stats(), LossCause::kNoChunkAvailable), 3u);
  }
  EXPECT_EQ(LostBy(stats(), LossCause::kNoChunkAvailable), 4u);
  EXPECT_EQ(harness_.Loss(LossCause::kNoChunkAvailable), 4u);
  ExpectBalanced(stats());
  EXPECT_EQ(stats().published, 1u);
  EXPECT_THAT(harness_.DrainAll(), ElementsAre(PacketBytes(10, 'a')));
}

TEST_F(NoReplacementTest, FullRingLosesTheSuffixAsRingFull) {
  auto other = harness_.MakeWriter(2);
  {
    auto batch = writer_->Batch();
    WriteSized(*writer_, 10, 'a');
    harness_.reader().Drain();
    harness_.FillWithReservations();
  }
  EXPECT_EQ(LostBy(stats(), LossCause::kRingFull), 1u);
  EXPECT_EQ(harness_.image().state_word(0), kAcknowledged);
}

TEST_F(NoReplacementTest, DebtOfAFlagThatNobodyTookIsKept) {
  auto writer = harness_.MakeWriter(2, {}, /*owes_loss=*/true);
  HoldTheOther(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    EXPECT_EQ(harness_.image().state_word(0), kAcquired | kDataLoss | 2);
    harness_.reader().Drain();
    packet.AppendString(1, std::string(500, 'f'));  // moves, and cannot
    packet.Discard();                               // no loss of its own
  }
  EXPECT_EQ(writer->ReadStats().lost, 0u);
  FreeAll(1);
  WriteSized(*writer, 10, 'b');
  harness_.reader().Drain();
  ASSERT_THAT(harness_.Taken(), SizeIs(1));
  EXPECT_TRUE(harness_.reader().joiner().packets()[0].after_loss);
}

TEST_F(NoReplacementTest, TailOfASplitPacketIsTheReadersToCount) {
  WriterHarness harness(Shape(4));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    {
      Packet packet = writer->NewPacket();
      packet.AppendString(1, std::string(300, 'x'));
    }
    WriteSized(*writer, 10, 'y');
    harness.reader().Drain();  // takes the head, scrapes the rest
    harness.FillWithReservations();
  }
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(LostBy(stats, LossCause::kRingFull), 2u);
  ExpectBalanced(stats);
  EXPECT_EQ(harness.Loss(LossCause::kRingFull), 1u);
  EXPECT_TRUE(harness.reader().joiner().HasPartial(1));
}

// --- Discard ---

TEST(RelocationTest, DiscardInAScrapedChunkOnlyAcknowledges) {
  for (bool published : {false, true}) {
    SCOPED_TRACE(published);
    WriterHarness harness;
    auto writer = harness.MakeWriter(1);
    if (published) WriteSized(*writer, 10, 'a');
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'b');
    harness.reader().Drain();
    packet.Discard();
    if (published) {
      EXPECT_EQ(harness.image().state_word(0), kAcknowledged);
    }
    WriteSized(*writer, 10, 'c');
    const auto taken = harness.DrainAll();
    EXPECT_THAT(taken, SizeIs(published ? 2 : 1));
    EXPECT_EQ(taken.back(), PacketBytes(10, 'c'));
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
    EXPECT_EQ(writer->ReadStats().lost, 0u);
    EXPECT_EQ(writer->ReadStats().discarded, 1u);
  }
}

}  // namespace
}  // namespace tracering::test
