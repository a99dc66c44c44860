// Who signals the sleeping reader, and how often. That no wake-up is lost is a
// matter of interleavings: tests/race.
#include "src/common/ring/notification.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "src/common/os/eventfd.h"
#include "tests/support/ring_image.h"
#include "tests/support/take_signals.h"

namespace tracering::internal {
namespace {

using test::RingImage;
using test::TakeSignals;

constexpr size_t kReaderArmed = 132;

class NotificationTest : public ::testing::Test {
 protected:
  RingImage image_ = RingImage::InPlainMemory({});
  const Ring ring_{image_.base(), image_.geometry()};
  os::UniqueFd event_ = *os::CreateEventFd();
};

TEST_F(NotificationTest, BusyReaderIsNotSignalled) {
  NotifyIfArmed(ring_, event_.get());
  ArmReader(ring_);
  DisarmReader(ring_);
  NotifyIfArmed(ring_, event_.get());
  EXPECT_EQ(TakeSignals(event_.get()), 0u);
}

TEST_F(NotificationTest, SleepingReaderIsSignalledOncePerArming) {
  for (int sleeps = 0; sleeps < 3; ++sleeps) {
    ArmReader(ring_);
    for (int i = 0; i < 5; ++i) NotifyIfArmed(ring_, event_.get());
    EXPECT_EQ(TakeSignals(event_.get()), 1u);
    EXPECT_EQ(image_.Word32(kReaderArmed), 0u);
  }
}

TEST_F(NotificationTest, ManyWritersAtOnceSignalOncePerArming) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    ArmReader(ring_);
    std::vector<std::thread> writers;
    for (int i = 0; i < 3; ++i) {
      writers.emplace_back([this] { NotifyIfArmed(ring_, event_.get()); });
    }
    for (std::thread& writer : writers) writer.join();
    ASSERT_EQ(TakeSignals(event_.get()), 1u);
  }
}

TEST_F(NotificationTest, OutstandingIsTheDistanceFromTheGivenReadPos) {
  image_.set_write_pos(2);
  EXPECT_EQ(OutstandingSeqCst(ring_, abi::Position(0)), 2u);
  EXPECT_EQ(OutstandingSeqCst(ring_, abi::Position(0xffff'fffe)), 4u);
  // Judged by the caller: the other side can forge write_pos.
  EXPECT_EQ(OutstandingSeqCst(ring_, abi::Position(3)), 0xffff'ffffu);
}

}  // namespace
}  // namespace tracering::internal
