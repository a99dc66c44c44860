// Stalling: what ends the wait, that the deadline holds whatever the kernel
// answers, and that a waiter leaves no trace. Deadlines are checked against the
// clock they are given in, never against how long something "should" take.
#include "src/common/ring/capacity_wait.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>

#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/common/ring/notification.h"
#include "tests/support/child_process.h"
#include "tests/support/ring_image.h"
#include "tests/support/signal_storm.h"
#include "tests/support/take_signals.h"
#include "tests/support/thread_state.h"

namespace tracering::internal {
namespace {

using test::RingImage;
using test::TakeSignals;

constexpr size_t kNumWritersWaiting = 68;
constexpr int64_t kMillisecond = 1'000'000;
constexpr std::chrono::microseconds kStormPeriod(100);
// Never reached unless something is broken.
constexpr int64_t kFarAway = 60'000 * kMillisecond;

class CapacityWaitTest : public ::testing::Test {
 protected:
  ~CapacityWaitTest() override {
    EXPECT_EQ(image_.Word32(kNumWritersWaiting), 0u);
  }

  CapacityWaitOutcome Wait(uint32_t sampled, int64_t deadline_ns) {
    return WaitForCapacity(ring_, abi::Position(sampled), deadline_ns,
                           event_.get(), attached_);
  }

  RingImage image_ = RingImage::InMemfd({});
  const Ring ring_{image_.base(), image_.geometry()};
  os::UniqueFd event_ = *os::CreateEventFd();
  std::atomic<bool> attached_{true};
};

TEST_F(CapacityWaitTest, ReadPosThatHasMovedAlreadyIsNoWait) {
  image_.set_read_pos(1);
  EXPECT_EQ(Wait(0, os::MonotonicNs() + kFarAway), CapacityWaitOutcome::kRetry);
}

TEST_F(CapacityWaitTest, DeadlineEndsTheWait) {
  const int64_t deadline = os::MonotonicNs() + 25 * kMillisecond;
  EXPECT_EQ(Wait(0, deadline), CapacityWaitOutcome::kDeadline);
  EXPECT_GE(os::MonotonicNs(), deadline);
}

TEST_F(CapacityWaitTest, PassedDeadlineIsNoWait) {
  EXPECT_EQ(Wait(0, os::MonotonicNs()), CapacityWaitOutcome::kDeadline);
  EXPECT_EQ(Wait(0, INT64_MIN), CapacityWaitOutcome::kDeadline);
}

TEST_F(CapacityWaitTest, WithoutAConsumerNobodyWaits) {
  attached_ = false;
  EXPECT_EQ(Wait(0, os::MonotonicNs() + kFarAway),
            CapacityWaitOutcome::kNoConsumer);
}

TEST_F(CapacityWaitTest, ConsumerThatDetachesReleasesItsWaiters) {
  std::atomic<pid_t> tid{0};
  CapacityWaitOutcome outcome{};
  std::thread waiter([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    outcome = Wait(0, os::MonotonicNs() + kFarAway);
  });
  test::AwaitAsleep(tid);
  attached_ = false;
  waiter.join();
  EXPECT_EQ(outcome, CapacityWaitOutcome::kNoConsumer);
}

TEST_F(CapacityWaitTest, PublishedReadPosEndsTheWait) {
  std::atomic<pid_t> tid{0};
  CapacityWaitOutcome outcome{};
  std::thread waiter([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    outcome = Wait(0, os::MonotonicNs() + kFarAway);
  });
  test::AwaitAsleep(tid);
  ring_.PublishReadPos(abi::Position(1));
  waiter.join();
  EXPECT_EQ(outcome, CapacityWaitOutcome::kRetry);
}

TEST_F(CapacityWaitTest, SleepingReaderIsSignalledBeforeTheWait) {
  ArmReader(ring_);
  EXPECT_EQ(Wait(0, os::MonotonicNs()), CapacityWaitOutcome::kDeadline);
  EXPECT_EQ(TakeSignals(event_.get()), 1u);
}

TEST_F(CapacityWaitTest, WaiterSignalsAgainEvenAReaderThatIsNotArmed) {
  std::thread reader([&] {
    for (int signals = 0; signals < 2;) {
      pollfd readable = {event_.get(), POLLIN, 0};
      ASSERT_EQ(poll(&readable, 1, -1), 1);
      signals += static_cast<int>(TakeSignals(event_.get()));
    }
    ring_.PublishReadPos(abi::Position(1));
  });
  EXPECT_EQ(Wait(0, os::MonotonicNs() + kFarAway), CapacityWaitOutcome::kRetry);
  reader.join();
}

TEST_F(CapacityWaitTest, ErrnoIsKept) {
  errno = 4711;
  EXPECT_EQ(Wait(0, os::MonotonicNs() + kMillisecond),
            CapacityWaitOutcome::kDeadline);
  EXPECT_EQ(errno, 4711);
}

// A read_pos that goes to and fro, by a forging reader or because other writers
// take each freed position: the caller's loop over reserving and waiting ends.
TEST_F(CapacityWaitTest, ReadPosThatNeverRestsCannotOutlastTheDeadline) {
  image_.set_write_pos(8);
  std::atomic<bool> done{false};
  std::thread forger([&] {
    while (!done) {
      image_.set_read_pos(1);
      image_.set_read_pos(0);
    }
  });
  const int64_t deadline = os::MonotonicNs() + 25 * kMillisecond;
  CapacityWaitOutcome outcome = CapacityWaitOutcome::kRetry;
  while (outcome == CapacityWaitOutcome::kRetry) {
    Reservation reservation;
    ASSERT_EQ(ring_.TryReserve(&reservation), ReserveOutcome::kFull);
    outcome = Wait(reservation.read_pos.value(), deadline);
  }
  done = true;
  forger.join();
  EXPECT_EQ(outcome, CapacityWaitOutcome::kDeadline);
  EXPECT_GE(os::MonotonicNs(), deadline);
}

TEST_F(CapacityWaitTest, DeadlineHoldsInAStormOfSignals) {
  const int64_t deadline = os::MonotonicNs() + 50 * kMillisecond;
  {
    const test::SignalStorm storm(kStormPeriod);
    EXPECT_EQ(Wait(0, deadline), CapacityWaitOutcome::kDeadline);
    EXPECT_GE(os::MonotonicNs(), deadline);
    EXPECT_GT(storm.signals(), 0);
  }
  // An interruption is no slice: the consumer is not stormed in turn.
  EXPECT_LE(TakeSignals(event_.get()), 5u);
}

TEST_F(CapacityWaitTest, WakeUpArrivesInAStormOfSignals) {
  std::atomic<bool> waiting{false};
  std::thread reader([&] {
    while (!waiting || image_.Word32(kNumWritersWaiting) == 0) {
      std::this_thread::yield();
    }
    ring_.PublishReadPos(abi::Position(1));
  });
  {
    const test::SignalStorm storm(kStormPeriod);
    waiting = true;
    EXPECT_EQ(Wait(0, os::MonotonicNs() + kFarAway),
              CapacityWaitOutcome::kRetry);
  }
  reader.join();
}

// Makes futex fail with EPERM in this process, as a sandbox might.
bool DenyFutex() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return false;
  }
  uint32_t word = 0;
  return syscall(SYS_futex, &word, 1 /* FUTEX_WAKE */, 1, nullptr, nullptr,
                 0) == -1 &&
         errno == EPERM;
}

