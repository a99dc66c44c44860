// Loss and its flag, batches, discarding, nesting, the modes of a ring, and
// what a writer leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "src/producer/thread_writers.h"
#include "tests/producer/writer_harness.h"

namespace tracering::test {
namespace {

using internal::ReleasedWriter;
using internal::RingMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<bool> LossMarks(WriterHarness& harness) {
  std::vector<bool> marks;
  for (const auto& packet : harness.reader().joiner().packets()) {
    marks.push_back(packet.after_loss);
  }
  return marks;
}

// --- Loss and its flag ---

TEST(TraceWriterTest, DroppedPacketsAreCountedAndMarkedOnce) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  // Two of these fill a chunk exactly, so that none is split.
  for (int i = 0; i < 50; ++i) WriteSized(*writer, 124, 'a');
  EXPECT_EQ(writer->ReadStats().attempted, 50u);
  EXPECT_EQ(writer->ReadStats().published, 4u);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 46u);
  EXPECT_EQ(harness.Loss(LossCause::kRingFull), 46u);
  harness.reader().Drain();
  for (int i = 0; i < 3; ++i) WriteSized(*writer, 124, 'b');
  harness.reader().Drain();
  EXPECT_THAT(LossMarks(harness),
              ElementsAre(false, false, false, false, true, false, false));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  ExpectBalanced(writer->ReadStats());
}

TEST(TraceWriterTest, WriterThatOwesTheFlagAppendsToNoChunkThatItHolds) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'b');
    // From a signal handler: lost, after `b` was begun.
    { Packet nested = writer->NewPacket(); }
  }
  // The open packet stays where it was begun; the next one does not.
  EXPECT_EQ(harness.image().state_word(0), 0x4002'0001u);
  WriteSized(*writer, 10, 'c');
  EXPECT_EQ(harness.image().state_word(0), 0x4002'0001u);
  EXPECT_EQ(harness.image().state_word(1), 0x4101'0001u);
  WriteSized(*writer, 10, 'd');
  EXPECT_EQ(harness.image().state_word(1), 0x4102'0001u);
  harness.reader().Drain();
  EXPECT_THAT(LossMarks(harness), ElementsAre(false, false, true, false));
}

TEST(TraceWriterTest, DebtInABatchPublishesWhatTheBatchHolds) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    {
      Packet packet = writer->NewPacket();
      AppendSized(packet, 10, 'b');
      { Packet nested = writer->NewPacket(); }
    }
    EXPECT_EQ(harness.image().state_word(0), 0x2000'0001u);
    WriteSized(*writer, 10, 'c');
    EXPECT_EQ(harness.image().state_word(0), 0x4002'0001u);
    EXPECT_EQ(harness.image().state_word(1), 0x2100'0001u);
  }
  harness.reader().Drain();
  EXPECT_THAT(LossMarks(harness), ElementsAre(false, false, true));
}

TEST(TraceWriterTest, ContinuationDoesNotCarryTheFlag) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    { Packet nested = writer->NewPacket(); }
    packet.AppendString(2, std::string(300, 'b'));
  }
  EXPECT_EQ(harness.image().state_word(1), 0x4401'0001u);
  WriteSized(*writer, 10, 'c');
  harness.reader().Drain();
  EXPECT_THAT(LossMarks(harness), ElementsAre(false, true));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(TraceWriterTest, LossesWithoutAConsumerAreFoldedBeforeTheFlagIsPublished) {
  WriterHarness harness(Shape(2));
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 10; ++i) WriteSized(*writer, 124, 'a');
  EXPECT_EQ(writer->ReadStats().lost, 6u);
  EXPECT_EQ(harness.image().WriterLoss(), 0u);
  harness.reader().Drain();
  Packet packet = writer->NewPacket();
  EXPECT_EQ(harness.Loss(LossCause::kRingFull), 6u);
}

TEST(TraceWriterTest, LossesWithoutAConsumerAreFoldedOnAttachAndOnRelease) {
  WriterHarness harness(Shape(2));
  auto first = harness.MakeWriter(1);
  auto second = harness.MakeWriter(2);
  harness.FillWithReservations();
  WriteSized(*first, 100, 'a');
  WriteSized(*second, 100, 'a');
  WriteSized(*second, 100, 'a');
  EXPECT_EQ(harness.image().WriterLoss(), 0u);
  second->Release();
  EXPECT_EQ(harness.image().WriterLoss(), 2u);
  harness.AttachConsumer();
  first->FoldLosses();
  EXPECT_EQ(harness.image().WriterLoss(), 3u);
  first->FoldLosses();
  first->Release();
  EXPECT_EQ(harness.image().WriterLoss(), 3u);
}

TEST(TraceWriterTest, SplitPacketThatFailsIsTheReadersToCount) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(1000, 'x'));
  }
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 1u);
  EXPECT_EQ(harness.image().WriterLoss(), 0u);
  harness.reader().Drain();
  EXPECT_TRUE(harness.reader().joiner().HasPartial(1));
  WriteSized(*writer, 10, 'b');
  harness.reader().Drain();
  EXPECT_THAT(harness.Taken(), ElementsAre(PacketBytes(10, 'b')));
  EXPECT_THAT(LossMarks(harness), ElementsAre(true));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

