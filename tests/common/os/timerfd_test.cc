// Timers that expire once, again and again, or no more.
#include "src/common/os/timerfd.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

class TimerFdTest : public testing::Test {
 protected:
  TimerFdTest() : timer_(TimerFd::Create().value()) {}
  TimerFd timer_;
};

TEST_F(TimerFdTest, StartsUnarmedNonBlockingAndCloseOnExec) {
  EXPECT_TRUE(IsNonBlocking(timer_.fd()));
  EXPECT_TRUE(IsCloseOnExec(timer_.fd()));
  errno = ENOSPC;
  EXPECT_EQ(timer_.TakeExpirations(), 0u);
  EXPECT_EQ(errno, ENOSPC);
}

TEST_F(TimerFdTest, OneShotExpiresOnceAndNotEarly) {
  const auto start = steady_clock::now();
  ASSERT_TRUE(timer_.SetOneShot(milliseconds(20)).ok());
  EXPECT_TRUE(WaitReadable(timer_.fd()));
  EXPECT_GE(steady_clock::now() - start, milliseconds(20));
  EXPECT_EQ(timer_.TakeExpirations(), 1u);
  EXPECT_FALSE(IsReadable(timer_.fd()));
  EXPECT_EQ(timer_.TakeExpirations(), 0u);
}

TEST_F(TimerFdTest, DelayThatHasPassedExpiresAtOnce) {
  for (nanoseconds delay : {nanoseconds(0), nanoseconds(-1)}) {
    ASSERT_TRUE(timer_.SetOneShot(delay).ok());
    EXPECT_TRUE(WaitReadable(timer_.fd()));
    EXPECT_EQ(timer_.TakeExpirations(), 1u);
  }
}

TEST_F(TimerFdTest, PeriodicExpiresAgainAndAgain) {
  ASSERT_TRUE(timer_.SetPeriodic(milliseconds(2)).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(WaitReadable(timer_.fd()));
    EXPECT_GE(timer_.TakeExpirations(), 1u);
  }
}

TEST_F(TimerFdTest, SettingAndDisarmingReplaceWhatWasSet) {
  ASSERT_TRUE(timer_.SetOneShot(hours(24)).ok());
  ASSERT_TRUE(timer_.SetOneShot(nanoseconds(1)).ok());
  ASSERT_TRUE(WaitReadable(timer_.fd()));
  ASSERT_TRUE(timer_.Disarm().ok());
  EXPECT_FALSE(IsReadable(timer_.fd()));
  EXPECT_EQ(timer_.TakeExpirations(), 0u);
}

TEST_F(TimerFdTest, PeriodMustBePositive) {
  for (nanoseconds period : {nanoseconds(0), nanoseconds(-5)}) {
    const absl::Status status = timer_.SetPeriodic(period);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status, ErrorSays(std::to_string(period.count()) + " ns"));
  }
}

}  // namespace
}  // namespace tracering::os
