// Deaths of real processes, including one that its socket hides.
#include "src/common/os/pidfd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "src/common/os/unix_socket.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

using test::ChildProcess;

ChildProcess StartSleeper() {
  ChildProcess child = ChildProcess::Fork([] {
    test::handshake::Report();
    test::handshake::AwaitRelease();
    return 0;
  });
  EXPECT_TRUE(child.AwaitReport());
  return child;
}

pid_t PidOfADeadProcess() {
  ChildProcess child = ChildProcess::Fork([] { return 0; });
  EXPECT_TRUE(child.Wait().has_value());
  return child.pid();
}

TEST(ProcessStartTimeTest, IsTheSameForOneProcessAndNotBeforeItsParents) {
  const absl::StatusOr<uint64_t> ours = ProcessStartTime(getpid());
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_GT(*ours, 0u);
  const ChildProcess child = StartSleeper();
  const absl::StatusOr<uint64_t> theirs = ProcessStartTime(child.pid());
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_GE(*theirs, *ours);
  EXPECT_EQ(*ProcessStartTime(child.pid()), *theirs);
  EXPECT_EQ(*ProcessStartTime(getpid()), *ours);
}

TEST(ProcessStartTimeTest, NameOfTheProcessCannotForgeIt) {
  const absl::StatusOr<uint64_t> before = ProcessStartTime(getpid());
  ASSERT_TRUE(before.ok()) << before.status();
  char name_before[16] = {};
  ASSERT_EQ(prctl(PR_GET_NAME, name_before), 0);
  for (const char* name : {"a b c d e f g h", ") R 1 1 1 1 1 1", "((", "))"}) {
    ASSERT_EQ(prctl(PR_SET_NAME, name), 0);
    const absl::StatusOr<uint64_t> time = ProcessStartTime(getpid());
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(*time, *before) << name;
  }
  ASSERT_EQ(prctl(PR_SET_NAME, name_before), 0);
}

TEST(ProcessStartTimeTest, ProcessThatIsGoneIsAnErrorThatNamesIt) {
  const pid_t pid = PidOfADeadProcess();
  EXPECT_THAT(ProcessStartTime(pid).status(),
              ErrorSays("/proc/" + std::to_string(pid)));
}

TEST(OpenPidFdTest, BecomesReadableWhenTheProcessDies) {
  ChildProcess child = StartSleeper();
  const absl::StatusOr<UniqueFd> fd = OpenPidFd(child.pid());
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(IsCloseOnExec(fd->get()));
  EXPECT_FALSE(IsReadable(fd->get()));
  ASSERT_TRUE(child.Signal(SIGKILL));
  EXPECT_TRUE(WaitReadable(fd->get()));
}

TEST(OpenPidFdTest, PidsOfNobodyAreErrors) {
  const size_t before = CountOpenFds();
  for (pid_t pid : {0, -1, PidOfADeadProcess()}) {
    EXPECT_FALSE(OpenPidFd(pid).ok()) << pid;
  }
  EXPECT_THAT(OpenPidFd(0).status(), ErrorSays("pid 0"));
  EXPECT_EQ(CountOpenFds(), before);
}

class OpenPeerPidFdTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<ListeningSocket> listener =
        ListeningSocket::Create(path_, 0600);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = std::make_unique<ListeningSocket>(*std::move(listener));
  }

  UniqueFd AcceptOne() {
    EXPECT_TRUE(WaitReadable(listener_->fd()));
    AcceptResult result = Accept(listener_->fd());
    EXPECT_EQ(result.outcome, AcceptOutcome::kAccepted);
    return std::move(result.fd);
  }

  const TempDir dir_;
  const std::string path_ = dir_.Path("sock");
  std::unique_ptr<ListeningSocket> listener_;
};

// A forked child keeps the socket open, so that no hang-up shows the death.
TEST_F(OpenPeerPidFdTest, ShowsTheDeathThatTheSocketHides) {
  ChildProcess child = ChildProcess::Fork([this] {
    const absl::StatusOr<UniqueFd> socket = Connect(path_);
    if (!socket.ok()) return 1;
    if (fork() == 0) {
      test::handshake::AwaitRelease();
      _exit(0);
    }
    test::handshake::Report();
    pause();
    return 0;
  });
  ASSERT_TRUE(child.AwaitReport());
  const UniqueFd connection = AcceptOne();
  const absl::StatusOr<PeerCredentials> peer =
      GetPeerCredentials(connection.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ(peer->pid, child.pid());
  const absl::StatusOr<UniqueFd> fd =
      OpenPeerPidFd(connection.get(), peer->pid);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(IsCloseOnExec(fd->get()));
  EXPECT_FALSE(IsReadable(fd->get()));
  ASSERT_TRUE(child.Signal(SIGKILL));
  EXPECT_TRUE(WaitReadable(fd->get()));
  EXPECT_FALSE(IsReadable(connection.get()));
  child.Release();
  EXPECT_TRUE(WaitReadable(connection.get()));
}

TEST_F(OpenPeerPidFdTest, PidThatCannotBeSeenIsAnError) {
  const absl::StatusOr<UniqueFd> client = Connect(path_);
  ASSERT_TRUE(client.ok()) << client.status();
  const UniqueFd connection = AcceptOne();
  EXPECT_THAT(OpenPeerPidFd(connection.get(), 0).status(), ErrorSays("pid 0"));
}

TEST_F(OpenPeerPidFdTest, WhatIsNoSocketIsAnError) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(OpenPeerPidFd(null.get(), getpid()).ok());
}

}  // namespace
}  // namespace tracering::os
