// The independent decoder on images forged word by word, and the reference
// reader on a quiescent ring and against a thread that writes by hand.
#include "tests/support/ring_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/ring_image.h"

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr RingShape kShape{4, 256};

ForgedChunk Forged(uint16_t writer, std::vector<std::string> fragments,
                   uint32_t flags = 0) {
  ForgedChunk forged;
  forged.writer = writer;
  forged.fragments = std::move(fragments);
  forged.flags = flags;
  return forged;
}

std::vector<std::string> BytesOf(const std::vector<DecodedPacket>& packets) {
  std::vector<std::string> bytes;
  for (const DecodedPacket& packet : packets) bytes.push_back(packet.bytes);
  return bytes;
}

TEST(DecodeRingTest, EmptyRingIsClean) {
  const RingImage image = RingImage::InPlainMemory({});
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.chunks, IsEmpty());
  EXPECT_THAT(ring.holes, IsEmpty());
  EXPECT_THAT(ring.violations, IsEmpty());
}

TEST(DecodeRingTest, ReturnsFragmentsWithWriterBufferAndFlags) {
  RingImage image = RingImage::InPlainMemory({});
  ForgedChunk forged = Forged(7, {"one", "", "three"},
                              abi::kFlagContinuesOnNext | abi::kFlagDataLoss);
  forged.buffer = 0x1234;
  image.Publish(forged);
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.violations, IsEmpty());
  ASSERT_THAT(ring.chunks, SizeIs(1));
  EXPECT_EQ(ring.chunks[0].writer, 7);
  EXPECT_EQ(ring.chunks[0].buffer, 0x1234);
  EXPECT_FALSE(ring.chunks[0].continues_from_previous);
  EXPECT_TRUE(ring.chunks[0].continues_on_next);
  EXPECT_TRUE(ring.chunks[0].data_loss);
  EXPECT_THAT(ring.chunks[0].fragments, ElementsAre("one", "", "three"));
}

TEST(DecodeRingTest, TwoByteEntriesAreReadInLargerChunks) {
  RingImageOptions options;
  options.chunk_size = 1024;
  RingImage image = RingImage::InPlainMemory(options);
  image.Publish(Forged(1, {std::string(700, 'x'), "tail"}));
  const DecodedRing ring = DecodeRing(image.base(), {4, 1024});
  ASSERT_THAT(ring.chunks, SizeIs(1));
  EXPECT_THAT(ring.chunks[0].fragments,
              ElementsAre(std::string(700, 'x'), "tail"));
}

TEST(DecodeRingTest, AcquiredGivesItsPublishedPrefix) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(1);
  image.PutChunk(0, abi::State::kAcquired, Forged(1, {"a", "b"}));
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.violations, IsEmpty());
  ASSERT_THAT(ring.chunks, SizeIs(1));
  EXPECT_THAT(ring.chunks[0].fragments, ElementsAre("a", "b"));
}

TEST(DecodeRingTest, UnclaimedRewriteRequestedAndAcknowledgedAreHoles) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(3);
  image.set_state_word(1, 0x6002'0001);
  image.set_state_word(2, 0x8000'0000);
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.violations, IsEmpty());
  EXPECT_THAT(ring.holes, ElementsAre(0u, 1u, 2u));
}

TEST(DecodeRingTest, PositionsCrossTheRollOver) {
  RingImage image = RingImage::InPlainMemory({});
  image.Seed(0xffff'ffff, 0xffff'ffff);
  EXPECT_EQ(image.Publish(Forged(1, {"before"})), 0xffff'ffffu);
  EXPECT_EQ(image.Publish(Forged(1, {"after"})), 0u);
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.violations, IsEmpty());
  ASSERT_THAT(ring.chunks, SizeIs(2));
  EXPECT_THAT(ring.chunks[0].fragments, ElementsAre("before"));
  EXPECT_THAT(ring.chunks[1].fragments, ElementsAre("after"));
}

struct BadWord {
  const char* name;
  uint32_t word;
  const char* complaint;
};

class DecodeRingBadWordTest : public ::testing::TestWithParam<BadWord> {};