constexpr int kNoSeccomp = 77;

TEST_F(CapacityWaitTest, DeadlineHoldsWhereFutexesAreDenied) {
  test::ChildProcess child = test::ChildProcess::Fork([&] {
    if (!DenyFutex()) return kNoSeccomp;
    const int64_t deadline = os::MonotonicNs() + 25 * kMillisecond;
    const CapacityWaitOutcome outcome = Wait(0, deadline);
    if (outcome != CapacityWaitOutcome::kDeadline) return 1;
    return os::MonotonicNs() >= deadline ? 0 : 2;
  });
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  if (exit->code == kNoSeccomp) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(exit->code, 0);
}

TEST_F(CapacityWaitTest, CapacityIsSeenWhereFutexesAreDenied) {
  test::ChildProcess child = test::ChildProcess::Fork([&] {
    if (!DenyFutex()) return kNoSeccomp;
    test::handshake::Report();
    const CapacityWaitOutcome outcome = Wait(0, os::MonotonicNs() + kFarAway);
    return outcome == CapacityWaitOutcome::kRetry ? 0 : 1;
  });
  if (child.AwaitReport()) ring_.PublishReadPos(abi::Position(1));
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  if (exit->code == kNoSeccomp) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(exit->code, 0);
}

}  // namespace
}  // namespace tracering::internal
