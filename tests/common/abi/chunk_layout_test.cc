// Bytes inside a chunk: capacities, the directory that grows down from the
// end, and the worked example of three fragments compared byte for byte.
//
// Expected bytes are literals; nothing here is computed with the functions
// under test.
#include "src/common/abi/chunk_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace tracering::abi {
namespace {

TEST(ChunkLayoutTest, HeaderIsStateWordThenBufferId) {
  EXPECT_EQ(kStateWordOffset, 0u);
  EXPECT_EQ(kTargetBufferIdOffset, 4u);
  EXPECT_EQ(kPayloadStart, 6u);
}

TEST(ChunkLayoutTest, PayloadCapacityIsWhatTheHeaderLeaves) {
  EXPECT_EQ(PayloadCapacity(256), 250u);
  EXPECT_EQ(PayloadCapacity(512), 506u);
  EXPECT_EQ(PayloadCapacity(32768), 32762u);
}

TEST(ChunkLayoutTest, EntryWidthHoldsEveryFragmentSize) {
  EXPECT_LE(PayloadCapacity(256), 0xffu);
  EXPECT_GT(PayloadCapacity(512), 0xffu);
  EXPECT_LE(PayloadCapacity(32768), 0xffffu);
}

TEST(ChunkLayoutTest, DirectoryBoundsTheFragmentsOfSmallChunks) {
  EXPECT_EQ(MaxFragments(Geometry(2, 256)), 250u);
  EXPECT_EQ(MaxFragments(Geometry(2, 512)), 253u);
  EXPECT_EQ(MaxFragments(Geometry(2, 1024)), 255u);
  EXPECT_EQ(MaxFragments(Geometry(2, 32768)), 255u);
}

TEST(ChunkLayoutTest, LargestFragmentLeavesRoomForItsOwnEntry) {
  EXPECT_EQ(MaxFragmentSize(Geometry(2, 256)), 249u);
  EXPECT_EQ(MaxFragmentSize(Geometry(2, 512)), 504u);
  EXPECT_EQ(MaxFragmentSize(Geometry(2, 4096)), 4088u);
  EXPECT_EQ(MaxFragmentSize(Geometry(2, 32768)), 32760u);
}

TEST(ChunkLayoutTest, EntriesGrowDownFromTheEnd) {
  constexpr Geometry kNarrow(2, 256);
  EXPECT_EQ(DirEntryOffset(kNarrow, 0), 255u);
  EXPECT_EQ(DirEntryOffset(kNarrow, 1), 254u);
  EXPECT_EQ(DirEntryOffset(kNarrow, 2), 253u);
  constexpr Geometry kWide(2, 512);
  EXPECT_EQ(DirEntryOffset(kWide, 0), 510u);
  EXPECT_EQ(DirEntryOffset(kWide, 1), 508u);
  EXPECT_EQ(DirEntryOffset(kWide, 2), 506u);
}

TEST(ChunkLayoutTest, LastPossibleEntryStaysAboveTheHeader) {
  EXPECT_EQ(DirEntryOffset(Geometry(2, 256), 249), 6u);
  EXPECT_EQ(DirEntryOffset(Geometry(2, 512), 252), 6u);
  EXPECT_EQ(DirEntryOffset(Geometry(2, 1024), 254), 514u);
}

TEST(ChunkLayoutTest, NarrowEntryIsOneByte) {
  std::array<uint8_t, 3> bytes = {0xee, 0xee, 0xee};
  StoreDirEntry(&bytes[1], 1, 0xc8);
  EXPECT_EQ(bytes, (std::array<uint8_t, 3>{0xee, 0xc8, 0xee}));
  EXPECT_EQ(LoadDirEntry(&bytes[1], 1), 200u);
}

TEST(ChunkLayoutTest, WideEntryIsTwoBytesLittleEndian) {
  std::array<uint8_t, 4> bytes = {0xee, 0xee, 0xee, 0xee};
  StoreDirEntry(&bytes[1], 2, 0x7ff8);
  EXPECT_EQ(bytes, (std::array<uint8_t, 4>{0xee, 0xf8, 0x7f, 0xee}));
  EXPECT_EQ(LoadDirEntry(&bytes[1], 2), 32760u);
  EXPECT_EQ(LoadDirEntry(&bytes[2], 2), 0xee7fu);
}

TEST(ChunkLayoutTest, BufferIdIsLittleEndianInBytesFourAndFive) {
  std::array<uint8_t, 8> bytes = {0, 1, 2, 3, 4, 5, 6, 7};
  StoreBufferId(bytes.data(), BufferId(0xabcd));
  EXPECT_EQ(bytes, (std::array<uint8_t, 8>{0, 1, 2, 3, 0xcd, 0xab, 6, 7}));
  EXPECT_EQ(LoadBufferId(bytes.data()), BufferId(0xabcd));
}

// byte: 0   3 4   5 6    10 11   210 211 213 214   252 253 255
//       state  bid   frag 0   frag 1   frag 2   free    sizes
TEST(ChunkLayoutTest, FragmentsOf5And200And3BytesLieAsInTheWorkedExample) {
  constexpr Geometry kGeometry(2, 256);
  const uint32_t sizes[] = {5, 200, 3};

  std::vector<uint8_t> chunk(256, 0);
  const uint32_t word = MakeDataWord(State::kComplete, WriterId(0x0102), 3, 0);
  for (int i = 0; i < 4; ++i) {
    chunk[kStateWordOffset + i] = static_cast<uint8_t>(word >> (8 * i));
  }
  StoreBufferId(chunk.data(), BufferId(0x0304));
  uint32_t payload_cursor = kPayloadStart;
  uint32_t dir_cursor = kGeometry.chunk_size();
  for (uint32_t i = 0; i < 3; ++i) {
    std::memset(&chunk[payload_cursor], static_cast<int>(0xf0 + i), sizes[i]);
    dir_cursor = DirEntryOffset(kGeometry, i);
    StoreDirEntry(&chunk[dir_cursor], kGeometry.dir_entry_size(), sizes[i]);
    payload_cursor += sizes[i];
  }
  EXPECT_EQ(payload_cursor, 214u);
  EXPECT_EQ(dir_cursor, 253u);
  EXPECT_EQ(dir_cursor - payload_cursor, 39u);

  std::vector<uint8_t> expected = {0x02, 0x01, 0x03, 0x40, 0x04, 0x03};
  expected.insert(expected.end(), 5, 0xf0);    // bytes 6 to 10
  expected.insert(expected.end(), 200, 0xf1);  // bytes 11 to 210
  expected.insert(expected.end(), 3, 0xf2);    // bytes 211 to 213
  expected.insert(expected.end(), 39, 0x00);   // bytes 214 to 252
  expected.insert(expected.end(), {0x03, 0xc8, 0x05});
  ASSERT_EQ(expected.size(), 256u);
  EXPECT_EQ(expected[255], 0x05);
  EXPECT_EQ(expected[254], 0xc8);
  EXPECT_EQ(expected[253], 0x03);
  EXPECT_EQ(chunk, expected);
}

TEST(ChunkLayoutTest, ZeroFilledChunkIsFreeAndEmpty) {
  const std::vector<uint8_t> chunk(256, 0);
  EXPECT_EQ(LoadBufferId(chunk.data()), BufferId(0));
  EXPECT_EQ(LoadDirEntry(&chunk[255], 1), 0u);
}

}  // namespace
}  // namespace tracering::abi
