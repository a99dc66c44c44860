// Descriptors of ours inside a program that closes numbers it did not open.
#include "src/common/os/guarded_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "src/common/os/timerfd.h"
#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

// What closefrom and a next open do together.
void PutInPlaceOf(int number, const UniqueFd& file) {
  ASSERT_EQ(dup2(file.get(), number), number);
}

TEST(GuardedFdTest, NumberIsHighAndCloseOnExec) {
  const size_t open = CountOpenFds();
  {
    const GuardedFd fd(MakeMemory());
    EXPECT_GE(fd.get(), kMinGuardedFd);
    EXPECT_TRUE(IsCloseOnExec(fd.get()));
    EXPECT_TRUE(fd.IsOurs());
    EXPECT_EQ(CountOpenFds(), open + 1);
  }
  EXPECT_EQ(CountOpenFds(), open);
}

TEST(GuardedFdTest, WhereHighNumbersAreForbiddenItStaysOffStandardStreams) {
  UniqueFd memory = MakeMemory();
  const UniqueFd saved(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  PutInPlaceOf(STDIN_FILENO, memory);
  {
    const ScopedLimit limit(RLIMIT_NOFILE, kMinGuardedFd);
    const GuardedFd fd{UniqueFd(STDIN_FILENO)};
    EXPECT_GT(fd.get(), STDERR_FILENO);
    EXPECT_LT(fd.get(), kMinGuardedFd);
    EXPECT_TRUE(fd.IsOurs());
    EXPECT_FALSE(IsOpen(STDIN_FILENO));
  }
  if (saved.valid()) PutInPlaceOf(STDIN_FILENO, saved);
}

TEST(GuardedFdTest, WithoutAnyOtherNumberItStaysWhereItIs) {
  UniqueFd memory = MakeMemory();
  const int number = memory.get();
  const FullFdTable full;
  const GuardedFd fd(std::move(memory));
  EXPECT_EQ(fd.get(), number);
  EXPECT_TRUE(fd.IsOurs());
}

TEST(GuardedFdTest, AStrangersFileIsNeitherOursNorClosed) {
  GuardedFd fd(MakeMemory());
  const int number = fd.get();
  PutInPlaceOf(number, MakeMemory());
  EXPECT_FALSE(fd.IsOurs());
  errno = ENOTTY;
  fd.reset();
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(number));
  close(number);
}

TEST(GuardedFdTest, AClosedNumberIsNotOurs) {
  const GuardedFd fd(MakeMemory());
  close(fd.get());
  EXPECT_FALSE(fd.IsOurs());
}

TEST(GuardedFdTest, MovingTakesTheIdentityAlong) {
  GuardedFd first(MakeMemory());
  const int number = first.get();
  GuardedFd second;
  second = std::move(first);
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(second.IsOurs());
  EXPECT_FALSE(GuardedFd().IsOurs());
}

TEST(GuardedFdTest, SignalsAndTimersLeaveAStrangersFileAlone) {
  const UniqueFd file = MakeMemory();
  const GuardedFd event(CreateEventFd().value());
  PutInPlaceOf(event.get(), file);
  SignalEventFd(event.get());
  ResetEventFd(event.get());
  EXPECT_EQ(lseek(file.get(), 0, SEEK_CUR), 0);
  TimerFd timer = TimerFd::Create().value();
  PutInPlaceOf(timer.fd(), file);
  EXPECT_EQ(timer.TakeExpirations(), 0u);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_CUR), 0);
  close(event.get());
  close(timer.fd());
}

}  // namespace
}  // namespace tracering::os
