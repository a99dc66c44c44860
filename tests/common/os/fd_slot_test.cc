// A descriptor number that keeps its meaning while other threads write to it.
#include "src/common/os/fd_slot.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

TEST(ReplaceFdTest, SlotStandsForTheNewFileCloseOnExec) {
  const GuardedFd slot(MakeEventFd());
  const UniqueFd fresh = MakeEventFd();
  const int number = slot.get();
  const size_t open = CountOpenFds();
  ASSERT_TRUE(ReplaceFd(slot, fresh).ok());
  EXPECT_EQ(slot.get(), number);
  EXPECT_EQ(CountOpenFds(), open);
  EXPECT_TRUE(IsCloseOnExec(slot.get()));
  SignalEventFd(slot.get());
  EXPECT_EQ(test::TakeSignals(fresh.get()), 1u);
}

TEST(ReplaceFdTest, FailureNamesBothAndLeavesTheSlot) {
  const GuardedFd slot(MakeEventFd());
  EXPECT_THAT(ReplaceFd(slot, UniqueFd()),
              ErrorSays("fd -1 in place of fd " + std::to_string(slot.get())));
  SignalEventFd(slot.get());
  EXPECT_EQ(test::TakeSignals(slot.get()), 1u);
}

TEST(ReplaceFdTest, ANumberThatTheProgramHasTakenIsLeftAlone) {
  const GuardedFd slot(MakeEventFd());
  const UniqueFd theirs = CreateSealedMemory("theirs", 4096).value();
  ASSERT_EQ(dup2(theirs.get(), slot.get()), slot.get());
  EXPECT_THAT(ReplaceFd(slot, MakeEventFd()), ErrorSays("by the program"));
  EXPECT_EQ(IdentifyFile(slot.get()).value(),
            IdentifyFile(theirs.get()).value());
  close(slot.get());
}

TEST(ReplaceFdTest, EverySignalOfOtherThreadsReachesOneOfTheFiles) {
  constexpr int kWriters = 2;
  constexpr uint64_t kSignals = 20'000;
  const GuardedFd slot(MakeEventFd());
  std::vector<UniqueFd> files;
  files.push_back(UniqueFd(fcntl(slot.get(), F_DUPFD_CLOEXEC, 0)));
  std::atomic<int> running{kWriters};
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&slot, &running] {
      for (uint64_t n = 0; n < kSignals; ++n) SignalEventFd(slot.get());
      --running;
    });
  }
  while (running > 0) {
    if (files.size() < 200) files.push_back(MakeEventFd());
    ASSERT_TRUE(ReplaceFd(slot, files.back()).ok());
  }
  for (std::thread& writer : writers) writer.join();
  uint64_t total = 0;
  for (const UniqueFd& file : files) total += test::TakeSignals(file.get());
  EXPECT_EQ(total, kWriters * kSignals);
}

}  // namespace
}  // namespace tracering::os
