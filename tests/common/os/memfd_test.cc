// Making sealed memory, and refusing whatever else a peer may pass off as it.
#include "src/common/os/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "src/common/os/available_memory.h"
#include "src/common/os/shared_mapping.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/signal_storm.h"

namespace tracering::os {
namespace {

constexpr size_t kSize = 256 + 16 * 4096;  // not a multiple of a page
constexpr size_t kTebibyte = size_t{1} << 40;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What a peer may send: a memory file of any size, with any seals.
UniqueFd MakeMemfd(size_t size, int seals, unsigned extra_flags = 0) {
  UniqueFd fd(
      memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags));
  test::Require(fd.valid(), "memfd_create");
  test::Require(ftruncate(fd.get(), static_cast<off_t>(size)) == 0,
                "ftruncate");
  test::Require(seals == 0 || fcntl(fd.get(), F_ADD_SEALS, seals) == 0,
                "F_ADD_SEALS");
  return fd;
}

UniqueFd MakeSealedMemory(size_t size = kSize) {
  absl::StatusOr<UniqueFd> fd = CreateSealedMemory("test", size);
  EXPECT_TRUE(fd.ok()) << fd.status();
  return *std::move(fd);
}

std::string LinkOf(int fd) {
  char target[512] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  test::Require(readlink(path.c_str(), target, sizeof(target) - 1) > 0,
                "readlink");
  return target;
}

TEST(CreateFileMemoryTest, RegularFilesAreReplacedAndNothingElse) {
  const TempDir directory;
  const std::string path = directory.Path("memory");
  for (int round = 0; round < 2; ++round) {
    const absl::StatusOr<UniqueFd> fd = CreateFileMemory(path, kSize);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_TRUE(IsCloseOnExec(fd->get()));
    struct stat file {};
    ASSERT_EQ(fstat(fd->get(), &file), 0);
    EXPECT_EQ(file.st_size, off_t{kSize});
    EXPECT_EQ(file.st_mode & 0777, 0600u);
    EXPECT_GE(file.st_blocks * 512, off_t{kSize});
    absl::StatusOr<SharedMapping> mapping =
        SharedMapping::Map(fd->get(), kSize);
    ASSERT_TRUE(mapping.ok());
    // Zero again in the second round: it is another file.
    auto* const byte = static_cast<uint8_t*>(mapping->data());
    EXPECT_EQ(*byte, 0);
    *byte = 7;
    // Never to be taken for what a service may map.
    EXPECT_FALSE(CheckSealedMemory(fd->get(), kSize).ok());
  }
  ASSERT_EQ(symlink(path.c_str(), directory.Path("link").c_str()), 0);
  for (const std::string& name :
       {directory.Path("link"), directory.path(), directory.Path("no/dir")}) {
    const absl::StatusOr<UniqueFd> fd = CreateFileMemory(name, kSize);
    ASSERT_FALSE(fd.ok());
    EXPECT_NE(std::string(fd.status().message()).find(name), std::string::npos);
  }
  EXPECT_FALSE(CreateFileMemory(directory.Path("huge"), kTebibyte).ok());
  EXPECT_NE(access(directory.Path("huge").c_str(), F_OK), 0);
}

TEST(CreateSealedMemoryTest, MemoryIsZeroedWholeAndSealed) {
  const UniqueFd fd = MakeSealedMemory();
  EXPECT_TRUE(IsCloseOnExec(fd.get()));
  EXPECT_EQ(fcntl(fd.get(), F_GET_SEALS) & kAllSeals, kAllSeals);
  EXPECT_GE(AllocatedBytes(fd.get()), kSize);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_END), static_cast<off_t>(kSize));
  EXPECT_EQ(ftruncate(fd.get(), kSize - 1), -1);
  EXPECT_EQ(ftruncate(fd.get(), kSize + 1), -1);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  std::vector<char> content(kSize, 'x');
  ASSERT_EQ(pread(fd.get(), content.data(), kSize, 0),
            static_cast<ssize_t>(kSize));
  EXPECT_EQ(content, std::vector<char>(kSize, 0));
}

TEST(CreateSealedMemoryTest, PassesTheCheckOfTheOtherSide) {
  const UniqueFd fd = MakeSealedMemory();
  EXPECT_TRUE(CheckSealedMemory(fd.get(), kSize).ok());
}

