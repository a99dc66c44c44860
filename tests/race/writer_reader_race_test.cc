// The three races on a chunk's word between a real writer and the real reader,
// each won by either side, and what follows from each outcome.
//
//   FreeForWrap  claim    against  advance
//   Acquired     publish  against  request rewrite
//   Complete     reuse    against  reclaim
//
// Every test ends with the books: attempted = delivered + lost, per writer and
// over the ring, in order and without duplicates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "src/common/ring/notification.h"
#include "tests/race/race_harness.h"
#include "tests/support/step_sequencer.h"

namespace tracering::internal {
namespace {

using test::Actor;
using test::RingImageOptions;
using test::StepSequencer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RingImageOptions Chunks(uint32_t num_chunks, uint32_t position = 0) {
  RingImageOptions options;
  options.num_chunks = num_chunks;
  options.position = position;
  return options;
}

class WriterReaderRaceTest : public ::testing::Test {
 protected:
  // Starts a thread that writes one packet.
  Actor& StartPacket(size_t size = 10) {
    return sequencer_.Start("writer",
                            [this, size] { harness_.Write(*writer_, size); });
  }
  Actor& StartPass() {
    return sequencer_.Start("reader", [this] { (void)harness_.DrainPass(); });
  }
  static bool RunBeforeCas(Actor& actor, const void* word) {
    return actor.RunBefore(SharedAccess::kCompareExchange, word);
  }
  void ExpectBooksBalance() {
    harness_.ExpectExact(*writer_);
    harness_.ExpectRingExact();
  }

  RaceHarness harness_{Chunks(4)};
  RaceHarness::Writer writer_ = harness_.MakeWriter(1);
  StepSequencer sequencer_;
};

// --- FreeForWrap ---

TEST_F(WriterReaderRaceTest, ReaderWinsTheFreeChunk) {
  Actor& writer = StartPacket();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  ASSERT_EQ(harness_.DrainPass(), DrainOutcome::kDrained);
  EXPECT_EQ(harness_.reader().stats().holes, 1u);
  writer.RunToEnd();
  // The claim failed once and was not repeated; the packet is at position 1.
  EXPECT_EQ(harness_.state_word(0), 1u);
  EXPECT_EQ(harness_.image().write_pos(), 2u);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0));
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest, WriterClaimsTheFreeChunkFirst) {
  Actor& writer = StartPacket();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  writer.RunToEnd();
  reader.RunToEnd();
  EXPECT_EQ(harness_.reader().stats().lost_races, 1u);
  EXPECT_EQ(harness_.reader().stats().holes, 0u);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0));
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest,
       WriterClaimsFirstAndLosesTheChunkBeforePublishing) {
  Actor& writer = StartPacket();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  writer.Step();  // claims
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  reader.RunToEnd();
  EXPECT_EQ(harness_.reader().stats().scrapes, 1u);
  writer.RunToEnd();
  EXPECT_EQ(harness_.state_word(0), abi::kAcknowledgedWord);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0));
  ExpectBooksBalance();
}

// A packet of this size fills a chunk of 256 bytes to the last byte.
constexpr size_t kWholeChunk = 237;

// A writer sleeps between reservation and claim, while the reader passes its
// position and goes round once or twice. Crosses the roll-over of positions.
TEST(ReservationRaceTest, DelayedClaimNeverAppearsBehindTheReader) {
  constexpr int kRounds = 1000;
  RaceHarness harness(Chunks(4, 0xffff'f000));
  auto delayed = harness.MakeWriter(1);
  auto busy = harness.MakeWriter(2);
  StepSequencer sequencer;
  Actor& writer = sequencer.Start("delayed", [&] {
    for (int i = 0; i < kRounds; ++i) harness.Write(*delayed, kWholeChunk);
  });
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(
        writer.RunBefore(SharedAccess::kCompareExchange, harness.write_pos()));
    harness.DrainAll();
    const uint32_t position = harness.image().write_pos();
    writer.Step();  // reserves it
    ASSERT_TRUE(writer.RunBefore(SharedAccess::kCompareExchange,
                                 harness.chunk(position & 3)));
    const uint32_t traversals = 1 + round % 2;
    while (harness.image().read_pos() - position <= 4 * traversals) {
      harness.DrainAll();
      harness.Write(*busy, kWholeChunk);
    }
    const uint32_t word = harness.state_word(position & 3);
    ASSERT_TRUE(
        writer.RunBefore(SharedAccess::kCompareExchange, harness.write_pos()));
    ASSERT_EQ(harness.state_word(position & 3), word) << "it was claimed";
    writer.Step();  // reserves anew, and claims that
  }
  writer.RunToEnd();
  EXPECT_EQ(harness.DeliveredOf(1).size(), uint64_t{kRounds});
  // All capacity is still there.
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(abi::StateOf(harness.state_word(i)), abi::State::kFreeForWrap);
  }
  EXPECT_LT(harness.image().read_pos(), 0xffff'f000u) << "no roll-over";
  harness.ExpectExact(*delayed);
  harness.ExpectExact(*busy);
  harness.ExpectRingExact();
}

// --- Acquired ---

TEST_F(WriterReaderRaceTest, ReaderTakesTheChunkBeforePublication) {
  harness_.Write(*writer_);
  Actor& writer = StartPacket();
  // First the reuse, then the publication.
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  writer.Step();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  ASSERT_EQ(harness_.DrainPass(), DrainOutcome::kDrained);
  EXPECT_EQ(harness_.reader().stats().scrapes, 1u);
  EXPECT_EQ(harness_.reader().stats().fragments, 1u);
  writer.RunToEnd();
  EXPECT_EQ(harness_.state_word(0), abi::kAcknowledgedWord);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1));
  EXPECT_THAT(harness_.MarkedOf(1), IsEmpty());
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest, WriterPublishesBeforeTheReaderTakesTheChunk) {
  harness_.Write(*writer_);
  Actor& writer = StartPacket();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  writer.Step();  // reuses
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  writer.RunToEnd();
  reader.RunToEnd();
  EXPECT_EQ(harness_.reader().stats().scrapes, 0u);
  EXPECT_EQ(harness_.reader().stats().chunks, 1u);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1));
  ExpectBooksBalance();
}

