// The reader loses its compare-exchange: what it does with the word that it
// finds instead, what it copies again, and when it gives up for this pass.
//
// The other side is played by the test, step by step, so that it can also do
// what no honest writer does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/common/abi/chunk_layout.h"
#include "src/consumer/chunk_reader.h"
#include "tests/support/ring_image.h"
#include "tests/support/step_sequencer.h"

namespace tracering::internal {
namespace {

using test::Actor;
using test::ForgedChunk;
using test::RingImage;
using test::StepSequencer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RecordingSink {
 public:
  void OnChunk(const ChunkView& view) {
    buffers.push_back(view.buffer.value());
    placed |= view.placed != nullptr;
    flags.push_back(view.flags);
    uint32_t offset = 0;
    for (uint32_t i = 0; i < view.num_fragments; ++i) {
      fragments.emplace_back(
          reinterpret_cast<const char*>(view.payload + offset), view.sizes[i]);
      offset += view.sizes[i];
    }
  }
  void OnDroppedChunk(const DroppedChunk& chunk) {
    dropped.push_back(chunk.reason);
  }
  void BeforePublication() {}

  std::vector<std::string> fragments;
  std::vector<uint16_t> buffers;
  std::vector<uint32_t> flags;
  bool placed = false;
  std::vector<ChunkDropReason> dropped;
};

class ChunkReaderRaceTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kAcquired = 0x2000'0001;

  ChunkReaderRaceTest() { image_.set_write_pos(1); }

  // Puts `forged` into chunk 0 and starts a pass that stands before its
  // compare-exchange on that word.
  Actor& PassBeforeCas(abi::State state, const ForgedChunk& forged) {
    image_.PutChunk(0, state, forged);
    return PassBeforeCas();
  }
  Actor& PassBeforeCas() {
    Actor& reader = sequencer_.Start(
        "reader", [this] { outcome_ = reader_.DrainPass(sink_); });
    EXPECT_TRUE(reader.RunBefore(SharedAccess::kCompareExchange, word()));
    return reader;
  }
  // The reader tries its compare-exchange and stands before the next one.
  static void LoseOnce(Actor& reader, const void* word) {
    reader.Step();
    ASSERT_TRUE(reader.RunBefore(SharedAccess::kCompareExchange, word));
  }
  const void* word() const { return image_.chunk(0); }

  static test::RingImageOptions FourChunksOf512Bytes() {
    test::RingImageOptions options;
    options.num_chunks = 4;
    options.chunk_size = 512;
    return options;
  }

