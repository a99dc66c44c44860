// Descriptors that take half an hour to close, as a hostile peer can send them.
#include "src/common/os/untrusted_fds.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/memfd.h"
#include "src/common/os/unix_socket.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/sanitizers.h"

namespace tracering::os {
namespace {

// A TCP connection whose one end takes half an hour to close, because the other
// end reads nothing. Resetting the other end lets it close.
class LingeringSocket {
 public:
  LingeringSocket() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    test::Require(bind(listener.get(), generic, size) == 0, "bind");
    test::Require(listen(listener.get(), 1) == 0, "listen");
    test::Require(getsockname(listener.get(), generic, &size) == 0,
                  "getsockname");
    closing_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    test::Require(connect(closing_.get(), generic, size) == 0, "connect");
    reader_.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    test::Require(reader_.valid(), "accept");
    const std::string bytes(1 << 16, 'x');
    while (send(closing_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    SetLinger(closing_, 1800);
  }

  ~LingeringSocket() {
    SetLinger(reader_, 0);  // closes by a reset
    reader_.reset();
  }

  // The only descriptor of the end that takes long.
  UniqueFd TakeFd() { return std::move(closing_); }

 private:
  static void SetLinger(const UniqueFd& fd, int seconds) {
    const linger option{1, seconds};
    test::Require(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &option,
                             sizeof(option)) == 0,
                  "SO_LINGER");
  }

  UniqueFd closing_;
  UniqueFd reader_;
};

std::vector<UniqueFd> ListOf(UniqueFd fd) {
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(fd));
  return fds;
}

// A hang-up shows that the only writing end is gone.
bool AwaitHangUp(const UniqueFd& reader) {
  pollfd hang_up{reader.get(), 0, 0};
  return poll(&hang_up, 1, kDeadlineMs) == 1;
}

// The reading end of a pipe, whose writing end is given to CloseUntrusted.
UniqueFd CloseWriterOfAPipe() {
  int pipe_fds[2];
  test::Require(pipe2(pipe_fds, O_CLOEXEC) == 0, "pipe2");
  CloseUntrusted(ListOf(UniqueFd(pipe_fds[1])));
  return UniqueFd(pipe_fds[0]);
}

// The tests that count descriptors come first: the others leave threads behind
// that close some in their own time.

TEST(CloseConnectionTest, ClosesTheSocketAndWhatWasInIt) {
  const size_t before = CountOpenFds();
  {
    auto [ours, peer] = SocketPair();
    const UniqueFd memory = MakeMemory();
    ASSERT_EQ(SendMessage(peer.get(), "x", {memory.get()}).outcome,
              SendOutcome::kSent);
    ASSERT_EQ(SendMessage(peer.get(), "y").outcome, SendOutcome::kSent);
    const size_t open = CountOpenFds();
    CloseConnection(std::move(ours));
    EXPECT_EQ(CountOpenFds(), open - 1);
  }
  EXPECT_EQ(CountOpenFds(), before);
  CloseConnection(UniqueFd());
}

TEST(CloseUntrustedTest, MemoryFilesAreClosedAtOnce) {
  const size_t before = CountOpenFds();
  std::vector<UniqueFd> fds = ListOf(MakeMemory());
  fds.push_back(MakeMemory());
  CloseUntrusted(std::move(fds));
  EXPECT_EQ(CountOpenFds(), before);
  CloseUntrusted({});
}

TEST(CloseUntrustedTest, OtherFilesAreClosedTooInTheirOwnTime) {
  EXPECT_TRUE(AwaitHangUp(CloseWriterOfAPipe()));
}

// Pins that descriptors were left open for good once more than a few closes
// were under way.
TEST(CloseUntrustedTest, DescriptorsBehindManyThatTakeLongAreClosedInTheEnd) {
  std::vector<LingeringSocket> sockets(8);
  for (LingeringSocket& socket : sockets) {
    CloseUntrusted(ListOf(socket.TakeFd()));
  }
  const UniqueFd reader = CloseWriterOfAPipe();
  sockets.clear();
  EXPECT_TRUE(AwaitHangUp(reader));
}

TEST(CloseUntrustedTest, FloodIsClosedToTheLast) {
  std::vector<UniqueFd> readers;
  for (int i = 0; i < 400; ++i) readers.push_back(CloseWriterOfAPipe());
  for (const UniqueFd& reader : readers) ASSERT_TRUE(AwaitHangUp(reader));
}

TEST(CloseUntrustedTest, DescriptorThatNeverClosesHoldsUpNoOther) {
  LingeringSocket lingering;
  CloseUntrusted(ListOf(lingering.TakeFd()));
  EXPECT_TRUE(AwaitHangUp(CloseWriterOfAPipe()));
}

TEST(CloseUntrustedTest, ForkedChildClosesToo) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "no threads in forked children";
  LingeringSocket lingering;
  CloseUntrusted(ListOf(lingering.TakeFd()));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(AwaitHangUp(CloseWriterOfAPipe()) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Each of these would hang for half an hour.
TEST(CloseUntrustedTest, DescriptorsThatTakeLongToCloseAreNotWaitedFor) {
  std::vector<LingeringSocket> sockets(10);
  for (LingeringSocket& socket : sockets) {
    CloseUntrusted(ListOf(socket.TakeFd()));
  }
}

TEST(CloseUntrustedTest, RefusedMessageWithSuchADescriptorDoesNotHang) {
  const auto [ours, peer] = SocketPair();
  LingeringSocket lingering;
  {
    const UniqueFd fd = lingering.TakeFd();
    ASSERT_EQ(SendMessage(peer.get(), "long", {fd.get()}).outcome,
              SendOutcome::kSent);
    ASSERT_EQ(SendMessage(peer.get(), "many", {fd.get()}).outcome,
              SendOutcome::kSent);
  }
  char buffer[4];
  EXPECT_EQ(ReceiveMessage(ours.get(), buffer, 1, 1).outcome,
            ReceiveOutcome::kPayloadTruncated);
  EXPECT_EQ(ReceiveMessage(ours.get(), buffer, 4, 0).outcome,
            ReceiveOutcome::kControlTruncated);
}

TEST(CloseUnheardTest, MessagesThatNobodyReceivedDoNotHang) {
  auto [ours, peer] = SocketPair();
  LingeringSocket lingering;
  {
    const UniqueFd fd = lingering.TakeFd();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(SendMessage(peer.get(), "unread", {fd.get()}).outcome,
                SendOutcome::kSent);
    }
  }
  CloseConnection(std::move(ours));
  EXPECT_EQ(SendMessage(peer.get(), "more").outcome, SendOutcome::kClosed);
}

}  // namespace
}  // namespace tracering::os
