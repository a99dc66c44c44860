// The service's end of the control socket, played by a test: what it sends and
// when is the test's decision, and rings are read by tests/support's reader.
//
// One thread at a time. Every wait has a deadline, after which the test fails.
#ifndef TRACERING_TESTS_PRODUCER_SCRIPTED_SERVICE_H_
#define TRACERING_TESTS_PRODUCER_SCRIPTED_SERVICE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/common/control/messages.h"
#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/os/unique_fd.h"
#include "src/common/os/unix_socket.h"
#include "tests/support/ring_decoder.h"
#include "tests/support/trace.pb.h"

namespace tracering::test {

// Generous: reached only where something hangs.
inline constexpr std::chrono::milliseconds kServiceDeadline{30'000};

// Waits until `fd` shows one of `events` (of poll); false after `timeout`.
bool PollFd(int fd, short events,
            std::chrono::milliseconds timeout = kServiceDeadline);

// One producer that has connected.
class Session {
 public:
  explicit Session(os::UniqueFd socket);

  // Takes in the Hello and maps its rings. False if something else came.
  bool ReceiveHello();
  const control::Hello& hello() const { return hello_; }

  // Sends Welcome with an eventfd of our own.
  bool Welcome(std::vector<std::string> unknown_buffers = {});
  bool Send(const control::ConsumerMessage& message,
            const std::vector<int>& fds = {});
  bool SendBytes(std::string_view bytes, const std::vector<int>& fds = {});

  // The next message; nothing if the producer hung up or sent nonsense.
  std::optional<control::ProducerMessage> Receive();
  // Whether the producer hangs up, after messages that are taken in.
  bool AwaitHangUp();

  int socket() const { return socket_.get(); }
  int event_fd() const { return event_fd_.get(); }
  const std::vector<os::UniqueFd>& memfds() const { return memfds_; }
  size_t num_rings() const { return memfds_.size(); }
  uint8_t* ring_base(size_t ring) const;
  // The name that the producer gave to a buffer id in Hello or AddBuffers that
  // has been received; empty if none.
  std::string BufferName(uint16_t id) const;

  // Resolves what is outstanding in a ring, in all rings.
  size_t Drain(size_t ring);
  size_t DrainAll();
  const ReferenceReader& reader(size_t ring) const { return *readers_[ring]; }
  // Packets so far of all rings but that of descriptors.
  std::vector<TracePacket> Packets() const;
  std::vector<TracePacket> PacketsOf(size_t ring) const;
  // The ring that Hello says is for descriptors.
  size_t metadata_ring() const;
  std::vector<std::string> Violations() const;

 private:
  void Remember(const std::vector<control::BufferInfo>& buffers);

  os::UniqueFd socket_;
  os::UniqueFd event_fd_;
  control::Hello hello_;
  std::vector<os::UniqueFd> memfds_;
  std::vector<os::SharedMapping> mappings_;
  std::vector<std::unique_ptr<ReferenceReader>> readers_;
  std::vector<control::BufferInfo> buffers_;
};

// Group-encoded bytes as a packet; a test failure if they do not parse.
TracePacket ParsePacket(const std::string& bytes);

class ScriptedService {
 public:
  explicit ScriptedService(const std::string& path);

  int fd() const { return listener_->fd(); }
  // The next producer to connect; null after the deadline.
  std::unique_ptr<Session> Accept(
      std::chrono::milliseconds timeout = kServiceDeadline);
  // The same, greeted.
  std::unique_ptr<Session> AcceptAndReceiveHello();
  std::unique_ptr<Session> AcceptAndWelcome(
      std::vector<std::string> unknown_buffers = {});

 private:
  std::optional<os::ListeningSocket> listener_;
};

// A service that welcomes every producer and drains their rings on a thread of
// its own, until Stop.
class DrainingService {
 public:
  struct Client {
    std::unique_ptr<Session> session;
    bool connected = true;
    bool said_goodbye = false;
  };

  explicit DrainingService(const std::string& path);
  ~DrainingService() { Stop(); }

  // Ends the thread after a last pass over all rings.
  void Stop();
  // In the order in which they came. After Stop.
  const std::vector<Client>& clients() const { return clients_; }

 private:
  void Run();
  void AcceptOne();
  static void HandleSocket(Client* client);

  ScriptedService service_;
  std::vector<Client> clients_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_PRODUCER_SCRIPTED_SERVICE_H_