  RingImage image_ = RingImage::InPlainMemory(FourChunksOf512Bytes());
  ChunkReader reader_{Ring(image_.base(), image_.geometry())};
  RecordingSink sink_;
  DrainOutcome outcome_{};
  StepSequencer sequencer_;
};

// --- FreeForWrap: claim against advance ---

TEST_F(ChunkReaderRaceTest, ClaimBeforeTheAdvanceIsScrapedOfNothing) {
  Actor& reader = PassBeforeCas();
  image_.set_state_word(0, kAcquired);
  reader.RunToEnd();
  EXPECT_EQ(outcome_, DrainOutcome::kDrained);
  EXPECT_EQ(image_.state_word(0), 0x6000'0001u);
  EXPECT_THAT(sink_.fragments, IsEmpty());
  EXPECT_EQ(reader_.stats().lost_races, 1u);
}

TEST_F(ChunkReaderRaceTest, ClaimAndPublicationBeforeTheAdvanceAreDelivered) {
  Actor& reader = PassBeforeCas();
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"in time"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("in time"));
  EXPECT_EQ(image_.state_word(0), 1u);
}

// --- Acquired: publish against request-rewrite ---

TEST_F(ChunkReaderRaceTest, PublicationBeforeTheRequestIsDeliveredWhole) {
  Actor& reader =
      PassBeforeCas(abi::State::kAcquired, {1, 7, 0, {"one", "two"}});
  image_.PutChunk(0, abi::State::kComplete, {1, 7, 0, {"one", "two", "three"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("one", "two", "three"));
  EXPECT_EQ(image_.state_word(0), 1u);
  EXPECT_EQ(reader_.stats().scrapes, 0u);
}

TEST_F(ChunkReaderRaceTest, FirstPublicationBeforeTheRequestIsDelivered) {
  Actor& reader = PassBeforeCas(abi::State::kAcquired, {1, 0, 0, {}});
  image_.PutChunk(0, abi::State::kComplete, {1, 0x0304, 0, {"first"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("first"));
  EXPECT_EQ(sink_.buffers, std::vector<uint16_t>{0x0304});
}

// The flag that says that the last fragment goes on comes with publication.
TEST_F(ChunkReaderRaceTest, FlagThatCameWithThePublicationIsDelivered) {
  Actor& reader =
      PassBeforeCas(abi::State::kAcquired, {1, 7, abi::kFlagDataLoss, {"one"}});
  image_.PutChunk(
      0, abi::State::kComplete,
      {1, 7, abi::kFlagDataLoss | abi::kFlagContinuesOnNext, {"one", "head"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("one", "head"));
  EXPECT_THAT(sink_.flags,
              ElementsAre(abi::kFlagDataLoss | abi::kFlagContinuesOnNext));
}

// --- Complete: reuse against reclaim ---

TEST_F(ChunkReaderRaceTest, ReuseBeforeTheReclaimIsScraped) {
  Actor& reader =
      PassBeforeCas(abi::State::kComplete, {1, 1, 0, {"one", "two"}});
  image_.set_state_word(0, 0x2002'0001);
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("one", "two"));
  EXPECT_EQ(image_.state_word(0), 0x6002'0001u);
}

TEST_F(ChunkReaderRaceTest, ReuseAndPublicationBeforeTheReclaimAreDelivered) {
  Actor& reader = PassBeforeCas(abi::State::kComplete, {1, 1, 0, {"one"}});
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"one", "two"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("one", "two"));
}

TEST_F(ChunkReaderRaceTest, ReuseAndAbandonmentBeforeTheReclaimChangeNothing) {
  Actor& reader = PassBeforeCas(abi::State::kComplete, {1, 1, 0, {"one"}});
  image_.set_state_word(0, 0x2001'0001);
  image_.set_state_word(0, 0x4001'0001);
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("one"));
  EXPECT_EQ(reader_.stats().lost_races, 0u);
}

// A place is for what is handed over at once: after a lost race the payload is
// where it may grow.
TEST_F(ChunkReaderRaceTest, ReuseOfAPlacedChunkBeforeTheReclaimIsDelivered) {
  struct Place : PayloadPlacer {
    uint8_t* PlaceFor(const ChunkView&) override { return bytes.data(); }
    std::vector<uint8_t> bytes = std::vector<uint8_t>(512);
  } place;
  const std::string large(300, 'l');
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {large}});
  Actor& reader = sequencer_.Start("reader", [&] {
    outcome_ = reader_.DrainTo(reader_.CaptureEnd(), sink_, &place);
  });
  ASSERT_TRUE(reader.RunBefore(SharedAccess::kCompareExchange, word()));
  EXPECT_EQ(place.bytes[299], 'l');
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {large, "more"}});
  reader.RunToEnd();
  EXPECT_EQ(reader_.stats().lost_races, 1u);
  EXPECT_FALSE(sink_.placed);
  EXPECT_THAT(sink_.fragments, ElementsAre(large, "more"));
  EXPECT_EQ(image_.state_word(0), 1u);
}

// What was copied before the place was known does not count towards it.
TEST_F(ChunkReaderRaceTest, ChunkPlacedAfterALostScrapeIsNotExtendedEither) {
  struct Place : PayloadPlacer {
    uint8_t* PlaceFor(const ChunkView&) override { return bytes.data(); }
    std::vector<uint8_t> bytes = std::vector<uint8_t>(512);
  } place;
  const std::string large(300, 'l');
  image_.PutChunk(0, abi::State::kAcquired, {1, 1, 0, {"first"}});
  Actor& reader = sequencer_.Start("reader", [&] {
    outcome_ = reader_.DrainTo(reader_.CaptureEnd(), sink_, &place);
  });
  ASSERT_TRUE(reader.RunBefore(SharedAccess::kCompareExchange, word()));
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"first", large}});
  LoseOnce(reader, word());
  EXPECT_EQ(place.bytes[0], 'f');
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"first", large, "3"}});
  reader.RunToEnd();
  EXPECT_EQ(reader_.stats().lost_races, 2u);
  EXPECT_THAT(sink_.fragments, ElementsAre("first", large, "3"));
}

