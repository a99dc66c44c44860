// Ownership of a descriptor, and an errno that closing must not change.
#include "src/common/os/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

UniqueFd OpenNull() { return UniqueFd(open("/dev/null", O_RDONLY)); }

TEST(UniqueFdTest, ClosesWhatItHoldsAndNothingElse) {
  const size_t before = CountOpenFds();
  {
    UniqueFd none;
    EXPECT_FALSE(none.valid());
    UniqueFd fd = OpenNull();
    EXPECT_TRUE(fd.valid());
    EXPECT_EQ(CountOpenFds(), before + 1);
  }
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(UniqueFdTest, MovingHandsTheDescriptorOver) {
  UniqueFd first = OpenNull();
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), number);
  UniqueFd third = OpenNull();
  const int closed = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(IsOpen(closed));
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFdTest, MovingOntoItselfKeepsTheDescriptor) {
  UniqueFd fd = OpenNull();
  UniqueFd& same = fd;
  fd = std::move(same);
  ASSERT_TRUE(fd.valid());
  EXPECT_TRUE(IsOpen(fd.get()));
}

TEST(UniqueFdTest, ReleaseGivesTheDescriptorUpOpen) {
  UniqueFd fd = OpenNull();
  const int number = fd.release();
  EXPECT_FALSE(fd.valid());
  fd.reset();
  EXPECT_TRUE(IsOpen(number));
  fd.reset(number);
  fd.reset();
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, ClosingKeepsErrnoEvenWhereItFails) {
  constexpr int kNotOpen = 1 << 20;
  errno = ENOSPC;
  OpenNull().reset();
  EXPECT_EQ(errno, ENOSPC);
  UniqueFd(kNotOpen).reset();
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace tracering::os
