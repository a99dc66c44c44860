// Messages and descriptors between real sockets: none is lost, none leaks and
// nothing blocks, whatever the peer does.
#include "src/common/os/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

class MessageTest : public testing::Test {
 protected:
  MessageTest() { std::tie(ours_, peer_) = SocketPair(); }

  ReceivedMessage Receive(size_t max_fds = 0, size_t capacity = 1024) {
    buffer_.assign(capacity, '?');
    return ReceiveMessage(ours_.get(), buffer_.data(), capacity, max_fds);
  }

  // Any number of descriptors, to files that can be told apart.
  std::vector<UniqueFd> MakeFiles(size_t count) {
    std::vector<UniqueFd> files;
    for (size_t i = 0; i < count; ++i) {
      absl::StatusOr<UniqueFd> fd = CreateSealedMemory("file", 1);
      EXPECT_TRUE(fd.ok()) << fd.status();
      files.push_back(*std::move(fd));
    }
    return files;
  }

  static std::vector<int> Numbers(const std::vector<UniqueFd>& fds) {
    std::vector<int> numbers;
    for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
    return numbers;
  }

  void SendFromPeer(const std::string& bytes, const std::vector<int>& fds) {
    EXPECT_EQ(SendMessage(peer_.get(), bytes, fds).outcome, SendOutcome::kSent);
  }

  UniqueFd ours_;
  UniqueFd peer_;
  std::string buffer_;
};

TEST_F(MessageTest, MessagesArriveInOrderWithTheirBounds) {
  SendFromPeer("first", {});
  SendFromPeer(std::string("se\0ond", 6), {});
  ReceivedMessage message = Receive();
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_.substr(0, message.size), "first");
  message = Receive();
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_.substr(0, message.size), std::string("se\0ond", 6));
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kWouldBlock);
}

TEST_F(MessageTest, MessageThatFillsTheBufferIsWhole) {
  SendFromPeer("12345678", {});
  const ReceivedMessage message = Receive(0, 8);
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_, "12345678");
}

TEST_F(MessageTest, DescriptorsArriveInOrderCloseOnExec) {
  for (size_t count : {size_t{1}, size_t{2}, size_t{3}, kMaxFdsPerMessage}) {
    const std::vector<UniqueFd> files = MakeFiles(count);
    const size_t before = CountOpenFds();
    SendFromPeer("fds", Numbers(files));
    {
      const ReceivedMessage message = Receive(count);
      ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
      ASSERT_EQ(message.fds.size(), count);
      for (size_t i = 0; i < count; ++i) {
        const int fd = message.fds[i].get();
        EXPECT_TRUE(*IdentifyFile(fd) == *IdentifyFile(files[i].get())) << i;
        EXPECT_TRUE(IsCloseOnExec(fd));
      }
    }
    EXPECT_EQ(CountOpenFds(), before);
  }
}

TEST_F(MessageTest, EmptyMessagesAndTooManyDescriptorsAreNotSent) {
  const SendResult empty = SendMessage(peer_.get(), "");
  EXPECT_EQ(empty.outcome, SendOutcome::kFailed);
  EXPECT_EQ(empty.error, EINVAL);
  const SendResult many =
      SendMessage(peer_.get(), "x", std::vector<int>(kMaxFdsPerMessage + 1, 0));
  EXPECT_EQ(many.outcome, SendOutcome::kFailed);
  EXPECT_EQ(many.error, EINVAL);
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kWouldBlock);
}

TEST_F(MessageTest, OtherFailuresCarryTheirErrno) {
  const SendResult sent = SendMessage(-1, "x");
  EXPECT_EQ(sent.outcome, SendOutcome::kFailed);
  EXPECT_EQ(sent.error, EBADF);
  const SendResult bad_fd = SendMessage(peer_.get(), "x", {-1});
  EXPECT_EQ(bad_fd.outcome, SendOutcome::kFailed);
  EXPECT_EQ(bad_fd.error, EBADF);
  ours_.reset();
  const ReceivedMessage received = Receive();
  EXPECT_EQ(received.outcome, ReceiveOutcome::kFailed);
  EXPECT_EQ(received.error, EBADF);
}