// --- What is copied again ---

// Published bytes never move, so what was copied is not read twice: even a
// writer that overwrites it in between cannot make the copy inconsistent.
TEST_F(ChunkReaderRaceTest, OnlyWhatWasAddedIsCopiedAfterALostRace) {
  Actor& reader =
      PassBeforeCas(abi::State::kAcquired, {1, 0x0102, 0, {"old", "er"}});
  image_.PutChunk(0, abi::State::kComplete,
                  {1, 0x0909, 0, {"NEWEST", "", "added"}});
  reader.RunToEnd();
  // Two sizes and five bytes are from before, the third size and its bytes,
  // which lie behind those five, from afterwards.
  EXPECT_THAT(sink_.fragments, ElementsAre("old", "er", "Tadde"));
  EXPECT_EQ(sink_.buffers, std::vector<uint16_t>{0x0102});
}

TEST_F(ChunkReaderRaceTest, ManyAddedFragmentsKeepTheirOrderAndSizes) {
  std::vector<std::string> fragments = {"the", "first", "three"};
  Actor& reader = PassBeforeCas(abi::State::kAcquired, {1, 1, 0, fragments});
  for (size_t i = 0; i < 20; ++i) fragments.emplace_back(i % 7, 'a' + i);
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, fragments});
  reader.RunToEnd();
  EXPECT_EQ(sink_.fragments, fragments);
}

TEST_F(ChunkReaderRaceTest, ChunkOfAnotherWriterIsCopiedAfresh) {
  // Impossible without breaking the protocol; the copy must follow the word.
  Actor& reader = PassBeforeCas(abi::State::kAcquired, {1, 1, 0, {"aaa"}});
  image_.PutChunk(0, abi::State::kComplete, {2, 1, 0, {"b", "c"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("b", "c"));
}

TEST_F(ChunkReaderRaceTest, ChunkThatLostFragmentsIsCopiedAfresh) {
  Actor& reader =
      PassBeforeCas(abi::State::kAcquired, {1, 1, 0, {"a", "b", "c"}});
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"xyz"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("xyz"));
}

TEST_F(ChunkReaderRaceTest, AddedSizeThatBreaksTheBoundsDropsTheWholePayload) {
  Actor& reader =
      PassBeforeCas(abi::State::kAcquired, {1, 1, 0, {std::string(200, 'a')}});
  // Two entries leave 502 bytes; this one says 303.
  abi::StoreDirEntry(image_.chunk(0) + 508, 2, 303);
  image_.set_state_word(0, 0x4002'0001);
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, IsEmpty());
  EXPECT_THAT(sink_.dropped, ElementsAre(ChunkDropReason::kMalformed));
  EXPECT_EQ(image_.state_word(0), 1u);
}

TEST_F(ChunkReaderRaceTest, MalformedCopyIsNoBasisForTheNextOne) {
  Actor& reader = PassBeforeCas(abi::State::kAcquired, {1, 1, 0, {"a"}});
  abi::StoreDirEntry(image_.chunk(0) + 508, 2, 502);
  image_.set_state_word(0, 0x2002'0001);
  LoseOnce(reader, word());
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"x", "y", "z"}});
  reader.RunToEnd();
  EXPECT_THAT(sink_.fragments, ElementsAre("x", "y", "z"));
}

// --- Giving up ---

