// A process that can open nothing more gets errors: no crash, no wait, and no
// file or descriptor left behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "src/common/os/epoll.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "src/common/os/pidfd.h"
#include "src/common/os/timerfd.h"
#include "src/common/os/unix_socket.h"
#include "tests/common/os/os_test_util.h"

namespace tracering::os {
namespace {

bool IsExhausted(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted;
}

TEST(FullFdTableTest, EverythingThatNeedsADescriptorSaysSo) {
  const TempDir dir;
  const std::string path = dir.Path("sock");
  {
    const FullFdTable full;
    EXPECT_TRUE(IsExhausted(CreateSealedMemory("test", 4096).status()));
    EXPECT_TRUE(IsExhausted(CreateEventFd().status()));
    EXPECT_TRUE(IsExhausted(Epoll::Create().status()));
    EXPECT_TRUE(IsExhausted(TimerFd::Create().status()));
    EXPECT_TRUE(IsExhausted(OpenPidFd(getpid()).status()));
    EXPECT_TRUE(IsExhausted(Connect(path).status()));
    EXPECT_TRUE(IsExhausted(ListeningSocket::Create(path, 0600).status()));
  }
  EXPECT_TRUE(CreateEventFd().ok());
}

TEST(FullFdTableTest, ListeningNeedsThreeDescriptorsOrLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.Path("sock");
  // A socket that is there already costs one more, to look at it.
  absl::StatusOr<ListeningSocket> live = ListeningSocket::Create(path, 0600);
  ASSERT_TRUE(live.ok()) << live.status();
  for (int left : {0, 1, 2}) {
    const FullFdTable full(left);
    EXPECT_TRUE(IsExhausted(ListeningSocket::Create(path, 0600).status()))
        << left;
    EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
  }
  EXPECT_TRUE(Connect(path).ok());
  const std::string other = dir.Path("other");
  {
    const FullFdTable full(1);
    EXPECT_TRUE(IsExhausted(ListeningSocket::Create(other, 0600).status()));
  }
  EXPECT_FALSE(std::filesystem::exists(other));
}

}  // namespace
}  // namespace tracering::os