TEST_P(DecodeRingBadWordTest, IsReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(1);
  image.set_state_word(0, GetParam().word);
  const DecodedRing ring = DecodeRing(image.base(), kShape);
  EXPECT_THAT(ring.violations, ElementsAre(HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    Words, DecodeRingBadWordTest,
    ::testing::Values(
        BadWord{"WrongTag", 0x0000'0001, "may not stand"},
        BadWord{"Reserved", 0xa000'0000, "may not stand"},
        BadWord{"AcknowledgedWithLowBits", 0x8000'0001, "may not stand"},
        BadWord{"OtherFormat", 0x4801'0001, "format"},
        BadWord{"WriterZero", 0x4001'0000, "writer id 0"},
        BadWord{"CompleteAndEmpty", 0x4000'0001, "without a fragment"},
        BadWord{"DirectoryTooLarge", 0x40ff'0001, "directory larger"},
        BadWord{"AcquiredContinues", 0x2201'0001, "continues"}),
    [](const auto& tested) { return tested.param.name; });

TEST(DecodeRingTest, DataOutsideTheOutstandingPositionsIsReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.PutChunk(2, abi::State::kComplete, Forged(1, {"stray"}));
  EXPECT_THAT(DecodeRing(image.base(), kShape).violations, SizeIs(1));
}

TEST(DecodeRingTest, CursorsTooFarApartAreReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(5);
  EXPECT_THAT(DecodeRing(image.base(), kShape).violations,
              ElementsAre(HasSubstr("apart")));
}

TEST(DecodeRingTest, SizesThatRunIntoTheDirectoryAreReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"a", "b"}));
  // 250 bytes hold two entries and 248 of payload.
  image.chunk(0)[255] = 247;
  EXPECT_THAT(DecodeRing(image.base(), kShape).violations, IsEmpty());
  image.chunk(0)[255] = 248;
  EXPECT_THAT(DecodeRing(image.base(), kShape).violations,
              ElementsAre(HasSubstr("over the directory")));
}

TEST(PacketJoinerTest, JoinsAPacketOverThreeChunks) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"whole", "be"}, abi::kFlagContinuesOnNext));
  image.Publish(Forged(2, {"other"}));
  image.Publish(Forged(
      1, {"gin"}, abi::kFlagContinuesFromPrevious | abi::kFlagContinuesOnNext));
  image.Publish(Forged(1, {"end", "next"}, abi::kFlagContinuesFromPrevious));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.violations(), IsEmpty());
  EXPECT_THAT(BytesOf(joiner.PacketsOf(1)),
              ElementsAre("whole", "beginend", "next"));
  EXPECT_EQ(joiner.PacketsOf(1)[1].num_fragments, 3u);
  EXPECT_THAT(BytesOf(joiner.PacketsOf(2)), ElementsAre("other"));
  EXPECT_FALSE(joiner.HasPartial(1));
}

TEST(PacketJoinerTest, KeepsAnUnfinishedPacketBack) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"half"}, abi::kFlagContinuesOnNext));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.packets(), IsEmpty());
  EXPECT_TRUE(joiner.HasPartial(1));
  EXPECT_THAT(joiner.violations(), IsEmpty());
}

TEST(PacketJoinerTest, LossMarksTheNextPacketOfThatWriterOnly) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"a", "b"}, abi::kFlagDataLoss));
  image.Publish(Forged(2, {"c"}));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  ASSERT_THAT(joiner.packets(), SizeIs(3));
  EXPECT_TRUE(joiner.packets()[0].after_loss);
  EXPECT_FALSE(joiner.packets()[1].after_loss);
  EXPECT_FALSE(joiner.packets()[2].after_loss);
}

TEST(PacketJoinerTest, LossEndsAnUnfinishedPacketWithoutAComplaint) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"half"}, abi::kFlagContinuesOnNext));
  image.Publish(Forged(1, {"next"}, abi::kFlagDataLoss));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.violations(), IsEmpty());
  EXPECT_THAT(BytesOf(joiner.packets()), ElementsAre("next"));
  EXPECT_TRUE(joiner.packets()[0].after_loss);
}

TEST(PacketJoinerTest, TailWithoutHeadIsSkippedAndReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"tail", "next"}, abi::kFlagContinuesFromPrevious));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.violations(), ElementsAre(HasSubstr("head is missing")));
  EXPECT_THAT(BytesOf(joiner.packets()), ElementsAre("next"));
}

TEST(PacketJoinerTest, HeadWithoutTailIsReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"half"}, abi::kFlagContinuesOnNext));
  image.Publish(Forged(1, {"next"}));
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.violations(), ElementsAre(HasSubstr("never ended")));
}

TEST(PacketJoinerTest, BufferThatChangesWithinAPacketIsReported) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"half"}, abi::kFlagContinuesOnNext));
  ForgedChunk tail = Forged(1, {"tail"}, abi::kFlagContinuesFromPrevious);
  tail.buffer = 2;
  image.Publish(tail);
  PacketJoiner joiner;
  joiner.Add(DecodeRing(image.base(), kShape));
  EXPECT_THAT(joiner.violations(), ElementsAre(HasSubstr("buffers")));
}