TEST_F(ChunkReaderRaceTest, WriterThatAlwaysWinsIsLeftForLater) {
  Actor& reader = PassBeforeCas(abi::State::kComplete, {1, 1, 0, {"x"}});
  // The first attempt and eight more.
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(reader.RunBefore(SharedAccess::kCompareExchange, word())) << i;
    image_.set_state_word(0, i % 2 == 0 ? 0x2001'0001 : 0x4001'0001);
    reader.Step();
  }
  EXPECT_FALSE(reader.RunBefore(SharedAccess::kCompareExchange, word()));
  EXPECT_EQ(outcome_, DrainOutcome::kRetryLater);
  EXPECT_EQ(reader_.read_pos(), abi::Position(0));
  EXPECT_EQ(image_.read_pos(), 0u);
  EXPECT_EQ(image_.state_word(0), 0x2001'0001u);
  EXPECT_THAT(sink_.fragments, IsEmpty());
  EXPECT_EQ(reader_.stats().lost_races, 9u);
  EXPECT_EQ(reader_.stats().retry_later, 1u);
  EXPECT_FALSE(reader_.stopped());

  EXPECT_EQ(reader_.DrainPass(sink_), DrainOutcome::kDrained);
  EXPECT_THAT(sink_.fragments, ElementsAre("x"));
  EXPECT_EQ(image_.read_pos(), 1u);
}

TEST_F(ChunkReaderRaceTest, PositionsBeforeOneThatIsLeftArePublished) {
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"0"}});
  image_.PutChunk(1, abi::State::kComplete, {1, 1, 0, {"1"}});
  image_.set_write_pos(2);
  Actor& reader = sequencer_.Start(
      "reader", [this] { outcome_ = reader_.DrainPass(sink_); });
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(
        reader.RunBefore(SharedAccess::kCompareExchange, image_.chunk(1)));
    image_.set_state_word(1, i % 2 == 0 ? 0x2001'0001 : 0x4001'0001);
    reader.Step();
  }
  reader.RunToEnd();
  EXPECT_EQ(outcome_, DrainOutcome::kRetryLater);
  EXPECT_EQ(image_.read_pos(), 1u);
}

// --- Stopping in the middle of a race ---

