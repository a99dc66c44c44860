// The epoll owner on real eventfds, also under a storm of signals.
#include "src/common/os/epoll.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "src/common/os/eventfd.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/signal_storm.h"

namespace tracering::os {
namespace {

using std::chrono::milliseconds;

class EpollTest : public testing::Test {
 protected:
  EpollTest()
      : epoll_(Epoll::Create().value()),
        first_(CreateEventFd().value()),
        second_(CreateEventFd().value()) {}

  // Looks without waiting.
  size_t Look() {
    absl::StatusOr<size_t> ready = epoll_.Wait(events_, 4, milliseconds(0));
    EXPECT_TRUE(ready.ok()) << ready.status();
    return ready.value_or(0);
  }

  Epoll epoll_;
  UniqueFd first_;
  UniqueFd second_;
  epoll_event events_[4] = {};
};

TEST_F(EpollTest, ReportsWhatIsReadyWithItsTag) {
  constexpr uint64_t kTag = 0xfedc'ba98'7654'3210;
  ASSERT_TRUE(epoll_.Add(first_.get(), EPOLLIN, 1).ok());
  ASSERT_TRUE(epoll_.Add(second_.get(), EPOLLIN, kTag).ok());
  EXPECT_TRUE(IsCloseOnExec(epoll_.fd()));
  EXPECT_EQ(Look(), 0u);
  SignalEventFd(second_.get());
  EXPECT_TRUE(IsReadable(epoll_.fd()));
  ASSERT_EQ(Look(), 1u);
  EXPECT_EQ(uint64_t{events_[0].data.u64}, kTag);
  EXPECT_EQ(uint32_t{events_[0].events}, static_cast<uint32_t>(EPOLLIN));
  SignalEventFd(first_.get());
  EXPECT_EQ(Look(), 2u);
}

TEST_F(EpollTest, CapacityBoundsWhatOneWaitReturns) {
  ASSERT_TRUE(epoll_.Add(first_.get(), EPOLLIN, 1).ok());
  ASSERT_TRUE(epoll_.Add(second_.get(), EPOLLIN, 2).ok());
  SignalEventFd(first_.get());
  SignalEventFd(second_.get());
  EXPECT_EQ(*epoll_.Wait(events_, 1, milliseconds(0)), 1u);
}

TEST_F(EpollTest, EdgeTriggeredEventFdIsReportedPerSignalWithoutBeingRead) {
  ASSERT_TRUE(epoll_.Add(first_.get(), EPOLLIN | EPOLLET, 1).ok());
  for (int i = 0; i < 3; ++i) {
    SignalEventFd(first_.get());
    EXPECT_EQ(Look(), 1u);
    EXPECT_EQ(Look(), 0u);
  }
}

TEST_F(EpollTest, ModifyAndRemoveTakeEffect) {
  ASSERT_TRUE(epoll_.Add(first_.get(), EPOLLIN, 1).ok());
  SignalEventFd(first_.get());
  ASSERT_TRUE(epoll_.Modify(first_.get(), EPOLLIN, 2).ok());
  ASSERT_EQ(Look(), 1u);
  EXPECT_EQ(uint64_t{events_[0].data.u64}, 2u);
  ASSERT_TRUE(epoll_.Remove(first_.get()).ok());
  EXPECT_EQ(Look(), 0u);
}

TEST_F(EpollTest, RefusalsNameTheDescriptor) {
  ASSERT_TRUE(epoll_.Add(first_.get(), EPOLLIN, 1).ok());
  const std::string first = "fd " + std::to_string(first_.get());
  const std::string second = "fd " + std::to_string(second_.get());
  EXPECT_THAT(epoll_.Add(first_.get(), EPOLLIN, 1), ErrorSays(first));
  EXPECT_THAT(epoll_.Modify(second_.get(), EPOLLIN, 1), ErrorSays(second));
  EXPECT_THAT(epoll_.Remove(second_.get()), ErrorSays(second));
  EXPECT_FALSE(epoll_.Wait(events_, 0, milliseconds(0)).ok());
}

TEST_F(EpollTest, StormOfSignalsNeitherEndsNorStretchesAWait) {
  const test::SignalStorm storm(milliseconds(1));
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<size_t> ready =
      epoll_.Wait(events_, 4, milliseconds(50));
  const auto waited = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_EQ(*ready, 0u);
  EXPECT_GE(waited, milliseconds(50));
  EXPECT_GT(storm.signals(), 0);
}

}  // namespace
}  // namespace tracering::os
