// A producer's end of the control socket that says exactly what a test wants,
// sensible or not. Includes nothing of src/producer.
//
// Waits have a deadline that only something that hangs reaches.
#ifndef TRACERING_TESTS_CONSUMER_RAW_CLIENT_H_
#define TRACERING_TESTS_CONSUMER_RAW_CLIENT_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/common/abi/control_header.h"
#include "src/common/control/codec.h"
#include "src/common/os/unix_socket.h"
#include "tests/consumer/fed_ring.h"
#include "tests/support/eventually.h"

namespace tracering::test {

class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    // A full backlog refuses for a moment, as real producers know.
    absl::StatusOr<os::UniqueFd> fd = absl::UnavailableError("not tried");
    EXPECT_TRUE(Eventually([&] {
      fd = os::Connect(path);
      return fd.ok();
    })) << fd.status();
    if (fd.ok()) fd_ = *std::move(fd);
  }

  int fd() const { return fd_.get(); }
  void Close() { fd_.reset(); }

  void Send(const control::ProducerMessage& message,
            const std::vector<int>& fds = {}) {
    std::string bytes;
    EXPECT_EQ(control::EncodeProducerMessage(message, &bytes),
              control::CodecOutcome::kOk);
    SendBytes(bytes, fds);
  }
  // False if the queue is full.
  [[nodiscard]] bool TrySend(const control::ProducerMessage& message) {
    std::string bytes;
    EXPECT_EQ(control::EncodeProducerMessage(message, &bytes),
              control::CodecOutcome::kOk);
    return os::SendMessage(fd_.get(), bytes, {}).outcome ==
           os::SendOutcome::kSent;
  }
  // Lets the queue hold thousands of messages, if we may.
  void GrowQueue() {
    const int size = 8 << 20;
    (void)setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &size,
                     sizeof(size));
  }
  void SendBytes(const std::string& bytes, const std::vector<int>& fds = {}) {
    EXPECT_EQ(os::SendMessage(fd_.get(), bytes, fds).outcome,
              os::SendOutcome::kSent);
  }

  // The next message of the service; nothing once it has closed the socket.
  std::optional<control::ConsumerMessage> Receive() {
    std::vector<char> buffer(control::kMaxMessageSize);
    for (;;) {
      pollfd entry{fd_.get(), POLLIN, 0};
      if (poll(&entry, 1, 30'000) != 1) {
        ADD_FAILURE() << "the service neither answers nor hangs up";
        return std::nullopt;
      }
      os::ReceivedMessage received =
          os::ReceiveMessage(fd_.get(), buffer.data(), buffer.size(), 4);
      if (received.outcome == os::ReceiveOutcome::kWouldBlock) continue;
      if (received.outcome != os::ReceiveOutcome::kMessage) return std::nullopt;
      for (os::UniqueFd& fd : received.fds) event_fd_ = std::move(fd);
      control::ConsumerMessage message;
      EXPECT_EQ(control::DecodeConsumerMessage({buffer.data(), received.size},
                                               &message),
                control::CodecOutcome::kOk);
      return message;
    }
  }
  std::optional<control::Welcome> ReceiveWelcome() {
    auto message = Receive();
    if (!message.has_value()) return std::nullopt;
    auto* welcome = std::get_if<control::Welcome>(&*message);
    if (welcome == nullptr) return std::nullopt;
    return std::move(*welcome);
  }
  // The reason of the Reject that comes next, and that the socket is closed
  // behind it. Empty if that is not what happens.
  std::string ReceiveReject() {
    const auto message = Receive();
    if (!message.has_value()) return "";
    const auto* reject = std::get_if<control::Reject>(&*message);
    if (reject == nullptr || Receive().has_value()) return "";
    return reject->reason;
  }
  bool AwaitHangUp() { return !Receive().has_value(); }

  // Came with Welcome.
  const os::UniqueFd& event_fd() const { return event_fd_; }

 private:
  os::UniqueFd fd_;
  os::UniqueFd event_fd_;
};

// Hello of a producer whose BufferIds are those of FedRing.
inline control::Hello HelloFor(std::vector<FedRing*> rings) {
  control::Hello hello;
  hello.abi_version_min = abi::kAbiVersion;
  hello.abi_version_max = abi::kAbiVersion;
  hello.process_name = "raw client";
  hello.pid = static_cast<uint32_t>(getpid());
  for (FedRing* ring : rings) {
    control::RingInfo info;
    info.num_chunks = ring->image().geometry().num_chunks();
    info.chunk_size = ring->image().geometry().chunk_size();
    info.index = static_cast<uint32_t>(hello.rings.size());
    hello.rings.push_back(info);
  }
  hello.buffers = {{1, "main"}, {2, "other"}, {9, "metadata"}};
  return hello;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_CONSUMER_RAW_CLIENT_H_
