// How long the profiler's background thread sleeps, look by look.
#include "src/producer/scan_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tracering::internal {
namespace {

using std::chrono::milliseconds;

// The periods of so many looks that find nothing new, in milliseconds.
std::vector<int64_t> CalmPeriods(ScanSchedule* schedule, int looks,
                                 uint64_t busiest = 1) {
  std::vector<int64_t> periods;
  for (int i = 0; i < looks; ++i) {
    schedule->OnCalm(busiest);
    periods.push_back(schedule->next().count());
  }
  return periods;
}

TEST(ScanScheduleTest, SlowsDownWhileNothingChangesAndSettlesAfterAHundred) {
  ScanSchedule schedule(milliseconds(50), 100, 1000);
  EXPECT_EQ(schedule.next(), milliseconds(50));
  EXPECT_THAT(CalmPeriods(&schedule, 4),
              testing::ElementsAre(100, 200, 200, 200));
  // 5 s, of which 550 ms are gone.
  EXPECT_THAT(CalmPeriods(&schedule, 22), testing::Each(200));
  EXPECT_THAT(CalmPeriods(&schedule, 4),
              testing::ElementsAre(400, 800, 1000, 1000));
}

TEST(ScanScheduleTest, AChangeBringsItBackToThePeriod) {
  ScanSchedule schedule(milliseconds(50), 100, 1000);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(CalmPeriods(&schedule, 40).back(), 1000);
    schedule.OnChange();
    EXPECT_EQ(schedule.next(), milliseconds(50));
  }
  // What changes again and again never settles.
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(CalmPeriods(&schedule, 20).back(), 200);
    schedule.OnChange();
  }
}

TEST(ScanScheduleTest, RoomForSamplesBoundsIt) {
  const auto settled = [](uint64_t busiest, uint32_t frequency) {
    ScanSchedule schedule(milliseconds(50), frequency, 1000);
    return CalmPeriods(&schedule, 40, busiest).back();
  };
  EXPECT_EQ(settled(0, 100), 1000);
  EXPECT_EQ(settled(10, 100), 1000);
  EXPECT_EQ(settled(25, 100), 400);
  EXPECT_EQ(settled(2, 1000), 500);
  // Not below what a program gets that is not settled.
  EXPECT_EQ(settled(1000, 10'000), 200);
}

TEST(ScanScheduleTest, ALongPeriodIsNotMadeLongerThanFourTimes) {
  ScanSchedule schedule(milliseconds(1000), 100, 1000);
  EXPECT_EQ(CalmPeriods(&schedule, 200).back(), 4000);
  ScanSchedule quick(milliseconds(1), 100, 1000);
  EXPECT_EQ(CalmPeriods(&quick, 200).back(), 20);
}

}  // namespace
}  // namespace tracering::internal