TEST_F(ChunkReaderRaceTest, AcknowledgedWordThatChangesStopsTheRing) {
  image_.set_state_word(0, 0x8000'0000);
  Actor& reader = PassBeforeCas();
  image_.set_state_word(0, kAcquired);
  reader.RunToEnd();
  EXPECT_EQ(outcome_, DrainOutcome::kStopped);
  EXPECT_EQ(reader_.stop().reason, StopReason::kAcknowledgedNotFreed);
  EXPECT_EQ(image_.state_word(0), kAcquired);
  EXPECT_EQ(image_.read_pos(), 0u);
}

TEST_F(ChunkReaderRaceTest, WordFoundInsteadIsJudgedLikeAnyOther) {
  const struct {
    uint32_t found;
    StopReason reason;
  } kCases[] = {
      {0xe000'0000, StopReason::kReservedState},
      {0x0000'0002, StopReason::kWrongFreeTag},
      // Nobody but the reader frees, so not even the next tag may appear.
      {0x0000'0001, StopReason::kWrongFreeTag},
      {0x8000'0001, StopReason::kAcknowledgedNotZero},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.found);
    RingImage image = RingImage::InPlainMemory({});
    image.Publish({1, 1, 0, {"x"}});
    ChunkReader chunk_reader(Ring(image.base(), image.geometry()));
    RecordingSink sink;
    DrainOutcome outcome{};
    Actor& reader = sequencer_.Start(
        "reader", [&] { outcome = chunk_reader.DrainPass(sink); });
    ASSERT_TRUE(
        reader.RunBefore(SharedAccess::kCompareExchange, image.chunk(0)));
    image.set_state_word(0, c.found);
    reader.RunToEnd();
    EXPECT_EQ(outcome, DrainOutcome::kStopped);
    EXPECT_EQ(chunk_reader.stop().reason, c.reason);
    EXPECT_EQ(chunk_reader.stop().word, c.found);
    EXPECT_EQ(image.state_word(0), c.found);
    EXPECT_THAT(sink.fragments, IsEmpty());
  }
}

// Found at the last moment before read_pos would be taken back.
TEST_F(ChunkReaderRaceTest, ReaderThatWasReplacedDoesNotPublishReadPos) {
  image_.PutChunk(0, abi::State::kComplete, {1, 1, 0, {"x"}});
  Actor& reader = sequencer_.Start(
      "reader", [this] { outcome_ = reader_.DrainPass(sink_); });
  const Ring ring(image_.base(), image_.geometry());
  ASSERT_TRUE(
      reader.RunBefore(SharedAccess::kLoad, &ring.words().reader_epoch, 2));
  ChunkReader successor(ring);
  reader.RunToEnd();
  EXPECT_EQ(outcome_, DrainOutcome::kStopped);
  EXPECT_EQ(reader_.stop().reason, StopReason::kForeignReader);
  EXPECT_EQ(image_.read_pos(), 0u);
  // The successor sees that the position is resolved.
  RecordingSink sink;
  EXPECT_EQ(successor.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.fragments, IsEmpty());
  EXPECT_EQ(successor.stats().found_resolved, 1u);
}

// A reader that dies between any two of its accesses, and its successor:
// nothing is delivered twice, nothing is stopped, the ring goes on.
TEST(ReaderRestartTest, SuccessorGoesOnWhereverTheReaderDied) {
  bool died_somewhere = true;
  for (int steps = 1; died_somewhere; ++steps) {
    SCOPED_TRACE(steps);
    RingImage image = RingImage::InPlainMemory({});
    const Ring ring(image.base(), image.geometry());
    image.Publish({1, 1, 0, {"a"}});
    image.set_write_pos(2);  // a hole
    image.PutChunk(2, abi::State::kAcquired, {2, 1, 0, {"b"}});
    image.set_write_pos(3);
    image.Publish({1, 1, 0, {"c"}});

    RecordingSink dead_sink;
    RecordingSink sink;
    StepSequencer sequencer;
    {
      // Dies after `steps` accesses: what it does beyond them, to come to its
      // end, is undone.
      Actor& dead = sequencer.Start("dead reader", [&] {
        ChunkReader reader(ring);
        (void)reader.DrainPass(dead_sink);
      });
      int done = 0;
      while (done < steps && dead.Step()) ++done;
      died_somewhere = !dead.finished();
      const std::string at_death = image.Snapshot();
      const std::vector<std::string> delivered = dead_sink.fragments;
      dead.RunToEnd();
      std::copy(at_death.begin(), at_death.end(), image.base());
      dead_sink.fragments = delivered;
    }
    ChunkReader successor(ring);
    EXPECT_EQ(successor.DrainPass(sink), DrainOutcome::kDrained);
    EXPECT_FALSE(successor.stopped());
    EXPECT_EQ(image.read_pos(), 4u);
    // Each fragment once, in order, over both readers: a chunk is stored in the
    // step that takes it. (A death within that step loses the chunk.)
    std::vector<std::string> all = dead_sink.fragments;
    all.insert(all.end(), sink.fragments.begin(), sink.fragments.end());
    EXPECT_THAT(all, ElementsAre("a", "b", "c"));
    // The ring goes on: another traversal of it.
    RecordingSink later;
    EXPECT_EQ(image.state_word(2), 0x6001'0002u);
    image.set_state_word(2, 0x8000'0000);
    image.Publish({1, 1, 0, {"d"}});
    image.Publish({1, 1, 0, {"e"}});
    image.set_write_pos(7);
    image.Publish({1, 1, 0, {"f"}});
    EXPECT_EQ(successor.DrainPass(later), DrainOutcome::kDrained);
    EXPECT_THAT(later.fragments, ElementsAre("d", "e", "f"));
    EXPECT_EQ(image.state_word(2), 2u);
  }
}

}  // namespace
}  // namespace tracering::internal
