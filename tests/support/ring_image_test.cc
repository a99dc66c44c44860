// The images that other tests start from must be legal empty rings wherever
// their cursors are, and their memfds must pass an attach check.
#include "tests/support/ring_image.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/common/abi/control_header.h"

namespace tracering::test {
namespace {

TEST(RingImageTest, StartsAsZeroFilledChunks) {
  const RingImage image = RingImage::InPlainMemory({});
  EXPECT_EQ(image.read_pos(), 0u);
  EXPECT_EQ(image.write_pos(), 0u);
  const std::string bytes = image.Snapshot();
  ASSERT_EQ(bytes.size(), 256u + 4 * 256u);
  EXPECT_EQ(bytes.find_first_not_of('\0', 256), std::string::npos);
}

TEST(RingImageTest, WithoutIdentityEveryByteIsZero) {
  RingImageOptions options;
  options.with_identity = false;
  const RingImage image = RingImage::InPlainMemory(options);
  EXPECT_EQ(image.Snapshot().find_first_not_of('\0'), std::string::npos);
}

TEST(RingImageTest, IdentityNamesTheGeometry) {
  RingImageOptions options;
  options.num_chunks = 8;
  options.chunk_size = 512;
  const RingImage image = RingImage::InPlainMemory(options);
  EXPECT_EQ(image.Snapshot().substr(16, 4), "TRNG");
  EXPECT_EQ(image.Word32(20), 1u);
  EXPECT_EQ(image.Word32(24), 8u);
  EXPECT_EQ(image.Word32(28), 512u);
  EXPECT_EQ(image.Word32(32), static_cast<uint32_t>(getpid()));
}

TEST(RingImageTest, SeedingTagsEachChunkForTheNextPositionThatMapsToIt) {
  RingImage image = RingImage::InPlainMemory({});
  // Positions 0xfffffffe, 0xffffffff, 0, 1 come next, on chunks 2, 3, 0, 1.
  image.Seed(0xffff'fffe, 0xffff'fffe);
  EXPECT_EQ(image.state_word(2), 0x1fff'ffffu);
  EXPECT_EQ(image.state_word(3), 0x1fff'ffffu);
  EXPECT_EQ(image.state_word(0), 0u);
  EXPECT_EQ(image.state_word(1), 0u);
}

TEST(RingImageTest, SeedingCrossesThe29BitRollOver) {
  RingImageOptions options;
  options.num_chunks = 2;
  options.position = 0x3fff'ffff;
  const RingImage image = RingImage::InPlainMemory(options);
  EXPECT_EQ(image.state_word(1), 0x1fff'ffffu);  // position 0x3fffffff
  EXPECT_EQ(image.state_word(0), 0u);            // position 0x40000000
}

TEST(RingImageTest, SeedingAheadLeavesReservedPositions) {
  RingImage image = RingImage::InPlainMemory({});
  image.Seed(6, 9);
  EXPECT_EQ(image.read_pos(), 6u);
  EXPECT_EQ(image.write_pos(), 9u);
  EXPECT_EQ(image.state_word(2), 1u);  // position 6
  EXPECT_EQ(image.state_word(3), 1u);  // position 7
  EXPECT_EQ(image.state_word(0), 2u);  // position 8
  EXPECT_EQ(image.state_word(1), 2u);  // position 9
}

TEST(RingImageTest, PublishedChunkLiesAsInTheWorkedExample) {
  RingImage image = RingImage::InPlainMemory({});
  ForgedChunk forged;
  forged.writer = 0x0102;
  forged.buffer = 0x0304;
  forged.fragments = {std::string(5, 'a'), std::string(200, 'b'), "ccc"};
  EXPECT_EQ(image.Publish(forged), 0u);
  EXPECT_EQ(image.write_pos(), 1u);

  std::string expected("\x02\x01\x03\x40\x04\x03", 6);
  expected += std::string(5, 'a') + std::string(200, 'b') + "ccc";
  expected += std::string(39, '\0') + "\x03\xc8\x05";
  EXPECT_EQ(image.Snapshot().substr(256, 256), expected);
}

TEST(RingImageTest, MemfdHasExactlyTheRingsSizeAndItsSeals) {
  const RingImage image = RingImage::InMemfd({});
  struct stat status = {};
  ASSERT_EQ(fstat(image.fd(), &status), 0);
  EXPECT_EQ(static_cast<size_t>(status.st_size), image.size());
  EXPECT_EQ(fcntl(image.fd(), F_GET_SEALS),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(ftruncate(image.fd(), 0), -1);
}

TEST(RingImageTest, MemfdCanBeLeftUnsealed) {
  const RingImage image = RingImage::InMemfd({}, 0);
  EXPECT_EQ(fcntl(image.fd(), F_GET_SEALS), 0);
}

TEST(RingImageTest, OtherMappingsOfTheMemfdSeeTheSameWords) {
  RingImage image = RingImage::InMemfd({});
  const int copy = image.DupFd();
  EXPECT_NE(fcntl(copy, F_GETFD) & FD_CLOEXEC, 0);
  void* other = mmap(nullptr, image.size(), PROT_READ, MAP_SHARED, copy, 0);
  ASSERT_NE(other, MAP_FAILED);
  close(copy);
  image.set_read_pos(0x1234'5678);
  EXPECT_EQ(*static_cast<const uint32_t*>(other), 0x1234'5678u);
  munmap(other, image.size());
}

TEST(RingImageTest, WriterLossIsTheSumOfTheCauses) {
  RingImage image = RingImage::InPlainMemory({});
  EXPECT_EQ(image.WriterLoss(), 0u);
  image.SetWord64(192, 5);
  image.SetWord64(192 + 7 * 8, uint64_t{1} << 40);
  EXPECT_EQ(image.WriterLoss(), (uint64_t{1} << 40) + 5);
}

}  // namespace
}  // namespace tracering::test
