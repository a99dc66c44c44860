// Every way a wait can end, in one process and between two.
#include "src/common/os/futex.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <new>
#include <thread>

#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

using Word = std::atomic<uint32_t>;

TEST(FutexTest, WordThatDiffersIsNotWaitedOn) {
  const Word word{7};
  errno = ENOSPC;
  EXPECT_EQ(FutexWait(&word, 8, hours(1)), FutexWaitOutcome::kValueChanged);
  EXPECT_EQ(errno, ENOSPC);
}

TEST(FutexTest, WaitEndsAtItsTimeoutAndNotBefore) {
  const Word word{7};
  errno = ENOSPC;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(FutexWait(&word, 7, milliseconds(20)), FutexWaitOutcome::kTimedOut);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(20));
  EXPECT_EQ(errno, ENOSPC);
}

TEST(FutexTest, TimeoutsThatHavePassedDoNotWait) {
  const Word word{7};
  for (nanoseconds timeout :
       {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
    EXPECT_EQ(FutexWait(&word, 7, timeout), FutexWaitOutcome::kTimedOut);
  }
}

TEST(FutexTest, WakeEndsAWaitOfAnyLength) {
  Word word{7};
  std::atomic<bool> done{false};
  FutexWaitOutcome outcome = FutexWaitOutcome::kUnavailable;
  std::thread waiter([&] {
    outcome = FutexWait(&word, 7, nanoseconds::max());
    done = true;
  });
  errno = ENOSPC;
  // The word stays as it is: only a wake-up ends this wait.
  while (!done) {
    FutexWake(&word, 1);
    std::this_thread::yield();
  }
  EXPECT_EQ(errno, ENOSPC);
  waiter.join();
  EXPECT_EQ(outcome, FutexWaitOutcome::kWoken);
}

TEST(FutexTest, WakeReachesAnotherProcessThroughSharedMemory) {
  absl::StatusOr<UniqueFd> fd = CreateSealedMemory("test", 4096);
  ASSERT_TRUE(fd.ok()) << fd.status();
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(fd->get(), 4096);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  Word* word = new (mapping->data()) Word(7);
  test::ChildProcess child = test::ChildProcess::Fork([word] {
    test::handshake::Report();
    return FutexWait(word, 7, hours(1)) == FutexWaitOutcome::kWoken ? 0 : 1;
  });
  ASSERT_TRUE(child.AwaitReport());
  std::optional<test::ChildExit> exit;
  while (!(exit = child.Wait(test::Milliseconds(1))).has_value()) {
    FutexWake(word, INT_MAX);
  }
  EXPECT_EQ(exit->code, 0);
}

TEST(FutexTest, SignalInterruptsAWait) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const Word word{7};
  std::atomic<bool> done{false};
  FutexWaitOutcome outcome = FutexWaitOutcome::kUnavailable;
  int error = 0;
  std::thread waiter([&] {
    errno = ENOSPC;
    outcome = FutexWait(&word, 7, hours(1));
    error = errno;
    done = true;
  });
  while (!done) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waiter.join();
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  EXPECT_EQ(outcome, FutexWaitOutcome::kInterrupted);
  EXPECT_EQ(error, ENOSPC);
}

TEST(FutexTest, OtherFailuresAreUnavailableAndKeepErrno) {
  const Word words[2] = {};
  const auto* misaligned = reinterpret_cast<const char*>(words) + 1;
  errno = ENOSPC;
  EXPECT_EQ(FutexWait(misaligned, 0, hours(1)), FutexWaitOutcome::kUnavailable);
  FutexWake(misaligned, 1);
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace tracering::os