// --- Complete (scenario 6) ---

TEST_F(WriterReaderRaceTest, ReaderReclaimsBeforeTheReuse) {
  harness_.Write(*writer_);
  Actor& writer = StartPacket();
  ASSERT_TRUE(RunBeforeCas(writer, harness_.chunk(0)));
  ASSERT_EQ(harness_.DrainPass(), DrainOutcome::kDrained);
  writer.RunToEnd();
  EXPECT_EQ(harness_.state_word(0), 1u);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1));
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest, WriterReusesAndPublishesBeforeTheReclaim) {
  harness_.Write(*writer_);
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  harness_.Write(*writer_);
  harness_.Write(*writer_);
  reader.RunToEnd();
  EXPECT_EQ(harness_.reader().stats().lost_races, 1u);
  EXPECT_EQ(harness_.reader().stats().fragments, 3u);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1, 2));
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest, WriterReusesAndStaysInTheChunkBeforeTheReclaim) {
  harness_.Write(*writer_);
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  const uint64_t number = harness_.TakeNumber(*writer_);
  {
    Packet packet = writer_->NewPacket();
    reader.RunToEnd();
    EXPECT_EQ(harness_.reader().stats().scrapes, 1u);
    AppendNumbered(packet, number, 10);
  }
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1));
  ExpectBooksBalance();
}

TEST_F(WriterReaderRaceTest, WriterReusesAndAbandonsBeforeTheReclaim) {
  harness_.Write(*writer_);
  Actor& reader = StartPass();
  ASSERT_TRUE(RunBeforeCas(reader, harness_.chunk(0)));
  {
    Packet packet = writer_->NewPacket();
    AppendNumbered(packet, 99, 10);
    packet.Discard();
  }
  reader.RunToEnd();
  // The same word means the same published bytes.
  EXPECT_EQ(harness_.reader().stats().lost_races, 0u);
  harness_.Write(*writer_);
  EXPECT_THAT(harness_.DeliveredOf(1), ElementsAre(0, 1));
  EXPECT_THAT(harness_.MarkedOf(1), IsEmpty());
  ExpectBooksBalance();
}

// --- Positions whose chunks are held (scenarios 3 and 5) ---

// Four writers parked inside packets hold all four chunks. A fifth burns its
// budget on them: it is told that no chunk is available, not that the ring is
// full, and the reader hears of it, since holes alone could fill the ring.
TEST(HeldChunkTest, AbandonedReservationsWakeTheReaderAndDrain) {
  RaceHarness harness(Chunks(4));
  std::vector<RaceHarness::Writer> parked;
  for (uint16_t id = 1; id <= 4; ++id) parked.push_back(harness.MakeWriter(id));
  auto fifth = harness.MakeWriter(5);
  {
    Packet a = parked[0]->NewPacket();
    Packet b = parked[1]->NewPacket();
    Packet c = parked[2]->NewPacket();
    Packet d = parked[3]->NewPacket();
    Packet* const open[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; ++i) {
      AppendNumbered(*open[i], harness.TakeNumber(*parked[i]), 10);
    }
    harness.DrainAll();
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(abi::StateOf(harness.state_word(i)),
                abi::State::kRewriteRequested);
    }
    ArmReader(harness.ring());
    harness.Write(*fifth);  // lost
    EXPECT_EQ(harness.image().write_pos(), 8u);
    EXPECT_EQ(harness.TakeSignals(), 1u);
    const WriterStats stats = fifth->ReadStats();
    EXPECT_EQ(stats.lost, 1u);
    EXPECT_EQ(
        stats.lost_by_cause[static_cast<size_t>(LossCause::kNoChunkAvailable)],
        1u);
    harness.DrainAll();
    EXPECT_EQ(harness.reader().stats().holes, 8u);
    EXPECT_EQ(harness.image().read_pos(), 8u);
  }
  // The parked writers' packets moved where there was room; the fifth goes on.
  harness.DrainAll();
  harness.Write(*fifth);
  EXPECT_THAT(harness.DeliveredOf(5), ElementsAre(1));
  EXPECT_THAT(harness.MarkedOf(5), ElementsAre(1));
  for (auto& writer : parked) harness.ExpectExact(*writer);
  harness.ExpectExact(*fifth);
  harness.ExpectRingExact();
}

