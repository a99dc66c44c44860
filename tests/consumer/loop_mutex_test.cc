// Exclusion and fairness of the loop mutex.
#include "src/consumer/loop_mutex.h"

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "src/common/os/process.h"
#include "tests/support/thread_state.h"

namespace tracering::internal {
namespace {

TEST(LoopMutexTest, ExcludesEachOther) {
  LoopMutex mutex;
  int counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) {
        const std::lock_guard<LoopMutex> guard(mutex);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 20000);
}

// The draining thread lets go and takes it back at once. Under std::mutex it
// would mostly get it, and whoever waits would starve.
TEST(LoopMutexTest, WhoeverWaitsComesBeforeWhoeverComesBack) {
  LoopMutex mutex;
  bool had_its_turn = false;
  std::atomic<pid_t> waiter_id{0};
  mutex.lock();
  std::thread waiter([&] {
    waiter_id = os::CurrentThreadId();
    const std::lock_guard<LoopMutex> guard(mutex);
    had_its_turn = true;
  });
  test::AwaitAsleep(waiter_id);
  mutex.unlock();
  mutex.lock();
  EXPECT_TRUE(had_its_turn);
  mutex.unlock();
  waiter.join();
}

}  // namespace
}  // namespace tracering::internal
