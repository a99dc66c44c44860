// Who may take a socket path, and who may remove it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/unix_socket.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

namespace fs = std::filesystem;

class ListeningSocketTest : public testing::Test {
 protected:
  absl::StatusOr<ListeningSocket> Listen(mode_t mode = 0600) {
    return ListeningSocket::Create(path_, mode);
  }

  // What a service leaves behind that was killed.
  void LeaveStaleSocket() {
    test::ChildProcess service = test::ChildProcess::Fork([this] {
      const absl::StatusOr<ListeningSocket> socket = Listen();
      if (!socket.ok()) return 1;
      test::handshake::Report();
      test::handshake::AwaitRelease();
      return 0;
    });
    ASSERT_TRUE(service.AwaitReport());
    ASSERT_TRUE(service.Signal(SIGKILL));
    ASSERT_TRUE(service.Wait().has_value());
    ASSERT_TRUE(IsSocket());
  }

  // A socket at path_ that was not made by us.
  UniqueFd BindForeign(int type) {
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    test::Require(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address)) == 0,
                  "bind");
    return fd;
  }

  bool IsSocket() const { return fs::is_socket(fs::symlink_status(path_)); }
  bool Exists() const { return fs::exists(fs::symlink_status(path_)); }

  const TempDir dir_;
  const std::string path_ = dir_.Path("service.sock");
  const std::string lock_path_ = path_ + ".lock";
};

TEST_F(ListeningSocketTest, AcceptsConnectionsNonBlockingAndCloseOnExec) {
  absl::StatusOr<ListeningSocket> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(listener->path(), path_);
  EXPECT_TRUE(IsNonBlocking(listener->fd()));
  EXPECT_TRUE(IsCloseOnExec(listener->fd()));
  EXPECT_EQ(Accept(listener->fd()).outcome, AcceptOutcome::kWouldBlock);

  const absl::StatusOr<UniqueFd> client = Connect(path_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(IsReadable(listener->fd()));
  const AcceptResult accepted = Accept(listener->fd());
  ASSERT_EQ(accepted.outcome, AcceptOutcome::kAccepted);
  for (int fd : {client->get(), accepted.fd.get()}) {
    EXPECT_TRUE(IsNonBlocking(fd));
    EXPECT_TRUE(IsCloseOnExec(fd));
  }
  ASSERT_EQ(SendMessage(client->get(), "hello").outcome, SendOutcome::kSent);
  char buffer[16];
  const ReceivedMessage message =
      ReceiveMessage(accepted.fd.get(), buffer, sizeof(buffer), 0);
  EXPECT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(std::string(buffer, message.size), "hello");
}

TEST_F(ListeningSocketTest, ModeIsWhatWasAskedForWhateverTheUmask) {
  const mode_t umask_before = umask(0);
  for (mode_t mask : {0000, 0077, 0777}) {
    for (mode_t mode : {0600, 0666}) {
      umask(mask);
      const absl::StatusOr<ListeningSocket> listener = Listen(mode);
      umask(umask_before);
      ASSERT_TRUE(listener.ok()) << listener.status();
      struct stat file {};
      ASSERT_EQ(stat(path_.c_str(), &file), 0);
      EXPECT_EQ(file.st_mode & 07777, mode) << mask;
    }
  }
}

TEST_F(ListeningSocketTest, LiveServiceIsRefusedWithThePathAndGoesOn) {
  const absl::StatusOr<ListeningSocket> first = Listen();
  ASSERT_TRUE(first.ok()) << first.status();
  const size_t before = CountOpenFds();
  const absl::Status second = Listen().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(second, ErrorSays(path_));
  EXPECT_EQ(CountOpenFds(), before);
  // The look at it left a connection in its queue, closed by now.
  const AcceptResult probe = Accept(first->fd());
  ASSERT_EQ(probe.outcome, AcceptOutcome::kAccepted);
  char byte = 0;
  EXPECT_EQ(ReceiveMessage(probe.fd.get(), &byte, 1, 0).outcome,
            ReceiveOutcome::kClosed);
  EXPECT_TRUE(Connect(path_).ok());
  EXPECT_EQ(Accept(first->fd()).outcome, AcceptOutcome::kAccepted);
}

TEST_F(ListeningSocketTest, LiveServiceWithAFullQueueIsNotTakenForStale) {
  const UniqueFd busy = BindForeign(SOCK_SEQPACKET);
  ASSERT_EQ(listen(busy.get(), 0), 0);
  std::vector<UniqueFd> queued;
  for (;;) {
    absl::StatusOr<UniqueFd> fd = Connect(path_);
    if (!fd.ok()) break;
    queued.push_back(*std::move(fd));
    ASSERT_LT(queued.size(), 1000u);
  }
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(IsSocket());
}

TEST_F(ListeningSocketTest, LiveServiceOfAnotherKindIsRefused) {
  const UniqueFd stream = BindForeign(SOCK_STREAM);
  ASSERT_EQ(listen(stream.get(), 1), 0);
  const absl::Status status = Listen().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status, ErrorSays(path_));
  EXPECT_TRUE(IsSocket());
}