// Both sockets are blocking ones here, as a peer could make them.
TEST_F(MessageTest, FullQueueDoesNotBlockTheSender) {
  const std::string bytes(1000, 'x');
  SendResult result;
  int sent = 0;
  for (;; ++sent) {
    result = SendMessage(peer_.get(), bytes);
    if (result.outcome != SendOutcome::kSent) break;
    ASSERT_LT(sent, 1'000'000);
  }
  EXPECT_EQ(result.outcome, SendOutcome::kWouldBlock);
  EXPECT_GT(sent, 0);
  for (; sent > 0; --sent) {
    ASSERT_EQ(Receive().outcome, ReceiveOutcome::kMessage);
  }
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kWouldBlock);
  EXPECT_EQ(SendMessage(peer_.get(), bytes).outcome, SendOutcome::kSent);
}

TEST_F(MessageTest, PeerThatIsGoneIsClosedForBothDirections) {
  peer_.reset();
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kClosed);
  EXPECT_EQ(SendMessage(ours_.get(), "x").outcome, SendOutcome::kClosed);
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kClosed);
}

TEST_F(MessageTest, WhatAPeerSentBeforeItDiedIsReceived) {
  SendFromPeer("last words", {});
  peer_.reset();
  const ReceivedMessage message = Receive();
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_.substr(0, message.size), "last words");
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kClosed);
}

// The kernel reports the reset ahead of the messages in the queue. Taking it
// for the end would lose the rings that came with them.
TEST_F(MessageTest, WhatAPeerSentBeforeItDiedUnreadIsReceived) {
  ASSERT_EQ(SendMessage(ours_.get(), "unread").outcome, SendOutcome::kSent);
  const std::vector<UniqueFd> files = MakeFiles(1);
  SendFromPeer("last", Numbers(files));
  SendFromPeer("words", {});
  peer_.reset();
  ReceivedMessage message = Receive(1);
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_.substr(0, message.size), "last");
  EXPECT_EQ(message.fds.size(), 1u);
  message = Receive(1);
  ASSERT_EQ(message.outcome, ReceiveOutcome::kMessage);
  EXPECT_EQ(buffer_.substr(0, message.size), "words");
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kClosed);
}

TEST_F(MessageTest, MessageLongerThanTheBufferIsRefusedWithItsDescriptors) {
  const std::vector<UniqueFd> files = MakeFiles(3);
  const size_t before = CountOpenFds();
  SendFromPeer("123456789", Numbers(files));
  SendFromPeer("next", {});
  const ReceivedMessage message = Receive(3, 8);
  EXPECT_EQ(message.outcome, ReceiveOutcome::kPayloadTruncated);
  EXPECT_EQ(message.size, 0u);
  EXPECT_TRUE(message.fds.empty());
  EXPECT_EQ(CountOpenFds(), before);
  EXPECT_EQ(Receive().outcome, ReceiveOutcome::kMessage);
}

TEST_F(MessageTest, MoreDescriptorsThanAllowedAreRefusedAndClosed) {
  const std::vector<std::pair<size_t, size_t>> sent_and_allowed = {
      {1, 0}, {2, 1}, {3, 2}, {4, 1}, {kMaxFdsPerMessage, 252}};
  for (const auto& [sent, allowed] : sent_and_allowed) {
    const std::vector<UniqueFd> files = MakeFiles(sent);
    const size_t before = CountOpenFds();
    SendFromPeer("fds", Numbers(files));
    const ReceivedMessage message = Receive(allowed);
    EXPECT_EQ(message.outcome, ReceiveOutcome::kControlTruncated) << sent;
    EXPECT_TRUE(message.fds.empty());
    EXPECT_EQ(CountOpenFds(), before);
  }
}

