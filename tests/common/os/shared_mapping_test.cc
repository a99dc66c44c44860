// Sharing memory, and cutting a forked child off it.
#include "src/common/os/shared_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/common/os/memfd.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

constexpr size_t kMapped = 256 + 2 * 4096;  // three pages, not all of the last

SharedMapping MapOrDie(const UniqueFd& fd) {
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(fd.get(), kMapped);
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return *std::move(mapping);
}

char* Bytes(const SharedMapping& mapping) {
  return static_cast<char*>(mapping.data());
}

bool IsMapped(void* address) {
  unsigned char resident = 0;
  return mincore(address, 1, &resident) == 0;
}

TEST(SharedMappingTest, TwoMappingsOfOneFileShareItsBytes) {
  UniqueFd fd = MakeMemory(kMapped);
  const SharedMapping first = MapOrDie(fd);
  const SharedMapping second = MapOrDie(fd);
  fd.reset();
  EXPECT_EQ(first.size(), kMapped);
  EXPECT_NE(first.data(), second.data());
  Bytes(first)[kMapped - 1] = 'x';
  EXPECT_EQ(Bytes(second)[kMapped - 1], 'x');
}

TEST(SharedMappingTest, UnmapsAtItsEndAndWhenAssignedTo) {
  const UniqueFd fd = MakeMemory(kMapped);
  void* first = nullptr;
  void* second = nullptr;
  {
    SharedMapping mapping = MapOrDie(fd);
    first = mapping.data();
    SharedMapping other = MapOrDie(fd);
    second = other.data();
    mapping = std::move(other);
    EXPECT_FALSE(IsMapped(first));
    EXPECT_EQ(mapping.data(), second);
    EXPECT_EQ(other.data(), nullptr);
    EXPECT_EQ(other.size(), 0u);
    const SharedMapping moved = std::move(mapping);
    EXPECT_EQ(mapping.data(), nullptr);
    EXPECT_TRUE(IsMapped(second));
  }
  EXPECT_FALSE(IsMapped(second));
}

TEST(SharedMappingTest, FailureNamesTheSize) {
  EXPECT_THAT(SharedMapping::Map(-1, kMapped).status(),
              ErrorSays(std::to_string(kMapped)));
  const UniqueFd fd = MakeMemory(kMapped);
  EXPECT_THAT(SharedMapping::Map(fd.get(), 0).status(), ErrorSays("0 bytes"));
}

TEST(ReplaceWithPrivateZeroesTest, CutsAForkedChildOffTheSharedMemory) {
  const UniqueFd fd = MakeMemory(kMapped);
  SharedMapping mapping = MapOrDie(fd);
  std::memset(mapping.data(), 'p', kMapped);
  test::ChildProcess child = test::ChildProcess::Fork([&mapping] {
    errno = ENOSPC;
    if (!ReplaceWithPrivateZeroes(mapping.data(), kMapped)) return 1;
    if (errno != ENOSPC) return 2;
    for (size_t i = 0; i < kMapped; ++i) {
      if (Bytes(mapping)[i] != 0) return 3;
    }
    std::memset(mapping.data(), 'c', kMapped);
    void* const base = mapping.data();
    mapping = SharedMapping();
    return IsMapped(base) ? 4 : 0;
  });
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
  for (size_t i = 0; i < kMapped; ++i) ASSERT_EQ(Bytes(mapping)[i], 'p');
}

TEST(ReplaceWithPrivateZeroesTest, RefusalIsReportedAndKeepsErrno) {
  const UniqueFd fd = MakeMemory(kMapped);
  const SharedMapping mapping = MapOrDie(fd);
  Bytes(mapping)[0] = 'p';
  errno = ENOSPC;
  EXPECT_FALSE(ReplaceWithPrivateZeroes(Bytes(mapping) + 1, kMapped));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(Bytes(mapping)[0], 'p');
}

}  // namespace
}  // namespace tracering::os