// Scenario 2's last line and scenario 3: in a ring of two chunks the
// replacement is scraped as well, and then there is none. What was finalised
// is counted, the old chunks are not kept, and the loss is marked once.
TEST(HeldChunkTest, SuffixWithoutAReplacementIsCountedAndMarkedOnce) {
  RaceHarness harness(Chunks(2));
  auto writer = harness.MakeWriter(1);
  StepSequencer sequencer;
  Actor& actor = sequencer.Start("writer", [&] {
    WriterBatch batch = writer->Batch();
    for (int i = 0; i < 3; ++i) harness.Write(*writer);
  });
  const auto run_before_publication = [&] {
    do {
      if (!actor.Step()) return false;
    } while (actor.pending().kind != SharedAccess::kCompareExchange ||
             !harness.IsChunkIn(abi::State::kAcquired, actor.pending().word));
    return true;
  };
  ASSERT_TRUE(run_before_publication());
  harness.DrainAll();  // takes chunk 0 from it, with nothing published
  ASSERT_TRUE(run_before_publication());
  EXPECT_EQ(harness.state_word(0), abi::kAcknowledgedWord);
  harness.DrainAll();  // and the replacement, chunk 1
  actor.RunToEnd();
  EXPECT_EQ(harness.state_word(0), abi::kAcknowledgedWord);
  EXPECT_EQ(harness.state_word(1), abi::kAcknowledgedWord);
  EXPECT_EQ(writer->ReadStats().lost, 3u);
  EXPECT_EQ(harness.ring().LoadWriterLoss(LossCause::kNoChunkAvailable), 3u);

  harness.DrainAll();
  for (int i = 0; i < 3; ++i) harness.Write(*writer);
  EXPECT_THAT(harness.DeliveredOf(1), ElementsAre(3, 4, 5));
  EXPECT_THAT(harness.MarkedOf(1), ElementsAre(3));
  harness.ExpectExact(*writer);
  harness.ExpectRingExact();
}

// --- Waking the reader (scenario 37) ---

TEST(SleepingReaderTest, TwoHundredPacketsCostOneSignal) {
  RaceHarness harness(Chunks(64));
  harness.ring().StoreWakeupThreshold(4);
  auto writer = harness.MakeWriter(1);
  ArmReader(harness.ring());
  for (int i = 0; i < 200; ++i) harness.Write(*writer);
  EXPECT_GT(harness.image().write_pos(), 8u);
  EXPECT_EQ(harness.TakeSignals(), 1u);
  // Nobody signals a reader that is awake.
  EXPECT_EQ(harness.DeliveredOf(1).size(), 200u);
  for (int i = 0; i < 200; ++i) harness.Write(*writer);
  EXPECT_EQ(harness.TakeSignals(), 0u);
  harness.ExpectExact(*writer);
  harness.ExpectRingExact();
}

// What is published while the reader drains is seen when it is about to sleep
// again, although no writer signals a reader that is awake.
TEST(SleepingReaderTest, PublicationDuringADrainIsNotForgotten) {
  RaceHarness harness(Chunks(4));
  harness.ring().StoreWakeupThreshold(1);
  auto writer = harness.MakeWriter(1);
  harness.Write(*writer);
  StepSequencer sequencer;
  bool sleeps = true;
  Actor& reader = sequencer.Start("reader", [&] {
    (void)harness.DrainPass();
    ArmReader(harness.ring());
    sleeps = OutstandingSeqCst(harness.ring(), harness.reader().read_pos()) <
             harness.ring().LoadWakeupThreshold();
  });
  ASSERT_TRUE(reader.RunBefore(SharedAccess::kStore, harness.read_pos()));
  harness.Write(*writer);
  EXPECT_EQ(harness.TakeSignals(), 0u);
  reader.RunToEnd();
  EXPECT_FALSE(sleeps);
  harness.ExpectExact(*writer);
  harness.ExpectRingExact();
}

}  // namespace
}  // namespace tracering::internal
