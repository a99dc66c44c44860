// Sleeping, waking and looking of the background thread of the profiler.
// Real threads and futexes; times are made up.
#include "src/producer/profile_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "src/common/os/process.h"

namespace tracering::internal {
namespace {

constexpr std::chrono::nanoseconds kLookPeriod(100);
constexpr size_t kWakeWords = 1000;
constexpr std::chrono::hours kForEver(1);

// Whether the background thread would sleep on.
bool Sleeps(ProfileWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds kShort(1);
  watch.Wait(kShort);
  return std::chrono::steady_clock::now() - start >= kShort;
}

// A thread that is there while it exists.
class ScopedThread {
 public:
  ScopedThread() : thread_([this] { end_.get_future().wait(); }) {}
  ~ScopedThread() {
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> end_;
  std::thread thread_;
};

TEST(ProfileWatchTest, WakeEndsTheSleepAlsoBeforeItBegins) {
  ProfileWatch watch(kLookPeriod, kWakeWords);
  EXPECT_TRUE(Sleeps(watch));
  watch.Wake();
  watch.Wake();
  watch.Wait(kForEver);
  EXPECT_TRUE(Sleeps(watch));
  std::thread waker([&] { watch.Wake(); });
  watch.Wait(kForEver);
  waker.join();
}

TEST(ProfileWatchTest, ManyWordsWake) {
  ProfileWatch watch(kLookPeriod, kWakeWords);
  watch.Recorded(0, kWakeWords - 1);
  EXPECT_TRUE(Sleeps(watch));
  watch.Recorded(1, 1);
  watch.Wait(kForEver);
  // They are counted anew.
  watch.Recorded(2, kWakeWords - 1);
  EXPECT_TRUE(Sleeps(watch));
}

TEST(ProfileWatchTest, ThreadsThatComeAndGoWakeAtTheNextLook) {
  ProfileWatch watch(kLookPeriod, kWakeWords);
  watch.ExpectThreads(os::NumThreads());
  watch.Recorded(1000, 1);
  EXPECT_EQ(watch.looks(), 1u);
  EXPECT_TRUE(Sleeps(watch));
  {
    const ScopedThread born;
    watch.Recorded(1099, 1);  // too soon
    EXPECT_EQ(watch.looks(), 1u);
    EXPECT_TRUE(Sleeps(watch));
    watch.Recorded(1100, 1);
    EXPECT_EQ(watch.looks(), 2u);
    watch.Wait(kForEver);
    watch.ExpectThreads(os::NumThreads());
  }
  // The kernel counts a thread for a moment longer than join waits for it.
  for (uint64_t time = 1200; Sleeps(watch); time += 100) {
    watch.Recorded(time, 1);
  }
}

TEST(ProfileWatchTest, NumberThatIsNotTheKernelsIsNotWatched) {
  ProfileWatch watch(kLookPeriod, kWakeWords);
  for (const uint64_t number : {uint64_t{0}, os::NumThreads() + 1}) {
    watch.ExpectThreads(number);
    const ScopedThread born;
    watch.Recorded(1000, 1);
    EXPECT_TRUE(Sleeps(watch));
  }
  EXPECT_EQ(watch.looks(), 0u);
}

}  // namespace
}  // namespace tracering::internal