// A writer that never gets another chunk: its loss still shows.
TEST(TraceWriterTest, LossWithoutAnotherChunkIsInTheStats) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  const ReleasedWriter released = writer->Release();
  EXPECT_TRUE(released.owes_loss);
  EXPECT_FALSE(released.last_position.has_value());
  EXPECT_EQ(writer->ReadStats().lost, 1u);
  EXPECT_EQ(harness.Loss(LossCause::kRingFull), 1u);
}

// --- Batches ---

TEST(TraceWriterTest, BatchPublishesOnceAtItsEnd) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    for (int i = 0; i < 5; ++i) WriteSized(*writer, 10, 'a');
    EXPECT_EQ(harness.image().state_word(0), 0x2000'0001u);
    const WriterStats stats = writer->ReadStats();
    EXPECT_EQ(stats.attempted, 5u);
    EXPECT_EQ(stats.published, 0u);
  }
  EXPECT_EQ(harness.image().state_word(0), 0x4005'0001u);
  ExpectBalanced(writer->ReadStats());
  EXPECT_THAT(harness.DrainAll(), SizeIs(5));
}

TEST(TraceWriterTest, NestedBatchesPublishAtTheOutermostEnd) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    auto outer = writer->Batch();
    {
      auto inner = writer->Batch();
      WriteSized(*writer, 10, 'a');
    }
    EXPECT_EQ(harness.image().state_word(0), 0x2000'0001u);
    WriteSized(*writer, 10, 'b');
  }
  EXPECT_EQ(harness.image().state_word(0), 0x4002'0001u);
}

TEST(TraceWriterTest, BatchPublishesWhenItsChunkFills) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  auto batch = writer->Batch();
  WriteSized(*writer, 100, 'a');
  WriteSized(*writer, 100, 'b');
  WriteSized(*writer, 100, 'c');  // straddles
  EXPECT_EQ(harness.image().state_word(0), 0x4203'0001u);
  EXPECT_EQ(harness.image().state_word(1), 0x2400'0001u);
}

TEST(TraceWriterTest, BatchOfManyEmptyPacketsClosesItsChunkAt255) {
  WriterHarness harness(Shape(4, 4096));
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    for (int i = 0; i < 256; ++i) Packet packet = writer->NewPacket();
    EXPECT_EQ(harness.image().state_word(0), 0x40ff'0001u);
    EXPECT_EQ(harness.image().state_word(1), 0x2000'0001u);
  }
  EXPECT_THAT(harness.DrainAll(), SizeIs(256));
}

TEST(TraceWriterTest, BatchThatEndsInsideAPacketPublishesWithIt) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  std::unique_ptr<WriterBatch> batch(new WriterBatch(writer->Batch()));
  WriteSized(*writer, 10, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'b');
    batch.reset();
    EXPECT_EQ(harness.image().state_word(0), 0x2000'0001u);
  }
  EXPECT_EQ(harness.image().state_word(0), 0x4002'0001u);
  ExpectBalanced(writer->ReadStats());
}

TEST(TraceWriterTest, FlushingPublishesAnOpenBatch) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  auto batch = writer->Batch();
  WriteSized(*writer, 10, 'a');
  writer->PublishPending();
  EXPECT_EQ(harness.image().state_word(0), 0x4001'0001u);
  WriteSized(*writer, 10, 'b');
  EXPECT_EQ(harness.image().state_word(0), 0x2001'0001u);
}

TEST(TraceWriterTest, DestructionPublishesAnOpenBatch) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  writer->BeginBatch();
  WriteSized(*writer, 10, 'a');
  writer.reset();
  EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(10, 'a')));
}