TEST_F(ListeningSocketTest, SocketOfAKilledServiceIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(LeaveStaleSocket());
  EXPECT_EQ(Connect(path_).status().code(), absl::StatusCode::kUnavailable);
  const absl::StatusOr<ListeningSocket> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Connect(path_).ok());
  EXPECT_EQ(Accept(listener->fd()).outcome, AcceptOutcome::kAccepted);
}

TEST_F(ListeningSocketTest, FileThatIsNoSocketIsNeverReplaced) {
  std::ofstream(path_) << "precious";
  const absl::Status status = Listen().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status, ErrorSays(path_));
  EXPECT_EQ(fs::file_size(path_), 8u);

  // Nor is a link followed to a socket, stale as that may be.
  fs::remove(path_);
  ASSERT_NO_FATAL_FAILURE(LeaveStaleSocket());
  const std::string target = dir_.Path("target");
  fs::rename(path_, target);
  fs::create_symlink(target, path_);
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::is_socket(target));
}

TEST_F(ListeningSocketTest, ImpossiblePathsAreErrorsThatNameThem) {
  const std::string longest = dir_.Path("") + std::string(80, 'p');
  const std::string too_long = longest + std::string(108 - longest.size(), 'p');
  absl::Status status = ListeningSocket::Create(too_long, 0600).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status, ErrorSays(too_long));
  EXPECT_THAT(status, ErrorSays("108 bytes; the limit is 107"));
  EXPECT_TRUE(
      ListeningSocket::Create(too_long.substr(0, 107), 0600).status().ok());

  EXPECT_THAT(ListeningSocket::Create("", 0600).status(),
              ErrorSays("must not be empty"));
  EXPECT_THAT(
      ListeningSocket::Create(std::string("/tmp/a\0b", 8), 0600).status(),
      ErrorSays("zero byte"));
  const std::string nowhere = dir_.Path("missing/service.sock");
  EXPECT_THAT(ListeningSocket::Create(nowhere, 0600).status(),
              ErrorSays(nowhere));
}

TEST_F(ListeningSocketTest, UnlinksItsPathAtTheEndAndLeavesNoLock) {
  {
    const absl::StatusOr<ListeningSocket> listener = Listen();
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(IsSocket());
    EXPECT_FALSE(fs::exists(lock_path_));
  }
  EXPECT_FALSE(Exists());
  EXPECT_FALSE(fs::exists(lock_path_));
}

TEST_F(ListeningSocketTest, MovedSocketUnlinksOnceAtTheEndOfTheLastOwner) {
  absl::StatusOr<ListeningSocket> first = Listen();
  ASSERT_TRUE(first.ok()) << first.status();
  {
    ListeningSocket second = *std::move(first);
    EXPECT_TRUE(IsSocket());
    absl::StatusOr<ListeningSocket> other =
        ListeningSocket::Create(dir_.Path("other.sock"), 0600);
    ASSERT_TRUE(other.ok()) << other.status();
    second = *std::move(other);
    EXPECT_FALSE(Exists());
    EXPECT_TRUE(fs::exists(dir_.Path("other.sock")));
  }
  EXPECT_FALSE(fs::exists(dir_.Path("other.sock")));
}

TEST_F(ListeningSocketTest, PathThatIsNoLongerOursIsLeftAlone) {
  UniqueFd foreign;
  {
    const absl::StatusOr<ListeningSocket> listener = Listen();
    ASSERT_TRUE(listener.ok()) << listener.status();
    fs::remove(path_);
    foreign = BindForeign(SOCK_SEQPACKET);
  }
  EXPECT_TRUE(IsSocket());
}

TEST_F(ListeningSocketTest, ForkedChildDoesNotUnlinkItsParentsPath) {
  absl::StatusOr<ListeningSocket> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  test::ChildProcess child = test::ChildProcess::Fork([&listener] {
    listener = absl::UnknownError("destroyed");
    return 0;
  });
  ASSERT_TRUE(child.Wait().has_value());
  EXPECT_TRUE(IsSocket());
  EXPECT_TRUE(Connect(path_).ok());
}