TEST(ReferenceReaderTest, LeavesAnEmptyRingOneRoundLater) {
  RingImage image = RingImage::InPlainMemory({});
  image.Seed(0xffff'fffd, 0xffff'fffd);
  for (int i = 0; i < 4; ++i) image.Publish(Forged(1, {"p"}));
  ReferenceReader reader(image.base(), kShape);
  EXPECT_EQ(reader.Drain(), 4u);
  EXPECT_THAT(reader.joiner().packets(), SizeIs(4));
  EXPECT_EQ(image.read_pos(), 1u);
  const DecodedRing left = DecodeRing(image.base(), kShape);
  EXPECT_THAT(left.violations, IsEmpty());
  EXPECT_THAT(left.chunks, IsEmpty());
  EXPECT_EQ(reader.Drain(), 0u);
  EXPECT_THAT(reader.violations(), IsEmpty());
}

TEST(ReferenceReaderTest, TakesThePrefixOfAnAcquiredChunkAndAsksForTheRest) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(1);
  image.PutChunk(0, abi::State::kAcquired,
                 Forged(5, {"a", "b"}, abi::kFlagDataLoss));
  ReferenceReader reader(image.base(), kShape);
  EXPECT_EQ(reader.Drain(), 1u);
  EXPECT_EQ(image.state_word(0), 0x6102'0005u);
  EXPECT_THAT(BytesOf(reader.joiner().packets()), ElementsAre("a", "b"));
  EXPECT_EQ(reader.num_rewrites_requested(), 1u);
}

TEST(ReferenceReaderTest, ReclaimsAcknowledgedAndSkipsRewriteRequested) {
  RingImage image = RingImage::InPlainMemory({});
  image.set_write_pos(3);
  image.set_state_word(1, 0x6000'0001);
  image.set_state_word(2, 0x8000'0000);
  ReferenceReader reader(image.base(), kShape);
  EXPECT_EQ(reader.Drain(), 3u);
  EXPECT_EQ(image.state_word(0), 1u);
  EXPECT_EQ(image.state_word(1), 0x6000'0001u);
  EXPECT_EQ(image.state_word(2), 1u);
  EXPECT_EQ(reader.num_holes(), 3u);
  EXPECT_THAT(reader.violations(), IsEmpty());
}

TEST(ReferenceReaderTest, StopsForGoodAtAReservedState) {
  RingImage image = RingImage::InPlainMemory({});
  image.Publish(Forged(1, {"good"}));
  image.set_write_pos(2);
  image.set_state_word(1, 0xe000'0000);
  ReferenceReader reader(image.base(), kShape);
  EXPECT_EQ(reader.Drain(), 1u);
  EXPECT_EQ(image.read_pos(), 1u);
  EXPECT_EQ(image.state_word(1), 0xe000'0000u);
  EXPECT_EQ(reader.Drain(), 0u);
  EXPECT_THAT(reader.violations(), SizeIs(1));
  EXPECT_THAT(BytesOf(reader.joiner().packets()), ElementsAre("good"));
}

// Shows that the reader frees chunks behind a running writer; says nothing of
// the races for one chunk, which need a writer that reuses chunks.
TEST(ReferenceReaderTest, KeepsUpWithAThreadThatPublishes) {
  constexpr int kPackets = 20'000;
  RingImage image = RingImage::InPlainMemory({});
  image.Seed(0xffff'ff00, 0xffff'ff00);
  std::thread writer([&image] {
    for (int i = 0; i < kPackets; ++i) {
      while (image.write_pos() - image.read_pos() >= kShape.num_chunks) {
        std::this_thread::yield();
      }
      image.Publish(Forged(1, {std::to_string(i)}));
    }
  });
  ReferenceReader reader(image.base(), kShape);
  while (reader.joiner().packets().size() < kPackets &&
         reader.violations().empty()) {
    reader.Drain();
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_THAT(reader.violations(), IsEmpty());
  EXPECT_EQ(reader.num_holes(), 0u);
  ASSERT_THAT(reader.joiner().packets(), SizeIs(kPackets));
  for (int i = 0; i < kPackets; ++i) {
    ASSERT_EQ(reader.joiner().packets()[i].bytes, std::to_string(i));
  }
}

}  // namespace
}  // namespace tracering::test