// --- Discard ---

TEST(TraceWriterTest, DiscardedPacketNeverExisted) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'b');
    packet.Discard();
    AppendSized(packet, 10, 'b');
  }
  EXPECT_EQ(harness.image().state_word(0), 0x4001'0001u);
  WriteSized(*writer, 10, 'c');
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'c')));
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(stats.attempted, 2u);
  EXPECT_EQ(stats.discarded, 1u);
  ExpectBalanced(stats);
  EXPECT_THAT(LossMarks(harness), ElementsAre(false, false));
}

TEST(TraceWriterTest, ChunkOfADiscardedFirstPacketServesTheNext) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    packet.Discard();
  }
  EXPECT_EQ(harness.image().state_word(0), 0x2000'0001u);
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(harness.image().state_word(0), 0x4001'0001u);
  EXPECT_EQ(harness.image().write_pos(), 1u);
}

// A chunk without a fragment cannot be complete, and one that stays acquired
// would be lost to the ring.
TEST(TraceWriterTest, ChunkOfADiscardedOnlyPacketIsGivenBackWithAnEmptyOne) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1, {}, /*owes_loss=*/true);
  {
    Packet packet = writer->NewPacket();
    packet.Discard();
  }
  EXPECT_FALSE(writer->Release().owes_loss);
  EXPECT_EQ(harness.image().state_word(0), 0x4101'0001u);
  EXPECT_THAT(harness.DrainAll(), ElementsAre(""));
  EXPECT_EQ(writer->ReadStats().published, 1u);
  ExpectBalanced(writer->ReadStats());
}

TEST(TraceWriterTest, ScrapedChunkOfADiscardedOnlyPacketIsAcknowledged) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1, {}, /*owes_loss=*/true);
  {
    Packet packet = writer->NewPacket();
    packet.Discard();
  }
  harness.reader().Drain();
  // The mark was on a chunk of which nothing was taken.
  EXPECT_TRUE(writer->Release().owes_loss);
  EXPECT_EQ(harness.image().state_word(0), 0x8000'0000u);
  EXPECT_EQ(writer->ReadStats().attempted, 0u);
}

TEST(TraceWriterTest, DiscardInABatchKeepsTheOthers) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    {
      Packet packet = writer->NewPacket();
      AppendSized(packet, 10, 'b');
      packet.Discard();
    }
    WriteSized(*writer, 10, 'c');
  }
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'c')));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

TEST(TraceWriterTest, DiscardOfAPublishedPartIsALoss) {
  for (bool scraped : {false, true}) {
    SCOPED_TRACE(scraped);
    WriterHarness harness;
    harness.AttachConsumer();
    auto writer = harness.MakeWriter(1);
    {
      Packet packet = writer->NewPacket();
      packet.AppendString(1, std::string(300, 'x'));
      if (scraped) harness.reader().Drain();
      packet.Discard();
    }
    const WriterStats stats = writer->ReadStats();
    EXPECT_EQ(stats.attempted, 1u);
    EXPECT_EQ(LostBy(stats, LossCause::kWriterAbort), 1u);
    EXPECT_EQ(stats.discarded, 0u);
    // The reader has, or will see, an unfinished packet.
    EXPECT_EQ(harness.image().WriterLoss(), 0u);
    WriteSized(*writer, 10, 'n');
    EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(10, 'n')));
    EXPECT_THAT(LossMarks(harness), ElementsAre(true));
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