TEST(CreateSealedMemoryTest, NameIsShownAndCutOffAtTheKernelsLimit) {
  absl::StatusOr<UniqueFd> named = CreateSealedMemory("ring:main", 1);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(LinkOf(named->get()), testing::HasSubstr("ring:main"));
  const std::string long_name(300, 'n');
  absl::StatusOr<UniqueFd> cut = CreateSealedMemory(long_name.c_str(), 1);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(LinkOf(cut->get()), testing::HasSubstr(std::string(249, 'n')));
}

TEST(CreateSealedMemoryTest, ImpossibleSizesAreErrorsThatNameThem) {
  const size_t before = CountOpenFds();
  EXPECT_THAT(CreateSealedMemory("test", 0).status(), ErrorSays("0 bytes"));
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  EXPECT_THAT(CreateSealedMemory("test", kMax).status(),
              ErrorSays(std::to_string(kMax)));
  EXPECT_EQ(CountOpenFds(), before);
}

// Without a look at what there is, the kernel hands out page after page until
// the OOM killer ends somebody.
TEST(CreateSealedMemoryTest, MoreThanTheMachineHasIsAnErrorThatNamesTheSize) {
  const uint64_t available = AvailableMemory();
  ASSERT_LT(available, 1024 * kTebibyte);
  const size_t size = available + (size_t{16} << 30);
  const size_t before = CountOpenFds();
  const absl::Status status = CreateSealedMemory("test", size).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, ErrorSays(std::to_string(size)));
  EXPECT_EQ(CountOpenFds(), before);
}

// The default action of SIGXFSZ would end this test.
TEST(CreateSealedMemoryTest, FileSizeLimitIsAnErrorAndNoSignal) {
  const ScopedLimit limit(RLIMIT_FSIZE, 64 * 1024);
  const absl::Status status = CreateSealedMemory("test", 1 << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, ErrorSays("RLIMIT_FSIZE"));
  EXPECT_THAT(status, ErrorSays("1048576"));
  EXPECT_TRUE(CreateSealedMemory("test", 64 * 1024).ok());
}

// Before Linux 6.9 a signal undoes the call that it interrupts: in one call,
// this allocation would never come to an end there.
TEST(CreateSealedMemoryTest, StormOfSignalsDoesNotKeepItFromFinishing) {
  const test::SignalStorm storm(std::chrono::microseconds(100));
  const absl::StatusOr<UniqueFd> fd = CreateSealedMemory("test", 64 << 20);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_GE(AllocatedBytes(fd->get()), size_t{64} << 20);
  EXPECT_GT(storm.signals(), 0);
}

TEST(CheckSealedMemoryTest, WhatIsNoMemoryFileIsRefused) {
  const TempDir dir;
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const UniqueFd pipe_read(pipe_fds[0]);
  const UniqueFd pipe_write(pipe_fds[1]);
  const auto [socket, peer] = SocketPair();
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd file(
      open(dir.Path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), kSize), 0);
  const UniqueFd path_only(open(dir.Path("file").c_str(), O_PATH | O_CLOEXEC));
  for (int fd : {pipe_read.get(), pipe_write.get(), socket.get(), event.get(),
                 null.get(), directory.get(), file.get(), path_only.get(), -1,
                 1 << 20}) {
    EXPECT_THAT(CheckSealedMemory(fd, kSize), ErrorSays("must be a sealed"))
        << fd;
  }
}

TEST(CheckSealedMemoryTest, RegularFileOnTmpfsIsRefused) {
  const UniqueFd file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid()) GTEST_SKIP() << "no tmpfs on /dev/shm";
  ASSERT_EQ(ftruncate(file.get(), kSize), 0);
  EXPECT_FALSE(CheckSealedMemory(file.get(), kSize).ok());
  EXPECT_EQ(AllocatedBytes(file.get()), 0u);
}

TEST(CheckSealedMemoryTest, SparseFileOf1TiBIsRefusedAndNotAllocated) {
  const TempDir dir;
  const UniqueFd file(
      open(dir.Path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), kTebibyte), 0);
  EXPECT_FALSE(CheckSealedMemory(file.get(), kTebibyte).ok());
  EXPECT_EQ(AllocatedBytes(file.get()), 0u);

  const UniqueFd unsealed = MakeMemfd(kTebibyte, 0);
  EXPECT_FALSE(CheckSealedMemory(unsealed.get(), kTebibyte).ok());
  EXPECT_EQ(AllocatedBytes(unsealed.get()), 0u);

  const UniqueFd sealed = MakeMemfd(kTebibyte, kAllSeals);
  EXPECT_THAT(CheckSealedMemory(sealed.get(), kSize),
              ErrorSays(std::to_string(kTebibyte)));
  EXPECT_EQ(AllocatedBytes(sealed.get()), 0u);

  // Also by somebody who expects that size.
  EXPECT_THAT(CheckSealedMemory(sealed.get(), kTebibyte),
              ErrorSays("allocated in full"));
  EXPECT_EQ(AllocatedBytes(sealed.get()), 0u);
}

