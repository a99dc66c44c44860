// Every branch of the reader's flow on ring images: what is delivered, what
// word is left behind, what is counted, and that a ring which breaks the
// protocol is stopped where it broke it and not touched again.
//
// Lost races need a second actor: tests/race.
#include "src/consumer/chunk_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "tests/support/ring_image.h"

namespace tracering::internal {
namespace {

using test::ForgedChunk;
using test::RingImage;
using test::RingImageOptions;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Chunk {
  uint16_t writer = 0;
  uint16_t buffer = 0;
  uint32_t flags = 0;
  LossMask writer_loss = 0;
  std::vector<std::string> fragments;
};

class RecordingSink {
 public:
  void OnChunk(const ChunkView& view) {
    Chunk chunk{view.writer.value(),
                view.buffer.value(),
                view.flags,
                view.writer_loss,
                {}};
    uint32_t offset = 0;
    for (uint32_t i = 0; i < view.num_fragments; ++i) {
      chunk.fragments.emplace_back(
          reinterpret_cast<const char*>(view.payload + offset), view.sizes[i]);
      offset += view.sizes[i];
    }
    EXPECT_EQ(offset, view.payload_size);
    chunks.push_back(chunk);
  }
  void OnDroppedChunk(const DroppedChunk& chunk) { dropped.push_back(chunk); }
  void BeforePublication() {}

  std::vector<std::string> Fragments() const {
    std::vector<std::string> all;
    for (const Chunk& chunk : chunks) {
      all.insert(all.end(), chunk.fragments.begin(), chunk.fragments.end());
    }
    return all;
  }

  std::vector<Chunk> chunks;
  std::vector<DroppedChunk> dropped;
};

RingImageOptions Shape(uint32_t num_chunks, uint32_t chunk_size = 256,
                       uint32_t position = 0) {
  RingImageOptions options;
  options.num_chunks = num_chunks;
  options.chunk_size = chunk_size;
  options.position = position;
  return options;
}

Ring RingOf(const RingImage& image) {
  return Ring(image.base(), image.geometry());
}

void ExpectStatsAddUp(const ChunkReader& reader) {
  const ChunkReaderStats& stats = reader.stats();
  EXPECT_EQ(stats.positions, stats.holes + stats.chunks + stats.unknown_format +
                                 stats.malformed + stats.empty +
                                 stats.no_writer);
}

// Gives out one place, and keeps what it was asked.
class OnePlace : public PayloadPlacer {
 public:
  uint8_t* PlaceFor(const ChunkView& chunk) override {
    asked.push_back(chunk.payload_size);
    writer = chunk.writer.value();
    buffer = chunk.buffer.value();
    return give ? reinterpret_cast<uint8_t*>(bytes.data()) : nullptr;
  }

  bool give = true;
  std::string bytes = std::string(4096, '?');
  std::vector<uint32_t> asked;
  uint16_t writer = 0;
  uint16_t buffer = 0;
};

// Keeps the three parts of what it is given.
struct PartsSink {
  void OnChunk(const ChunkView& view) {
    const auto* payload = reinterpret_cast<const char*>(view.payload);
    placed = view.placed;
    head.assign(payload, view.HeadSize());
    whole.assign(reinterpret_cast<const char*>(view.Whole()), view.WholeSize());
    tail.assign(payload + view.payload_size - view.TailSize(), view.TailSize());
    num_whole = view.NumWhole();
  }
  void OnDroppedChunk(const DroppedChunk&) { FAIL(); }
  void BeforePublication() {}

  const uint8_t* placed = nullptr;
  std::string head;
  std::string whole;
  std::string tail;
  uint32_t num_whole = 0;
};

// --- Dispatch on one word ---

TEST(ChunkReaderTest, EmptyRingIsDrainedAtOnce) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.stats().positions, 0u);
  EXPECT_EQ(image.read_pos(), 0u);
}

TEST(ChunkReaderTest, ZeroFilledMappingIsAValidEmptyRing) {
  RingImageOptions options = Shape(2);
  options.with_identity = false;
  RingImage image = RingImage::InPlainMemory(options);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_FALSE(reader.stopped());
}

TEST(ChunkReaderTest, CompleteChunkIsDeliveredAndFreedForTheNextTraversal) {
  RingImage image = RingImage::InPlainMemory(Shape(4, 256, 12));
  image.Publish({7, 0x1234, abi::kFlagContinuesFromPrevious, {"ab", "", "c"}});
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.chunks.size(), 1u);
  EXPECT_EQ(sink.chunks[0].writer, 7);
  EXPECT_EQ(sink.chunks[0].buffer, 0x1234);
  EXPECT_EQ(sink.chunks[0].flags, abi::kFlagContinuesFromPrevious);
  EXPECT_THAT(sink.chunks[0].fragments, ElementsAre("ab", "", "c"));
  // Position 12 of 4 chunks is wrap 3; its chunk is free for wrap 4 next.
  EXPECT_EQ(image.state_word(0), 4u);
  EXPECT_EQ(image.read_pos(), 13u);
  EXPECT_EQ(reader.stats().fragments, 3u);
  EXPECT_EQ(reader.stats().payload_bytes, 3u);
}

