// What this machine and its control groups are said to have left, on trees of
// made-up files.
#include "src/common/os/available_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

class AvailableMemoryTest : public testing::Test {
 protected:
  // Makes a file of the fake machine.
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = Root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  std::string Root() const { return dir_.Path("root"); }
  uint64_t Available() const { return AvailableMemory(Root()); }

  const TempDir dir_;
};

TEST_F(AvailableMemoryTest, MachineThatSaysNothingSetsNoBound) {
  EXPECT_EQ(Available(), kNoBound);
  Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: lots\n");
  Write("/proc/self/cgroup", "4:memory:/a\n");
  EXPECT_EQ(Available(), kNoBound);
}

TEST_F(AvailableMemoryTest, MachineGivesWhatIsAvailableAndItsFreeSwap) {
  Write("/proc/meminfo",
        "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:   200 kB\n");
  EXPECT_EQ(Available(), 200u * 1024);
  Write("/proc/meminfo",
        "MemAvailable:   200 kB\nSwapTotal:  70 kB\nSwapFree:  50 kB\n");
  EXPECT_EQ(Available(), 250u * 1024);
}

TEST_F(AvailableMemoryTest, LowestLimitOfTheControlGroupsAboveCounts) {
  Write("/proc/meminfo", "MemAvailable:   200 kB\n");
  Write("/proc/self/cgroup", "1:name=systemd:/x\n0::/outer/inner\n");
  EXPECT_EQ(Available(), 200u * 1024);
  Write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(Available(), 200u * 1024);
  Write("/sys/fs/cgroup/outer/memory.max", "5000\n");
  EXPECT_EQ(Available(), 5000u);
  Write("/sys/fs/cgroup/outer/inner/memory.max", "4000\n");
  EXPECT_EQ(Available(), 4000u);
  Write("/sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(Available(), 3000u);
}

TEST_F(AvailableMemoryTest, ContainerSeesItsOwnLimitAtTheRoot) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "7000\n");
  EXPECT_EQ(Available(), 7000u);
}

TEST(ThisMachineTest, HasSomeMemoryLeft) {
  EXPECT_GT(AvailableMemory(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace tracering::os