TEST(CheckSealedMemoryTest, AnyMissingSealIsRefused) {
  for (int seals :
       {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_GROW,
        F_SEAL_SHRINK | F_SEAL_SEAL, F_SEAL_GROW | F_SEAL_SEAL}) {
    const UniqueFd fd = MakeMemfd(kSize, seals);
    EXPECT_THAT(CheckSealedMemory(fd.get(), kSize), ErrorSays("seals are"))
        << seals;
    EXPECT_EQ(AllocatedBytes(fd.get()), 0u);
  }
}

TEST(CheckSealedMemoryTest, SealAgainstWritingIsRefused) {
  for (int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    const UniqueFd fd = MakeMemfd(kSize, kAllSeals | seal);
    EXPECT_THAT(CheckSealedMemory(fd.get(), kSize), ErrorSays("writing"));
  }
}

TEST(CheckSealedMemoryTest, AnyOtherSizeIsRefusedAndNamed) {
  for (size_t size : {size_t{0}, size_t{1}, kSize - 1, kSize + 1, 2 * kSize}) {
    const UniqueFd fd = MakeMemfd(size, kAllSeals);
    const absl::Status status = CheckSealedMemory(fd.get(), kSize);
    EXPECT_THAT(status, ErrorSays(std::to_string(kSize)));
    EXPECT_THAT(status, ErrorSays("it has " + std::to_string(size)));
    EXPECT_EQ(AllocatedBytes(fd.get()), 0u);
  }
}

TEST(CheckSealedMemoryTest, DescriptorThatCannotWriteIsRefused) {
  const UniqueFd fd = MakeSealedMemory();
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const UniqueFd read_only(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_THAT(CheckSealedMemory(read_only.get(), kSize),
              ErrorSays("reading and writing"));
}

TEST(CheckSealedMemoryTest, HugePagesAreRefused) {
  const UniqueFd fd(
      memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  constexpr size_t kHugePage = 2 << 20;
  if (!fd.valid() || ftruncate(fd.get(), kHugePage) != 0) {
    GTEST_SKIP() << "this kernel has no hugetlbfs";
  }
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kAllSeals), 0);
  EXPECT_THAT(CheckSealedMemory(fd.get(), kHugePage), ErrorSays("tmpfs"));
}

TEST(CheckSealedMemoryTest, AnyHoleIsRefusedAndNotFilled) {
  const UniqueFd fd = MakeSealedMemory();
  ASSERT_TRUE(CheckSealedMemory(fd.get(), kSize).ok());
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      4096, 4096),
            0);
  const size_t allocated = AllocatedBytes(fd.get());
  EXPECT_THAT(CheckSealedMemory(fd.get(), kSize),
              ErrorSays("allocated in full"));
  EXPECT_EQ(AllocatedBytes(fd.get()), allocated);
}

TEST(CheckSealedMemoryTest, HolesPunchedLaterReadAsZero) {
  const UniqueFd fd = MakeSealedMemory();
  ASSERT_TRUE(CheckSealedMemory(fd.get(), kSize).ok());
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(fd.get(), kSize);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  auto* bytes = static_cast<char*>(mapping->data());
  std::fill(bytes, bytes + kSize, 'x');
  ASSERT_EQ(
      fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSize),
      0);
  EXPECT_EQ(std::count(bytes, bytes + kSize, 0), static_cast<ptrdiff_t>(kSize));
}

TEST(IdentifyFileTest, SameFileHasOneIdentityUnderAllItsDescriptors) {
  const UniqueFd first = MakeSealedMemory();
  const UniqueFd copy(fcntl(first.get(), F_DUPFD_CLOEXEC, 0));
  const UniqueFd second = MakeSealedMemory();
  const absl::StatusOr<FileIdentity> identity = IdentifyFile(first.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_TRUE(*identity == *IdentifyFile(copy.get()));
  EXPECT_TRUE(*identity != *IdentifyFile(second.get()));
  EXPECT_THAT(IdentifyFile(-1).status(), ErrorSays("fd -1"));
}

}  // namespace
}  // namespace tracering::os
