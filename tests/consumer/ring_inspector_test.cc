// Rings that are looked at from outside: sound ones in every state, broken
// ones, files that are no rings, and what is saved of them.
#include "tracering/ring_inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "src/common/abi/state_word.h"
#include "tests/consumer/fed_ring.h"
#include "tests/support/accounting.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_file_checker.h"

namespace tracering {
namespace {

using test::FedRing;
using test::ForgedChunk;
using test::RingImage;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kFlags = abi::kFlagContinuesOnNext | abi::kFlagDataLoss;

RingInspector Inspect(const RingImage& image) {
  absl::StatusOr<RingInspector> inspector =
      RingInspector::FromImage(image.Snapshot());
  EXPECT_TRUE(inspector.ok()) << inspector.status();
  return *std::move(inspector);
}

ForgedChunk Chunk(uint16_t writer, std::vector<std::string> fragments,
                  uint32_t flags = 0) {
  ForgedChunk chunk;
  chunk.writer = writer;
  chunk.buffer = 7;
  chunk.flags = flags;
  chunk.fragments = std::move(fragments);
  return chunk;
}

class RingInspectorTest : public ::testing::Test {
 protected:
  // Salvages to a file that is good, and returns what is known of it.
  TraceFileInfo Salvage(const std::vector<const RingInspector*>& rings) {
    const absl::StatusOr<TraceFileInfo> info =
        SalvageRings(rings, directory_.Path("out"));
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return {};
    EXPECT_THAT(test::CheckTraceFile(info->path), IsEmpty());
    return *info;
  }
  std::string ErrorFor(const std::string& path) {
    const absl::StatusOr<RingInspector> inspector = RingInspector::Open(path);
    EXPECT_FALSE(inspector.ok());
    const std::string error(inspector.status().message());
    EXPECT_THAT(error, HasSubstr(path));
    return error;
  }
  std::string Write(const std::string& bytes) {
    const std::string path = directory_.Path("file");
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  const test::TempDir directory_;
};

TEST_F(RingInspectorTest, EveryStateIsTold) {
  // Next to the roll-over of positions.
  RingImage image = RingImage::InPlainMemory({8, 256, 0xffff'fffe, true});
  image.Publish(Chunk(1, {"abc", ""}, kFlags));
  image.Publish(Chunk(2, {"x"}, abi::kFlagContinuesFromPrevious));
  image.PutChunk(0, abi::State::kAcquired, Chunk(3, {"12345"}));
  image.PutChunk(1, abi::State::kRewriteRequested, Chunk(4, {"y"}));
  image.set_state_word(2, abi::kAcknowledgedWord);
  image.set_write_pos(3);
  const RingInspector inspector = Inspect(image);
  const InspectedRing& ring = inspector.contents();
  EXPECT_EQ(ring.num_chunks, 8u);
  EXPECT_EQ(ring.chunk_size, 256u);
  EXPECT_EQ(ring.producer_pid, getpid());
  EXPECT_EQ(ring.read_pos, 0xffff'fffe);
  EXPECT_EQ(ring.outstanding(), 5u);
  EXPECT_THAT(ring.problems, IsEmpty());
  ASSERT_THAT(ring.chunks, SizeIs(8));

  const InspectedChunk& complete = ring.chunks[6];
  EXPECT_EQ(complete.state, ChunkState::kComplete);
  EXPECT_TRUE(complete.outstanding);
  EXPECT_EQ(complete.position, 0xffff'fffe);
  EXPECT_EQ(complete.writer, WriterId(1));
  EXPECT_EQ(complete.buffer, BufferId(7));
  EXPECT_EQ(complete.num_fragments, 2u);
  EXPECT_EQ(complete.payload_size, 3u);
  EXPECT_TRUE(complete.continues_on_next);
  EXPECT_TRUE(complete.data_loss);
  EXPECT_FALSE(complete.continues_from_previous);
  EXPECT_TRUE(ring.chunks[7].continues_from_previous);
  EXPECT_EQ(ring.chunks[0].state, ChunkState::kAcquired);
  EXPECT_EQ(ring.chunks[0].payload_size, 5u);
  EXPECT_EQ(ring.chunks[1].state, ChunkState::kRewriteRequested);
  EXPECT_EQ(ring.chunks[2].state, ChunkState::kAcknowledged);
  EXPECT_EQ(ring.chunks[2].position, 2u);
  EXPECT_EQ(ring.chunks[3].state, ChunkState::kFree);
  EXPECT_FALSE(ring.chunks[3].outstanding);
}

TEST_F(RingInspectorTest, WhatNoSoundRingHasIsAProblem) {
  RingImage image = RingImage::InPlainMemory({8, 256, 0, true});
  image.set_write_pos(8);
  image.set_state_word(0, 0xa000'0000);
  image.set_state_word(1, abi::kAcknowledgedWord | 1);
  image.set_state_word(2, abi::FreeForWrap(abi::WrapCount(5)));
  image.PutChunk(3, abi::State::kComplete, Chunk(0, {"no writer"}));
  image.PutChunk(4, abi::State::kComplete, Chunk(1, {}));
  image.PutChunk(5, abi::State::kComplete, Chunk(1, {std::string(240, 'x')}));
  image.chunk(5)[255] = 250;  // its size: there is no room for that much
  image.set_state_word(6, abi::MakeDataWord(abi::State::kComplete, WriterId(1),
                                            1, 0, abi::Format::kPacketRouting));
  const RingInspector inspector = Inspect(image);
  const std::vector<InspectedChunk>& chunks = inspector.contents().chunks;
  EXPECT_EQ(chunks[0].problem, "no state");
  EXPECT_EQ(chunks[0].state, ChunkState::kReserved);
  EXPECT_EQ(chunks[1].problem, "bits below the state");
  EXPECT_EQ(chunks[2].problem, "free for a wrap that is not due");
  EXPECT_EQ(chunks[3].problem, "no writer");
  EXPECT_EQ(chunks[4].problem, "complete without a fragment");
  EXPECT_EQ(chunks[5].problem, "fragments larger than the chunk");
  EXPECT_EQ(chunks[6].problem, "unknown format");
  EXPECT_EQ(chunks[7].problem, "");
  EXPECT_THAT(inspector.contents().problems, SizeIs(7));

  image.set_write_pos(9);
  EXPECT_THAT(Inspect(image).contents().problems.front(),
              HasSubstr("9 positions"));
}

TEST_F(RingInspectorTest, PublishedPacketsAreSaved) {
  FedRing one;
  FedRing other({64, 256, 0xffff'fff0, true});
  for (int i = 0; i < 40; ++i) one.Publish(1, 5);
  for (int i = 0; i < 20; ++i) other.Publish(9, 1, 3);
  const RingInspector first = Inspect(one.image());
  const RingInspector second = Inspect(other.image());
  const TraceFileInfo info = Salvage({&first, &second});
  EXPECT_EQ(info.packets, 220u);
  EXPECT_EQ(info.lost.total(), 0u);
  test::Accounting accounting;
  accounting.Add(test::ReadTraceFile(info.path).packets);
  accounting.ExpectTotal(220, 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(test::ReadTraceFile(info.path).packets[1].trusted_pid(), getpid());
  // The ring itself is as it was.
  EXPECT_EQ(one.image().read_pos(), 0u);
}

TEST_F(RingInspectorTest, WhatStandsBeforeABrokenWordIsSaved) {
  FedRing fed;
  for (int i = 0; i < 40; ++i) fed.Publish(1, 5);
  fed.image().set_state_word(20, 0xffff'ffff);
  const RingInspector inspector = Inspect(fed.image());
  EXPECT_EQ(Salvage({&inspector}).packets, 100u);
}

// Random words in a good header, and random headers.
TEST_F(RingInspectorTest, HostileImagesAreHarmless) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    FedRing fed({16, 256, 0, true});
    for (int i = 0; i < 10; ++i) fed.Publish(1, 1);
    std::string image = fed.image().Snapshot();
    const size_t changes = 1 + random() % 64;
    for (size_t i = 0; i < changes; ++i) {
      image[random() % image.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<RingInspector> inspector =
        RingInspector::FromImage(image);
    if (!inspector.ok()) continue;
    // What packets say is the writer's business; the file is one all the same.
    const absl::StatusOr<TraceFileInfo> info =
        SalvageRings({&*inspector}, directory_.Path("out"));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(test::ReadTraceFile(info->path).cut_bytes, 0u);
  }
}

TEST_F(RingInspectorTest, FilesThatAreNoRingsAreNamed) {
  EXPECT_THAT(ErrorFor(directory_.Path("nothing")), HasSubstr("cannot open"));
  EXPECT_THAT(ErrorFor(directory_.path()), HasSubstr("no file"));
  EXPECT_THAT(ErrorFor("/dev/zero"), HasSubstr("no file"));
  ASSERT_EQ(mkfifo(directory_.Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(ErrorFor(directory_.Path("fifo")), HasSubstr("no file"));
  EXPECT_THAT(ErrorFor(Write("short")), HasSubstr("5 bytes"));
  EXPECT_THAT(ErrorFor(Write(std::string(4096, 'x'))), HasSubstr("0x78787878"));
  RingImage image = RingImage::InPlainMemory({8, 256, 0, true});
  const std::string whole = image.Snapshot();
  EXPECT_THAT(ErrorFor(Write(whole.substr(0, whole.size() - 1))),
              HasSubstr("cut off"));
  EXPECT_TRUE(RingInspector::Open(Write(whole + "padding")).ok());
  image.SetWord32(abi::kNumChunksOffset, 7);
  EXPECT_THAT(ErrorFor(Write(image.Snapshot())), HasSubstr("7 chunks"));
  image.SetWord32(abi::kNumChunksOffset, 1 << 30);
  image.SetWord32(abi::kChunkSizeOffset, 32768);
  EXPECT_THAT(ErrorFor(Write(image.Snapshot())), HasSubstr("at most"));
  image.SetWord32(abi::kAbiVersionOffset, 2);
  EXPECT_THAT(ErrorFor(Write(image.Snapshot())), HasSubstr("version 2"));
}

}  // namespace
}  // namespace tracering