TEST_F(ListeningSocketTest, LockHeldBySomebodyElseIsAnErrorThatNamesIt) {
  const UniqueFd lock(
      open(lock_path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const absl::Status status = Listen().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status, ErrorSays(lock_path_));
  EXPECT_TRUE(fs::exists(lock_path_));
  EXPECT_FALSE(Exists());
}

TEST_F(ListeningSocketTest, LockFileThatNobodyHoldsIsNoObstacle) {
  std::ofstream(lock_path_) << "left over";
  EXPECT_TRUE(Listen().ok());
  EXPECT_FALSE(fs::exists(lock_path_));
}

TEST_F(ListeningSocketTest, LinkAsALockFileIsNotFollowed) {
  const std::string target = dir_.Path("target");
  fs::create_symlink(target, lock_path_);
  EXPECT_THAT(Listen().status(), ErrorSays(lock_path_));
  EXPECT_FALSE(fs::exists(target));
}

// Each of them may find the stale socket, and each may find that of another one
// that has bound but does not listen yet.
TEST_F(ListeningSocketTest, OneOfManyServicesStartedAtOnceTakesTheStalePath) {
  constexpr int kServices = 6;
  for (int round = 0; round < 5; ++round) {
    ASSERT_NO_FATAL_FAILURE(LeaveStaleSocket());
    std::vector<test::ChildProcess> services;
    for (int i = 0; i < kServices; ++i) {
      services.push_back(test::ChildProcess::Fork([this] {
        test::handshake::AwaitRelease();
        const absl::StatusOr<ListeningSocket> socket = Listen();
        test::handshake::Report();
        test::handshake::AwaitRelease();
        if (socket.ok()) return 0;
        const bool exists =
            socket.status().code() == absl::StatusCode::kAlreadyExists;
        return exists ? 1 : 2;
      }));
    }
    for (test::ChildProcess& service : services) service.Release();
    for (test::ChildProcess& service : services) {
      ASSERT_TRUE(service.AwaitReport());
    }
    EXPECT_TRUE(Connect(path_).ok());
    int winners = 0;
    for (test::ChildProcess& service : services) {
      service.Release();
      const auto exit = service.Wait();
      ASSERT_TRUE(exit.has_value());
      EXPECT_NE(exit->code, 2);
      winners += exit->code == 0 ? 1 : 0;
    }
    EXPECT_EQ(winners, 1);
    EXPECT_FALSE(Exists());
  }
}

// Each of them holds the path alone while it has it. Does not prove that: it
// looks for two at once where the lock file itself comes and goes.
TEST_F(ListeningSocketTest, ServicesThatComeAndGoNeverShareThePath) {
  constexpr int kServices = 3;
  constexpr int kRounds = 4000;
  const std::string marker = dir_.Path("marker");
  std::vector<test::ChildProcess> services;
  for (int i = 0; i < kServices; ++i) {
    services.push_back(test::ChildProcess::Fork([&] {
      for (int round = 0; round < kRounds; ++round) {
        const absl::StatusOr<ListeningSocket> socket = Listen();
        if (!socket.ok()) continue;
        const UniqueFd alone(
            open(marker.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!alone.valid()) return 1;
        if (unlink(marker.c_str()) != 0) return 2;
      }
      return 0;
    }));
  }
  for (test::ChildProcess& service : services) {
    const auto exit = service.Wait();
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->code, 0);
  }
}

TEST_F(ListeningSocketTest, FullFdTableLeavesTheConnectionInTheQueue) {
  const absl::StatusOr<ListeningSocket> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  const absl::StatusOr<UniqueFd> client = Connect(path_);
  ASSERT_TRUE(client.ok()) << client.status();
  {
    const FullFdTable full;
    const AcceptResult result = Accept(listener->fd());
    EXPECT_EQ(result.outcome, AcceptOutcome::kOutOfResources);
    EXPECT_EQ(result.error, EMFILE);
  }
  EXPECT_EQ(Accept(listener->fd()).outcome, AcceptOutcome::kAccepted);
}

TEST(AcceptTest, OtherFailuresCarryTheirErrno) {
  const AcceptResult result = Accept(-1);
  EXPECT_EQ(result.outcome, AcceptOutcome::kFailed);
  EXPECT_EQ(result.error, EBADF);
}

}  // namespace
}  // namespace tracering::os