TEST_F(MessageTest, NoRoomForDescriptorsIsRefusedAndTheFirstOnesAreClosed) {
  const std::vector<UniqueFd> files = MakeFiles(3);
  const size_t before = CountOpenFds();
  for (int left = 0; left < 3; ++left) {
    SendFromPeer("fds", Numbers(files));
    const FullFdTable full(left);
    const ReceivedMessage message = Receive(3);
    EXPECT_EQ(message.outcome, ReceiveOutcome::kControlTruncated) << left;
    EXPECT_TRUE(message.fds.empty());
  }
  EXPECT_EQ(CountOpenFds(), before);
}

TEST_F(MessageTest, EmptyMessageWithDescriptorsIsClosedAndSoAreThey) {
  const std::vector<UniqueFd> files = MakeFiles(1);
  const size_t before = CountOpenFds();
  const int file = files[0].get();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &file, sizeof(file));
  ASSERT_EQ(sendmsg(peer_.get(), &header, 0), 0);
  const ReceivedMessage message = Receive(1);
  EXPECT_EQ(message.outcome, ReceiveOutcome::kClosed);
  EXPECT_TRUE(message.fds.empty());
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(GetPeerCredentialsTest, NamesTheProcessAtTheOtherEnd) {
  const TempDir dir;
  const std::string path = dir.Path("sock");
  absl::StatusOr<ListeningSocket> listener =
      ListeningSocket::Create(path, 0600);
  ASSERT_TRUE(listener.ok()) << listener.status();
  test::ChildProcess child = test::ChildProcess::Fork([&path] {
    const absl::StatusOr<UniqueFd> socket = Connect(path);
    if (!socket.ok()) return 1;
    const absl::StatusOr<PeerCredentials> service =
        GetPeerCredentials(socket->get());
    if (!service.ok() || service->pid != getppid()) return 2;
    test::handshake::Report();
    test::handshake::AwaitRelease();
    return 0;
  });
  ASSERT_TRUE(child.AwaitReport());
  const AcceptResult accepted = Accept(listener->fd());
  ASSERT_EQ(accepted.outcome, AcceptOutcome::kAccepted);
  const absl::StatusOr<PeerCredentials> peer =
      GetPeerCredentials(accepted.fd.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, child.pid());
  EXPECT_EQ(peer->uid, getuid());
  EXPECT_EQ(peer->gid, getgid());
  child.Release();
  ASSERT_TRUE(child.Wait().has_value());
  EXPECT_EQ(child.Wait()->code, 0);
}

TEST(GetPeerCredentialsTest, FailsOnWhatIsNoSocket) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(GetPeerCredentials(null.get()).ok());
}

TEST(ConnectTest, ErrorsNameThePath) {
  const TempDir dir;
  const std::string missing = dir.Path("missing");
  absl::Status status = Connect(missing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status, ErrorSays(missing));

  const std::string file = dir.Path("file");
  const UniqueFd fd(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  status = Connect(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status, ErrorSays(file));

  const std::string too_long(108, 'p');
  status = Connect(too_long).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status, ErrorSays(too_long));
  EXPECT_THAT(status, ErrorSays("has 108 bytes; the limit is 107"));
}

TEST(ConnectTest, FullQueueOfTheServiceIsUnavailableAndDoesNotBlock) {
  const TempDir dir;
  const std::string path = dir.Path("sock");
  absl::StatusOr<ListeningSocket> listener =
      ListeningSocket::Create(path, 0600);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<UniqueFd> queued;
  absl::Status status;
  while (status.ok()) {
    absl::StatusOr<UniqueFd> fd = Connect(path);
    status = fd.status();
    if (fd.ok()) queued.push_back(*std::move(fd));
    ASSERT_LT(queued.size(), 10'000u);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Accept(listener->fd()).outcome, AcceptOutcome::kAccepted);
  EXPECT_TRUE(Connect(path).ok());
}

}  // namespace
}  // namespace tracering::os