TEST(TraceWriterTest, DiscardOfADroppedPacketIsNoLoss) {
  WriterHarness harness(Shape(2));
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    packet.Discard();
  }
  EXPECT_EQ(writer->ReadStats().attempted, 0u);
  EXPECT_EQ(writer->ReadStats().discarded, 1u);
  EXPECT_FALSE(writer->Release().owes_loss);
}

TEST(TraceWriterTest, WriterIntoNothingMayBeSharedByThreads) {
  TraceWriter& nowhere = internal::ThreadWriters::SharedNowhere();
  std::atomic<int> started{0};
  const auto trace = [&] {
    ++started;
    while (started < 2) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) {
      const WriterBatch batch = nowhere.Batch();
      Packet packet = nowhere.NewPacket();
      AppendSized(packet, 10, 'a');
    }
  };
  std::thread other(trace);
  trace();
  other.join();
  const auto& writer = static_cast<const internal::TraceWriterImpl&>(nowhere);
  EXPECT_FALSE(writer.in_use());
  EXPECT_EQ(writer.ReadStats().attempted, 0u);
}

// --- Nesting ---

TEST(TraceWriterTest, PacketInsideAPacketGoesNowhereAndIsCounted) {
  WriterHarness harness;
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  {
    Packet outer = writer->NewPacket();
    AppendSized(outer, 10, 'a');
    {
      Packet inner = writer->NewPacket();
      AppendSized(inner, 10, 'b');
      inner.AppendVarint(2, 3);
      inner.AppendFixed32(2, 3);
      inner.AppendFixed64(2, 3);
      Message message = inner.BeginMessage(4);
      message.AppendString(5, std::string(1000, 'c'));
    }
    {
      Packet discarded = writer->NewPacket();
      discarded.Discard();
    }
    AppendSized(outer, 10, 'd');
  }
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a') + PacketBytes(10, 'd')));
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(stats.attempted, 3u);
  EXPECT_EQ(LostBy(stats, LossCause::kWriterAbort), 2u);
  EXPECT_EQ(harness.Loss(LossCause::kWriterAbort), 2u);
  ExpectBalanced(stats);
}

// --- Modes ---

TEST(TraceWriterTest, ModesThatWantNothingCountNothing) {
  for (RingMode mode : {RingMode::kOff, RingMode::kClosed}) {
    WriterHarness harness;
    harness.set_mode(mode);
    auto writer = harness.MakeWriter(1);
    {
      auto batch = writer->Batch();
      WriteSized(*writer, 100, 'a');
      Packet packet = writer->NewPacket();
      packet.AppendString(1, std::string(1000, 'x'));
      { Packet nested = writer->NewPacket(); }
    }
    EXPECT_EQ(harness.image().write_pos(), 0u);
    EXPECT_EQ(writer->ReadStats().attempted, 0u);
    EXPECT_EQ(writer->ReadStats().lost, 0u);
    EXPECT_FALSE(writer->Release().owes_loss);
  }
}

TEST(TraceWriterTest, RingThatIsSwitchedOnIsTracedInto) {
  WriterHarness harness;
  harness.set_mode(RingMode::kOff);
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  harness.set_mode(RingMode::kOn);
  WriteSized(*writer, 10, 'b');
  harness.set_mode(RingMode::kOff);
  WriteSized(*writer, 10, 'c');
  EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(10, 'b')));
  EXPECT_EQ(writer->ReadStats().attempted, 1u);
}

