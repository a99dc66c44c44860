// Signals that must never block, fail or be noticed by the code around them.
#include "src/common/os/eventfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

constexpr uint64_t kMaxCounter = 0xffff'ffff'ffff'fffe;

void SetCounter(const UniqueFd& fd, uint64_t value) {
  test::Require(write(fd.get(), &value, sizeof(value)) == sizeof(value),
                "write to an eventfd");
}

TEST(EventFdTest, StartsUnreadableNonBlockingAndCloseOnExec) {
  const UniqueFd fd = MakeEventFd();
  EXPECT_FALSE(IsReadable(fd.get()));
  EXPECT_TRUE(IsNonBlocking(fd.get()));
  EXPECT_TRUE(IsCloseOnExec(fd.get()));
}

TEST(EventFdTest, EachSignalAddsOne) {
  const UniqueFd fd = MakeEventFd();
  for (int i = 0; i < 3; ++i) SignalEventFd(fd.get());
  EXPECT_TRUE(IsReadable(fd.get()));
  EXPECT_EQ(test::TakeSignals(fd.get()), 3u);
}

TEST(EventFdTest, SignalAtTheMaximumNeitherBlocksNorChangesIt) {
  const UniqueFd fd = MakeEventFd();
  SetCounter(fd, kMaxCounter - 1);
  errno = ENOSPC;
  for (int i = 0; i < 3; ++i) SignalEventFd(fd.get());
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(IsReadable(fd.get()));
  EXPECT_EQ(test::TakeSignals(fd.get()), kMaxCounter);
}

TEST(EventFdTest, SignalKeepsErrnoWhateverTheDescriptorIs) {
  const UniqueFd fd = MakeEventFd();
  const UniqueFd read_only(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int target : {fd.get(), read_only.get(), -1, 1 << 20}) {
    errno = ENOSPC;
    SignalEventFd(target);
    EXPECT_EQ(errno, ENOSPC) << target;
  }
}

TEST(EventFdTest, ResetMakesItUnreadableAndKeepsErrno) {
  const UniqueFd fd = MakeEventFd();
  SignalEventFd(fd.get());
  errno = ENOSPC;
  ResetEventFd(fd.get());
  EXPECT_FALSE(IsReadable(fd.get()));
  ResetEventFd(fd.get());
  ResetEventFd(-1);
  EXPECT_EQ(errno, ENOSPC);
  SignalEventFd(fd.get());
  EXPECT_EQ(test::TakeSignals(fd.get()), 1u);
}

}  // namespace
}  // namespace tracering::os
