// Who drains: one thread a seat, the last that took it.
#include "src/common/ring/draining_thread.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tracering::internal {
namespace {

bool IsTakenByAnotherThread() {
  bool taken = true;
  std::thread([&] { taken = DrainingSeat::IsTakenByThisThread(); }).join();
  return taken;
}

TEST(DrainingThreadTest, NobodyDrainsUntilSomebodyTakesASeat) {
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
  DrainingSeat seat;
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
  seat.Take();
  EXPECT_TRUE(DrainingSeat::IsTakenByThisThread());
  EXPECT_FALSE(IsTakenByAnotherThread());
  seat.Leave();
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
}

TEST(DrainingThreadTest, LastToTakeASeatHasIt) {
  DrainingSeat seat;
  seat.Take();
  std::thread([&] {
    seat.Take();
    EXPECT_TRUE(DrainingSeat::IsTakenByThisThread());
  }).join();
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
}

TEST(DrainingThreadTest, ThreadMayHaveSeveralSeats) {
  std::optional<DrainingSeat> first(std::in_place);
  std::optional<DrainingSeat> second(std::in_place);
  first->Take();
  second->Take();
  first.reset();
  EXPECT_TRUE(DrainingSeat::IsTakenByThisThread());
  second.reset();
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
}

TEST(DrainingThreadTest, SeatsComeAndGoInManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
        DrainingSeat seat;
        seat.Take();
        EXPECT_TRUE(DrainingSeat::IsTakenByThisThread());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tracering::internal