// The chunk of the specification's example, byte by byte.
TEST(ChunkReaderTest, WorkedExampleOf5And200And3BytesIsRead) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  uint8_t* chunk = image.chunk(0);
  chunk[4] = 0x02;
  chunk[5] = 0x01;
  for (int i = 6; i < 214; ++i) chunk[i] = static_cast<uint8_t>(i);
  chunk[255] = 0x05;
  chunk[254] = 0xc8;
  chunk[253] = 0x03;
  image.set_state_word(0, 0x4003'0009);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.chunks.size(), 1u);
  EXPECT_EQ(sink.chunks[0].writer, 9);
  EXPECT_EQ(sink.chunks[0].buffer, 0x0102);
  const std::string bytes(reinterpret_cast<const char*>(chunk), 256);
  EXPECT_THAT(sink.chunks[0].fragments,
              ElementsAre(bytes.substr(6, 5), bytes.substr(11, 200),
                          bytes.substr(211, 3)));
}

TEST(ChunkReaderTest, UnclaimedPositionIsAHoleThatItsWriterCannotClaimLater) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.stats().holes, 1u);
  EXPECT_EQ(image.state_word(0), 1u);
  EXPECT_EQ(image.read_pos(), 1u);
  EXPECT_FALSE(RingOf(image)
                   .StateOf(abi::ChunkIndex(0))
                   .TryClaim(abi::WrapCount(0), 0x2000'0001));
}

TEST(ChunkReaderTest, PublishedPrefixIsTakenFromAWriterThatHoldsTheChunk) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.PutChunk(0, abi::State::kAcquired,
                 {3, 1, abi::kFlagDataLoss, {"one", "two"}});
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("one", "two"));
  EXPECT_EQ(sink.chunks[0].flags, abi::kFlagDataLoss);
  // Only the state changed: format, flags, count and writer stand as before.
  EXPECT_EQ(image.state_word(0), 0x6102'0003u);
  EXPECT_EQ(reader.stats().scrapes, 1u);
  EXPECT_EQ(image.read_pos(), 1u);
}

TEST(ChunkReaderTest, WriterWithNothingPublishedIsScrapedOfNothing) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.set_state_word(0, 0x2500'0003);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.chunks, IsEmpty());
  EXPECT_THAT(sink.dropped, IsEmpty());
  EXPECT_EQ(image.state_word(0), 0x6500'0003u);
  EXPECT_EQ(reader.stats().scrapes, 1u);
  EXPECT_EQ(reader.stats().holes, 1u);
}

TEST(ChunkReaderTest, ChunkWithItsWriterStillInItIsSkippedAsAHole) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.PutChunk(0, abi::State::kRewriteRequested, {3, 1, 0, {"taken"}});
  const uint32_t word = image.state_word(0);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.chunks, IsEmpty());
  EXPECT_EQ(image.state_word(0), word);
  EXPECT_EQ(image.read_pos(), 1u);
  EXPECT_EQ(reader.stats().holes, 1u);
}

