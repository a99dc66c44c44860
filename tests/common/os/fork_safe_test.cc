// Objects made once, also where fork() comes in the middle of it.
#include "src/common/os/fork_safe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>

namespace tracering::os {
namespace {

TEST(GetOrMakeTest, IsMadeOnce) {
  std::atomic<int*> slot{nullptr};
  int& first = GetOrMake(&slot, [] { return std::make_unique<int>(1); });
  int& second = GetOrMake(&slot, [] { return std::make_unique<int>(2); });
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(second, 1);
  delete slot.load();
}

// A function-local static waits in the child for ever.
TEST(GetOrMakeTest, AChildOfAForkInTheMiddleMakesItsOwn) {
  std::atomic<int*> slot{nullptr};
  int status = -1;
  int& mine = GetOrMake(&slot, [&] {
    const pid_t child = fork();
    if (child == 0) {
      const int& own =
          GetOrMake(&slot, [] { return std::make_unique<int>(2); });
      _exit(own == 2 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return std::make_unique<int>(1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(mine, 1);
  delete slot.load();
}

}  // namespace
}  // namespace tracering::os