TEST(TraceWriterTest, PacketThatIsOpenWhenTheProducerEndsIsHarmless) {
  WriterHarness harness(Shape(2));
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 10, 'a');
    harness.set_mode(RingMode::kClosed);
    packet.AppendString(1, std::string(10'000, 'x'));
  }
  WriteSized(*writer, 10, 'b');
  // Nothing was reserved after the end.
  EXPECT_EQ(harness.image().write_pos(), 1u);
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(TraceWriterTest, WriterWithoutAnIdDiscardsAndCounts) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(0);
  EXPECT_EQ(writer->id(), WriterId());
  EXPECT_EQ(writer->target_buffer(), WriterHarness::kBuffer);
  for (int i = 0; i < 5; ++i) WriteSized(*writer, 100, 'a');
  {
    Packet packet = writer->NewPacket();
    packet.AppendString(1, std::string(10'000, 'x'));
  }
  EXPECT_EQ(harness.image().write_pos(), 0u);
  EXPECT_EQ(LostBy(writer->stats(), LossCause::kNoWriterId), 6u);
  ExpectBalanced(writer->stats());
  writer->Release();
  EXPECT_EQ(harness.Loss(LossCause::kNoWriterId), 6u);
}

// --- Release ---

TEST(TraceWriterTest, ReleaseReportsTheLastChunkAndLeavesItReclaimable) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  for (int i = 0; i < 5; ++i) WriteSized(*writer, 100, 'a');
  const ReleasedWriter released = writer->Release();
  ASSERT_TRUE(released.last_position.has_value());
  EXPECT_EQ(released.last_position->value(), 2u);
  EXPECT_FALSE(released.owes_loss);
  EXPECT_THAT(harness.DrainAll(), SizeIs(5));
  EXPECT_EQ(harness.image().read_pos(), 3u);
}

TEST(TraceWriterTest, ReleasedWriterTracesIntoNothing) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  writer->Release();
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 100, 'b');
    writer->PublishPending();
  }
  writer->Release();
  EXPECT_EQ(writer->ReadStats().attempted, 1u);
  EXPECT_THAT(harness.DrainAll(), SizeIs(1));
}

// exit() inside a packet: thread-local writers are destroyed, the packet never
// ends.
TEST(TraceWriterTest, ReleaseInsideAPacketGivesItUp) {
  for (int published : {0, 1}) {
    for (bool in_batch : {false, true}) {
      SCOPED_TRACE(testing::Message() << published << in_batch);
      WriterHarness harness(Shape(4));
      harness.AttachConsumer();
      auto writer = harness.MakeWriter(1);
      for (int i = 0; i < published; ++i) WriteSized(*writer, 10, 'a');
      if (in_batch) writer->BeginBatch();
      Packet packet = writer->NewPacket();
      AppendSized(packet, 10, 'b');
      EXPECT_TRUE(writer->Release().owes_loss);
      packet.AppendString(1, std::string(1000, 'c'));
      packet.Finish();
      const WriterStats stats = writer->ReadStats();
      EXPECT_EQ(LostBy(stats, LossCause::kWriterAbort), 1u);
      EXPECT_EQ(stats.attempted, published + 1u);
      ExpectBalanced(stats);
      EXPECT_THAT(harness.DrainAll(), SizeIs(published));
      // Counted by one side: the reader holds a part, or the counter moved.
      EXPECT_EQ(harness.image().WriterLoss() +
                    (harness.reader().joiner().HasPartial(1) ? 1 : 0),
                1u);
      EXPECT_THAT(harness.reader().violations(), IsEmpty());
      EXPECT_EQ(harness.image().state_word(0) >> 29, 0u);
    }
  }
}

TEST(TraceWriterTest, ReleaseInsideASplitPacketLeavesItToTheReader) {
  WriterHarness harness(Shape(4));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  Packet packet = writer->NewPacket();
  packet.AppendString(1, std::string(300, 'x'));
  EXPECT_TRUE(writer->Release().owes_loss);
  packet.Discard();
  harness.reader().Drain();
  EXPECT_TRUE(harness.reader().joiner().HasPartial(1));
  EXPECT_EQ(harness.image().WriterLoss(), 0u);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kWriterAbort), 1u);
  // The next owner of the id marks it.
  auto next = harness.MakeWriter(1, {}, /*owes_loss=*/true);
  WriteSized(*next, 10, 'n');
  EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(10, 'n')));
  EXPECT_THAT(LossMarks(harness), ElementsAre(true));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

}  // namespace
}  // namespace tracering::test