TEST(ChunkReaderTest, AcknowledgedChunkIsFreedForTheNextTraversal) {
  RingImage image = RingImage::InPlainMemory(Shape(4, 256, 8));
  image.set_state_word(0, 0x8000'0000);
  image.set_write_pos(9);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(image.state_word(0), 3u);
  EXPECT_EQ(reader.stats().holes, 1u);
}

// --- Payload that cannot be used ---

TEST(ChunkReaderTest, UnknownFormatMovesOwnershipAndDropsThePayload) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  for (uint32_t format = 1; format <= 3; ++format) {
    image.set_state_word(format - 1, 0x4002'0005 | format << 27);
  }
  image.set_state_word(3, 0x2002'0005 | 1u << 27);
  image.set_write_pos(4);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.chunks, IsEmpty());
  ASSERT_EQ(sink.dropped.size(), 4u);
  for (const DroppedChunk& dropped : sink.dropped) {
    EXPECT_EQ(dropped.reason, ChunkDropReason::kUnknownFormat);
    EXPECT_EQ(dropped.writer, WriterId(5));
    EXPECT_EQ(dropped.num_fragments, 2u);
  }
  EXPECT_EQ(reader.stats().unknown_format, 4u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(image.state_word(i), 1u);
  EXPECT_EQ(image.state_word(3), 0x6802'0005u);
}

TEST(ChunkReaderTest, SizesThatSumBeyondTheChunkDropThePayloadOnly) {
  RingImage image = RingImage::InPlainMemory(Shape(2, 512));
  // 3 entries of two bytes leave 500 bytes; these sum to 501.
  uint8_t* chunk = image.chunk(0);
  for (int i = 1; i <= 6; ++i) chunk[512 - i] = 0;
  chunk[510] = 250;
  chunk[508] = 250;
  chunk[506] = 1;
  image.set_state_word(0, 0x4003'0001);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.dropped.size(), 1u);
  EXPECT_EQ(sink.dropped[0].reason, ChunkDropReason::kMalformed);
  EXPECT_EQ(image.state_word(0), 1u);
}

TEST(ChunkReaderTest, SizesThatExactlyFillTheChunkAreDelivered) {
  RingImage image = RingImage::InPlainMemory(Shape(2, 512));
  const std::string half(250, 'x');
  image.Publish({1, 1, 0, {half, half, ""}});
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre(half, half, ""));
}

TEST(ChunkReaderTest, EveryNumberOfFragmentsIsReadInPayloadOrder) {
  for (const uint32_t chunk_size : {256u, 2048u}) {
    for (uint32_t count = 1; count <= 120; ++count) {
      SCOPED_TRACE(count);
      std::vector<std::string> fragments;
      for (uint32_t i = 0; i < count; ++i) {
        fragments.emplace_back(chunk_size == 256 ? i % 2 : i % 29,
                               'a' + i % 26);
      }
      RingImage image = RingImage::InPlainMemory(Shape(2, chunk_size));
      image.Publish({1, 1, 0, fragments});
      ChunkReader reader(RingOf(image));
      RecordingSink sink;
      EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
      EXPECT_EQ(sink.Fragments(), fragments);
    }
  }
}

// One bit too much in any of the entries, wherever it stands.
TEST(ChunkReaderTest, EveryEntryCountsTowardsTheSum) {
  constexpr uint32_t kCount = 23;
  for (uint32_t bad = 0; bad < kCount; ++bad) {
    SCOPED_TRACE(bad);
    RingImage image = RingImage::InPlainMemory(Shape(2, 1024));
    image.Publish({1, 1, 0, std::vector<std::string>(kCount)});
    image.chunk(0)[1024 - 2 * (bad + 1) + 1] = 0x04;  // 1024 bytes
    ChunkReader reader(RingOf(image));
    RecordingSink sink;
    EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
    EXPECT_EQ(reader.stats().malformed, 1u);
  }
}

TEST(ChunkReaderTest, LargestSizesNeverOverflowTheSum) {
  for (const uint32_t chunk_size : {1024u, 32u * 1024}) {
    RingImage image = RingImage::InPlainMemory(Shape(2, chunk_size));
    for (int i = 1; i <= 510; ++i) image.chunk(0)[chunk_size - i] = 0xff;
    image.set_state_word(0, 0x40ff'0001);
    image.set_write_pos(1);
    ChunkReader reader(RingOf(image));
    RecordingSink sink;
    EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
    EXPECT_EQ(reader.stats().malformed, 1u);
  }
}

TEST(ChunkReaderTest, DirectoryLargerThanTheChunkIsMalformed) {
  // 250 and 253 empty fragments fill the two smallest chunks exactly.
  const struct {
    uint32_t chunk_size;
    uint32_t fits;
  } kCases[] = {{256, 250}, {512, 253}};
  for (const auto& c : kCases) {
    for (uint32_t count = c.fits; count <= 255; ++count) {
      SCOPED_TRACE(count);
      RingImage image = RingImage::InPlainMemory(Shape(2, c.chunk_size));
      image.set_state_word(0, 0x4000'0001 | count << 16);
      image.set_write_pos(1);
      ChunkReader reader(RingOf(image));
      RecordingSink sink;
      EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
      EXPECT_EQ(reader.stats().chunks, count == c.fits ? 1u : 0u);
      EXPECT_EQ(reader.stats().malformed, count == c.fits ? 0u : 1u);
      EXPECT_EQ(image.state_word(0), 1u);
    }
  }
}

TEST(ChunkReaderTest, MalformedAcquiredChunkIsStillRewriteRequested) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.chunk(0)[255] = 250;  // one entry leaves 249 bytes
  image.set_state_word(0, 0x2001'0002);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(image.state_word(0), 0x6001'0002u);
  ASSERT_EQ(sink.dropped.size(), 1u);
  EXPECT_EQ(sink.dropped[0].reason, ChunkDropReason::kMalformed);
  EXPECT_EQ(sink.dropped[0].writer, WriterId(2));
  EXPECT_EQ(reader.stats().scrapes, 1u);
}

TEST(ChunkReaderTest, CompleteChunkWithoutFragmentsIsFreedAndCounted) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.set_state_word(0, 0x4000'0002);
  image.set_write_pos(1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.dropped.size(), 1u);
  EXPECT_EQ(sink.dropped[0].reason, ChunkDropReason::kEmpty);
  EXPECT_EQ(image.state_word(0), 1u);
}

TEST(ChunkReaderTest, PayloadOfNobodyIsDropped) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.Publish({0, 1, 0, {"x"}});
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.dropped.size(), 1u);
  EXPECT_EQ(sink.dropped[0].reason, ChunkDropReason::kNoWriter);
  EXPECT_EQ(image.state_word(0), 1u);
}

// What is wrong with one chunk does not follow into the next.
TEST(ChunkReaderTest, GoodChunkAfterBadOnesIsDeliveredWhole) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.chunk(0)[255] = 250;
  image.set_state_word(0, 0x4001'0002);
  image.set_state_word(1, 0x5801'0002);
  image.set_state_word(2, 0x4000'0002);
  image.set_write_pos(3);
  image.Publish({2, 1, 0, {"good", "chunk"}});
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(sink.dropped.size(), 3u);
  EXPECT_THAT(sink.Fragments(), ElementsAre("good", "chunk"));
  ExpectStatsAddUp(reader);
}

// --- Loss marks ---

TEST(ChunkReaderTest, FlaggedChunkNamesTheCausesThatMovedSinceTheLastMark) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  const Ring ring = RingOf(image);
  ChunkReader reader(ring);
  RecordingSink sink;
  ring.AddWriterLoss(LossCause::kRingFull, 3);
  ring.AddWriterLoss(LossCause::kStallTimeout, 1);
  image.Publish({1, 1, abi::kFlagDataLoss, {"a"}});
  image.Publish({2, 1, 0, {"b"}});
  ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ring.AddWriterLoss(LossCause::kWriterAbort, 1);
  image.Publish({1, 1, abi::kFlagDataLoss, {"c"}});
  image.Publish({1, 1, abi::kFlagDataLoss, {"d"}});
  ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  ASSERT_EQ(sink.chunks.size(), 4u);
  EXPECT_EQ(sink.chunks[0].writer_loss,
            MaskOf(LossCause::kRingFull) | MaskOf(LossCause::kStallTimeout));
  EXPECT_EQ(sink.chunks[1].writer_loss, 0u);
  EXPECT_EQ(sink.chunks[2].writer_loss, MaskOf(LossCause::kWriterAbort));
  EXPECT_EQ(sink.chunks[3].writer_loss, 0u);
}

// --- Passes and cursors ---

TEST(ChunkReaderTest, PassLeavesWhatIsReservedMeanwhile) {
  RingImage image = RingImage::InPlainMemory(Shape(8));
  image.Publish({1, 1, 0, {"0"}});
  image.Publish({1, 1, 0, {"1"}});

  // A producer that always has one more chunk than the reader has seen.
  struct GreedySink : RecordingSink {
    RingImage* image;
    void OnChunk(const ChunkView& view) {
      RecordingSink::OnChunk(view);
      image->Publish({1, 1, 0, {"more"}});
    }
  };
  GreedySink sink;
  sink.image = &image;
  ChunkReader reader(RingOf(image));
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("0", "1"));
  EXPECT_EQ(reader.read_pos(), abi::Position(2));
}

TEST(ChunkReaderTest, WholePacketsGoWhereThePlacerSaysAndTheOthersDoNot) {
  const std::vector<std::string> fragments = {
      std::string(100, 'a'), std::string(150, 'b'), std::string(50, 'c'),
      std::string(30, 'd')};
  const struct {
    uint32_t flags;
    std::string head, whole, tail;
  } kCases[] = {
      {0, "", fragments[0] + fragments[1] + fragments[2] + fragments[3], ""},
      {abi::kFlagContinuesFromPrevious, fragments[0],
       fragments[1] + fragments[2] + fragments[3], ""},
      {abi::kFlagContinuesOnNext, "",
       fragments[0] + fragments[1] + fragments[2], fragments[3]},
      {abi::kFlagContinuesFromPrevious | abi::kFlagContinuesOnNext,
       fragments[0], fragments[1] + fragments[2], fragments[3]},
  };
  for (const bool give : {true, false}) {
    for (const auto& c : kCases) {
      SCOPED_TRACE(c.flags);
      RingImage image = RingImage::InPlainMemory(Shape(2, 512));
      image.Publish({3, 4, c.flags, fragments});
      ChunkReader reader(RingOf(image));
      OnePlace place;
      place.give = give;
      PartsSink sink;
      EXPECT_EQ(reader.DrainTo(reader.CaptureEnd(), sink, &place),
                DrainOutcome::kDrained);
      EXPECT_THAT(place.asked, ElementsAre(330u));
      EXPECT_EQ(place.writer, 3);
      EXPECT_EQ(place.buffer, 4);
      EXPECT_EQ(sink.placed != nullptr, give);
      EXPECT_EQ(sink.head, c.head);
      EXPECT_EQ(sink.whole, c.whole);
      EXPECT_EQ(sink.tail, c.tail);
      EXPECT_EQ(place.bytes,
                (give ? c.whole : "") +
                    std::string(give ? 4096 - c.whole.size() : 4096, '?'));
    }
  }
}

TEST(ChunkReaderTest, SmallPayloadsAndScrapedOnesAreNotPlaced) {
  RingImage image = RingImage::InPlainMemory(Shape(4, 512));
  image.Publish({1, 1, 0, {std::string(255, 's')}});
  image.PutChunk(1, abi::State::kAcquired, {1, 1, 0, {std::string(300, 'l')}});
  image.set_write_pos(2);
  ChunkReader reader(RingOf(image));
  OnePlace place;
  RecordingSink sink;
  EXPECT_EQ(reader.DrainTo(reader.CaptureEnd(), sink, &place),
            DrainOutcome::kDrained);
  EXPECT_THAT(place.asked, IsEmpty());
  EXPECT_THAT(sink.Fragments(),
              ElementsAre(std::string(255, 's'), std::string(300, 'l')));
}

TEST(ChunkReaderTest, DrainToResolvesExactlyUpToWhatWasCaptured) {
  RingImage image = RingImage::InPlainMemory(Shape(8));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  image.Publish({1, 1, 0, {"before"}});
  const uint64_t end = reader.CaptureEnd();
  image.Publish({1, 1, 0, {"after"}});
  EXPECT_EQ(reader.DrainTo(end, sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("before"));
  EXPECT_EQ(reader.resolved(), end);
  EXPECT_EQ(image.read_pos(), 1u);
}

TEST(ChunkReaderTest, DrainToAnEndThatWasPassedDoesNothing) {
  RingImage image = RingImage::InPlainMemory(Shape(4, 256, 0xffff'fffe));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  image.Publish({1, 1, 0, {"0"}});
  const uint64_t end = reader.CaptureEnd();
  for (int i = 1; i < 12; ++i) {
    if (i % 4 == 0) {
      ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
    }
    image.Publish({1, 1, 0, {"n"}});
  }
  const std::string before = image.Snapshot();
  EXPECT_EQ(reader.DrainTo(end, sink), DrainOutcome::kDrained);
  EXPECT_EQ(image.Snapshot(), before);
}

TEST(ChunkReaderTest, CursorsAndTagsRollOver) {
  // 2^32 for the positions of 16 chunks; 2^29 wraps of 4 chunks.
  const struct {
    uint32_t num_chunks;
    uint32_t start;
  } kCases[] = {{16, 0xffff'fff0}, {4, 0x7fff'fff8}, {2, 0x3fff'fffc}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.num_chunks);
    RingImage image =
        RingImage::InPlainMemory(Shape(c.num_chunks, 256, c.start));
    ChunkReader reader(RingOf(image));
    RecordingSink sink;
    std::vector<std::string> expected;
    for (int i = 0; i < 64; ++i) {
      expected.push_back(std::to_string(i));
      image.Publish({1, 1, 0, {expected.back()}});
      if (i % c.num_chunks == c.num_chunks - 1) {
        ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
      }
    }
    EXPECT_EQ(sink.Fragments(), expected);
    EXPECT_EQ(image.read_pos(), c.start + 64);
  }
}

// The number of the specification: chunk 0 of 16 is free for wrap 0 again
// after position 0xfffffff0, not for 0x10000000.
TEST(ChunkReaderTest, TagAfterTheRollOverComesFromThePosition) {
  RingImage image = RingImage::InPlainMemory(Shape(16, 256, 0xffff'fff0));
  EXPECT_EQ(image.state_word(0), 0x0fff'ffffu);
  image.set_write_pos(0xffff'fff1);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(image.state_word(0), 0u);
}

TEST(ChunkReaderTest, ReadPosIsPublishedEveryEighthOfTheRing) {
  struct WatchingSink : RecordingSink {
    RingImage* image;
    std::vector<uint32_t> seen;
    void OnChunk(const ChunkView&) { seen.push_back(image->read_pos()); }
  };
  for (const uint32_t num_chunks : {2u, 8u, 32u}) {
    SCOPED_TRACE(num_chunks);
    RingImage image = RingImage::InPlainMemory(Shape(num_chunks));
    for (uint32_t i = 0; i < num_chunks; ++i) image.Publish({1, 1, 0, {"x"}});
    ChunkReader reader(RingOf(image));
    WatchingSink sink;
    sink.image = &image;
    EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
    const uint32_t step = num_chunks < 8 ? 1 : num_chunks / 8;
    ASSERT_EQ(sink.seen.size(), num_chunks);
    for (uint32_t i = 0; i < num_chunks; ++i) {
      EXPECT_EQ(sink.seen[i], i / step * step) << i;
    }
    EXPECT_EQ(image.read_pos(), num_chunks);
  }
}

// Who finds read_pos, such as a producer whose flush is done, also finds what
// was counted up to there.
TEST(ChunkReaderTest, SinkMaySayWhatItCountedBeforeReadPosIsPublished) {
  struct WatchingSink : RecordingSink {
    RingImage* image;
    std::vector<std::pair<uint32_t, size_t>> seen;
    void BeforePublication() {
      seen.emplace_back(image->read_pos(), chunks.size());
    }
  };
  RingImage image = RingImage::InPlainMemory(Shape(16));
  for (uint32_t i = 0; i < 5; ++i) image.Publish({1, 1, 0, {"x"}});
  image.set_state_word(5, 0xa000'0000);  // reserved: the ring stops here
  image.set_write_pos(6);
  ChunkReader reader(RingOf(image));
  WatchingSink sink;
  sink.image = &image;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_THAT(sink.seen, ElementsAre(Pair(0, 2), Pair(2, 4), Pair(4, 5)));
  EXPECT_EQ(image.read_pos(), 5u);
}

TEST(ChunkReaderTest, FullRingOfHolesIsResolvedInOnePass) {
  RingImage image = RingImage::InPlainMemory(Shape(64));
  image.set_write_pos(64);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.stats().holes, 64u);
  EXPECT_EQ(image.read_pos(), 64u);
}

TEST(ChunkReaderTest, ForgedReadPosAfterAttachIsIgnored) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  image.Publish({1, 1, 0, {"a"}});
  image.set_read_pos(0x1234'5678);
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("a"));
  EXPECT_EQ(image.read_pos(), 1u);
}

// --- Stopping ---

struct StopCase {
  const char* name;
  uint32_t word;
  StopReason reason;
};

class ChunkReaderStopTest : public ::testing::TestWithParam<StopCase> {};

// The offending chunk stands at position 2, behind two good ones, in a ring
// that is large enough for read_pos to be published only every 4 positions.
TEST_P(ChunkReaderStopTest, RingStopsAtTheOffendingPosition) {
  RingImage image = RingImage::InPlainMemory(Shape(32));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  image.Publish({1, 1, 0, {"0"}});
  image.Publish({1, 1, 0, {"1"}});
  image.set_state_word(2, GetParam().word);
  image.set_write_pos(3);
  image.Publish({1, 1, 0, {"behind"}});

  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_TRUE(reader.stopped());
  EXPECT_EQ(reader.stop().reason, GetParam().reason);
  EXPECT_EQ(reader.stop().position, abi::Position(2));
  EXPECT_EQ(reader.stop().word, GetParam().word);
  EXPECT_THAT(sink.Fragments(), ElementsAre("0", "1"));
  EXPECT_EQ(image.state_word(2), GetParam().word);
  EXPECT_EQ(image.read_pos(), 2u);

  // Latched: nothing of the ring is written again, whatever it shows.
  image.set_state_word(2, 0);
  const std::string before = image.Snapshot();
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_EQ(reader.DrainTo(reader.CaptureEnd(), sink), DrainOutcome::kStopped);
  EXPECT_EQ(image.Snapshot(), before);
  EXPECT_EQ(reader.stop().reason, GetParam().reason);
  EXPECT_EQ(sink.chunks.size(), 2u);
  ExpectStatsAddUp(reader);
}

INSTANTIATE_TEST_SUITE_P(
    Words, ChunkReaderStopTest,
    ::testing::Values(
        StopCase{"Reserved5", 0xa000'0000, StopReason::kReservedState},
        StopCase{"Reserved6", 0xc001'0001, StopReason::kReservedState},
        StopCase{"Reserved7", 0xffff'ffff, StopReason::kReservedState},
        StopCase{"OlderTag", 0x1fff'ffff, StopReason::kWrongFreeTag},
        StopCase{"TagOfTheNextTraversal", 0x0000'0001,
                 StopReason::kWrongFreeTag},
        StopCase{"NewerTag", 0x0000'0002, StopReason::kWrongFreeTag},
        StopCase{"AcknowledgedLowBit", 0x8000'0001,
                 StopReason::kAcknowledgedNotZero},
        StopCase{"AcknowledgedHighBit", 0x9000'0000,
                 StopReason::kAcknowledgedNotZero}),
    [](const auto& test) { return test.param.name; });

TEST(ChunkReaderTest, CursorsThatAreTooFarApartStopTheRing) {
  for (const uint32_t distance : {5u, 6u, 0x8000'0000u, 0xffff'ffffu}) {
    SCOPED_TRACE(distance);
    RingImage image = RingImage::InPlainMemory(Shape(4, 256, 0xffff'fffe));
    image.set_write_pos(0xffff'fffe + distance);
    const std::string before = image.Snapshot();
    ChunkReader reader(RingOf(image));
    RecordingSink sink;
    EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
    EXPECT_EQ(reader.stop().reason, StopReason::kCursorsApart);
    EXPECT_EQ(reader.stop().word, 0xffff'fffe + distance);
    EXPECT_EQ(reader.stop().position, abi::Position(0xffff'fffe));
    EXPECT_EQ(reader.CaptureEnd(), reader.resolved());
    image.SetWord32(abi::kReaderEpochOffset, 0);
    EXPECT_EQ(image.Snapshot(), before);
  }
}

TEST(ChunkReaderTest, ADistanceOfTheWholeRingIsLegal) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  for (int i = 0; i < 4; ++i) image.Publish({1, 1, 0, {"x"}});
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(sink.chunks.size(), 4u);
}

TEST(ChunkReaderTest, ForgedReadPosAtAttachStopsOnlyThatRing) {
  RingImage forged = RingImage::InPlainMemory(Shape(4));
  RingImage honest = RingImage::InPlainMemory(Shape(4));
  forged.Publish({1, 1, 0, {"x"}});
  honest.Publish({1, 1, 0, {"y"}});
  forged.set_read_pos(0x4000'0000);
  ChunkReader forged_reader(RingOf(forged));
  ChunkReader honest_reader(RingOf(honest));
  RecordingSink sink;
  EXPECT_EQ(forged_reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_EQ(honest_reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("y"));
}

// --- One reader at a time ---

TEST(ChunkReaderTest, ReaderStopsAtTheStartOfAPassOnceAnotherHasAttached) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  ChunkReader old_reader(RingOf(image));
  ChunkReader new_reader(RingOf(image));
  RecordingSink sink;
  image.Publish({1, 1, 0, {"x"}});
  EXPECT_EQ(old_reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_EQ(old_reader.stop().reason, StopReason::kForeignReader);
  EXPECT_EQ(old_reader.stop().word, 2u);
  EXPECT_THAT(sink.chunks, IsEmpty());
  EXPECT_EQ(new_reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("x"));
}

TEST(ChunkReaderTest, ReaderThatLosesTheRingInAPassDoesNotPublishReadPos) {
  struct StealingSink : RecordingSink {
    RingImage* image;
    void OnChunk(const ChunkView& view) {
      RecordingSink::OnChunk(view);
      image->SetWord32(abi::kReaderEpochOffset, 9);
    }
  };
  for (const int published : {1, 4}) {
    SCOPED_TRACE(published);  // read_pos is published every 2 of 16
    RingImage image = RingImage::InPlainMemory(Shape(16));
    for (int i = 0; i < published; ++i) image.Publish({1, 1, 0, {"x"}});
    ChunkReader reader(RingOf(image));
    StealingSink sink;
    sink.image = &image;
    EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
    EXPECT_EQ(reader.stop().reason, StopReason::kForeignReader);
    EXPECT_EQ(image.read_pos(), 0u);
  }
}

TEST(ChunkReaderTest, EachAttachIsAnEpochOfItsOwn) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  ChunkReader first(RingOf(image));
  EXPECT_FALSE(first.had_predecessor());
  EXPECT_EQ(image.Word32(abi::kReaderEpochOffset), 1u);
  ChunkReader second(RingOf(image));
  EXPECT_TRUE(second.had_predecessor());
  EXPECT_EQ(image.Word32(abi::kReaderEpochOffset), 2u);
}

TEST(ChunkReaderTest, NewReaderKnowsWhetherTheOneBeforeItLeftOrDied) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  image.set_write_pos(3);
  ChunkReader first(RingOf(image));
  EXPECT_FALSE(first.predecessor_left());
  RecordingSink sink;
  EXPECT_EQ(first.DrainPass(sink), DrainOutcome::kDrained);
  ChunkReader::WriterLosses counted{};
  counted[0] = 0x1'0000'0007;
  counted[7] = 9;
  first.Leave(counted);
  EXPECT_EQ(image.Word32(abi::kReaderLeftOffset), 1u);
  EXPECT_EQ(image.Word32(abi::kLeftPosOffset), 3u);
  EXPECT_EQ(image.Word32(abi::kLeftWriterLossOffset), 7u);
  EXPECT_EQ(image.Word32(abi::kLeftWriterLossOffset + 4), 0u);
  EXPECT_EQ(image.Word32(abi::kLeftWriterLossOffset + 28), 9u);
  ChunkReader second(RingOf(image));
  EXPECT_TRUE(second.predecessor_left());
  // The second one dies.
  ChunkReader third(RingOf(image));
  EXPECT_FALSE(third.predecessor_left());
  // And comes back to life, too late.
  second.Leave({});
  EXPECT_EQ(image.Word32(abi::kReaderLeftOffset), 1u);
  EXPECT_EQ(image.Word32(abi::kLeftWriterLossOffset), 7u);
}

TEST(ChunkReaderTest, ChunksThatWritersStillHoldAreCounted) {
  RingImage image = RingImage::InPlainMemory(Shape(8));
  image.set_state_word(0, 0x2001'0001);
  image.set_state_word(1, 0x2001'0002);
  image.set_state_word(2, 0x2000'0003);
  image.set_write_pos(3);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.CountOpenChunks(), 0u);
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.CountOpenChunks(), 3u);
  image.set_state_word(1, abi::kAcknowledgedWord);
  EXPECT_EQ(reader.CountOpenChunks(), 2u);
  EXPECT_EQ(reader.CountOpenChunks(), 2u);
}

// --- Restart of the reader ---

// A predecessor resolved positions and died before it published read_pos.
TEST(ChunkReaderTest, NewReaderPassesOverWhatItsPredecessorResolved) {
  RingImage image = RingImage::InPlainMemory(Shape(8, 256, 16));
  for (int i = 0; i < 5; ++i) image.Publish({1, 1, 0, {std::to_string(i)}});
  for (int i = 0; i < 3; ++i) image.set_state_word(i, 3);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_THAT(sink.Fragments(), ElementsAre("3", "4"));
  EXPECT_EQ(reader.stats().found_resolved, 3u);
  EXPECT_EQ(image.read_pos(), 21u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(image.state_word(i), 3u);
  ExpectStatsAddUp(reader);
}

TEST(ChunkReaderTest, WholeRingMayBeFoundResolved) {
  RingImage image = RingImage::InPlainMemory(Shape(4, 256, 0xffff'fffc));
  image.set_write_pos(0);
  for (int i = 0; i < 4; ++i) image.set_state_word(i, 0);
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.stats().found_resolved, 4u);
  EXPECT_EQ(image.read_pos(), 0u);
}

class ChunkReaderAttachPhaseTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  // Position 0 shows `word`; position 1 shows what a predecessor leaves.
  DrainOutcome DrainTwo(uint32_t word) {
    image_.set_state_word(0, word);
    image_.set_state_word(1, 1);
    image_.set_write_pos(2);
    ChunkReader reader(RingOf(image_));
    RecordingSink sink;
    return reader.DrainPass(sink);
  }

  RingImage image_ = RingImage::InPlainMemory(Shape(4));
};

using AttachPhaseGoesOnTest = ChunkReaderAttachPhaseTest;
TEST_P(AttachPhaseGoesOnTest, AfterAWordThatAResolvedPositionMayShow) {
  EXPECT_EQ(DrainTwo(GetParam()), DrainOutcome::kDrained);
}
INSTANTIATE_TEST_SUITE_P(Words, AttachPhaseGoesOnTest,
                         ::testing::Values(0x0000'0001, 0x6001'0001,
                                           0x8000'0000));

using AttachPhaseEndsTest = ChunkReaderAttachPhaseTest;
TEST_P(AttachPhaseEndsTest, AtAWordThatOnlyAnUnresolvedPositionShows) {
  EXPECT_EQ(DrainTwo(GetParam()), DrainOutcome::kStopped);
  EXPECT_EQ(image_.read_pos(), 1u);
}
INSTANTIATE_TEST_SUITE_P(Words, AttachPhaseEndsTest,
                         ::testing::Values(0x0000'0000, 0x2000'0001,
                                           0x4001'0001));

TEST(ChunkReaderTest, AttachPhaseEndsAfterOneTraversal) {
  RingImage image = RingImage::InPlainMemory(Shape(2));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  for (int i = 0; i < 2; ++i) image.set_state_word(i, 0x6001'0001);
  image.set_write_pos(2);
  ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  image.set_state_word(0, 2);  // position 2 is wrap 1; 2 is the next
  image.set_write_pos(3);
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kStopped);
  EXPECT_EQ(reader.stop().reason, StopReason::kWrongFreeTag);
}

// The phase outlasts a pass: a quiet ring says nothing about a predecessor.
TEST(ChunkReaderTest, AttachPhaseOutlastsAnEmptyPass) {
  RingImage image = RingImage::InPlainMemory(Shape(4));
  ChunkReader reader(RingOf(image));
  RecordingSink sink;
  ASSERT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  image.set_state_word(0, 1);
  image.set_write_pos(1);
  EXPECT_EQ(reader.DrainPass(sink), DrainOutcome::kDrained);
  EXPECT_EQ(reader.stats().found_resolved, 1u);
}

}  // namespace
}  // namespace tracering::internal
