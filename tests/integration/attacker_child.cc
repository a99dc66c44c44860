// A producer that does to the service at $TRACERING_SOCKET whatever the
// interfaces between them let it do, at full speed, until it is killed:
//
//  - it attaches real rings and then forges words, sizes, payload and cursors,
//    also where an honest writer and a reader race; a ring that was stopped is
//    followed by a new one, a connection that was ended by another;
//  - it fills, empties and unblocks its eventfd;
//  - it asks for more than the limits allow, sends what is no message,
//    descriptors that are no ring, too many, and connects without a word.
//
// Reports once its rings are attached and under attack.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "src/common/control/codec.h"
#include "src/common/os/unix_socket.h"
#include "tests/support/child_process.h"
#include "tests/support/require.h"
#include "tests/support/ring_image.h"

namespace tracering::test {
namespace {

using abi::State;
using Random = std::mt19937_64;

// Forgeries between two looks at whether the service has hung up.
constexpr int kForgeries = 2000;
// New rings over one connection: more than the limit.
constexpr int kRingsPerConnection = 12;

std::string SocketPath() {
  const char* const path = std::getenv("TRACERING_SOCKET");
  Require(path != nullptr, "$TRACERING_SOCKET");
  return path;
}

// One connection. Nothing that goes wrong on it matters.
class Connection {
 public:
  Connection() {
    while (!socket_.valid()) {
      absl::StatusOr<os::UniqueFd> socket = os::Connect(SocketPath());
      if (socket.ok()) {
        socket_ = *std::move(socket);
      } else {
        std::this_thread::yield();
      }
    }
  }

  void SendBytes(const std::string& bytes, const std::vector<int>& fds = {}) {
    (void)os::SendMessage(socket_.get(), bytes, fds);
  }
  void Send(const control::ProducerMessage& message,
            const std::vector<int>& fds = {}) {
    std::string bytes;
    if (control::EncodeProducerMessage(message, &bytes) ==
        control::CodecOutcome::kOk) {
      SendBytes(bytes, fds);
    }
  }
  // The eventfd of a Welcome; invalid if there was none.
  os::UniqueFd AwaitWelcome() {
    std::vector<char> buffer(control::kMaxMessageSize);
    for (;;) {
      pollfd entry{socket_.get(), POLLIN, 0};
      (void)poll(&entry, 1, -1);
      os::ReceivedMessage received =
          os::ReceiveMessage(socket_.get(), buffer.data(), buffer.size(), 1);
      if (received.outcome == os::ReceiveOutcome::kWouldBlock) continue;
      if (received.fds.size() != 1) return os::UniqueFd();
      return std::move(received.fds[0]);
    }
  }
  bool HungUp() const {
    pollfd entry{socket_.get(), POLLRDHUP, 0};
    return poll(&entry, 1, 0) != 0;
  }

 private:
  os::UniqueFd socket_;
};

control::Hello MakeHello(size_t num_rings) {
  control::Hello hello;
  hello.abi_version_min = hello.abi_version_max = abi::kAbiVersion;
  hello.process_name = "attacker\n\x1b[2J";
  hello.rings.resize(num_rings, {16, 512, control::RingRole::kShared, 0});
  hello.buffers = {{1, "noise"}, {2, "metadata"}, {3, "no such buffer"}};
  return hello;
}

// --- Rings ---

// What an honest writer could have published, and sometimes could not.
ForgedChunk AnyChunk(Random& random) {
  ForgedChunk chunk;
  chunk.writer = static_cast<uint16_t>(random() % 4);
  chunk.buffer = static_cast<uint16_t>(1 + random() % 4);
  chunk.flags = (random() % 8) << abi::kFlagsShift;
  for (uint64_t left = 1 + random() % 3; left != 0; --left) {
    chunk.fragments.push_back(std::string("\x40\x2a\x5a", 3) +
                              static_cast<char>(random() % 100) +
                              std::string(random() % 100, '\x04'));
  }
  return chunk;
}

// A word that breaks the rules for good, most of the time.
void BreakRing(RingImage* ring, Random& random) {
  constexpr std::array<size_t, 6> kWords = {
      abi::kReadPosOffset,     abi::kReaderEpochOffset,
      abi::kWritePosOffset,    abi::kWakeupThresholdOffset,
      abi::kReaderArmedOffset, abi::kNumWritersWaitingOffset};
  const auto word = static_cast<uint32_t>(random());
  if (random() % 2 == 0) {
    ring->SetWord32(kWords[random() % kWords.size()], word);
  } else {
    ring->set_state_word(random() % ring->geometry().num_chunks(), word);
  }
}

void Forge(RingImage* ring, Random& random) {
  const abi::Geometry& geometry = ring->geometry();
  const auto index = static_cast<uint32_t>(random() % geometry.num_chunks());
  uint8_t* const chunk = ring->chunk(index);
  const uint32_t word = ring->state_word(index);
  switch (random() % 8) {
    case 0:
    case 1:
      if (ring->write_pos() - ring->read_pos() < geometry.num_chunks()) {
        ring->Publish(AnyChunk(random));
      }
      return;
    case 2:  // a size
      chunk[geometry.chunk_size() - 1 - random() % 8] =
          static_cast<uint8_t>(random());
      return;
    case 3:  // payload and buffer id
      chunk[4 + random() % 64] = static_cast<uint8_t>(random());
      return;
    case 4:  // a writer that takes its chunk back, and publishes again
      if (abi::StateOf(word) == State::kComplete) {
        ring->set_state_word(index, abi::WithState(word, State::kAcquired));
      } else if (abi::StateOf(word) == State::kAcquired) {
        ring->set_state_word(index, abi::WithState(word, State::kComplete));
      }
      return;
    case 5:  // another number of fragments, other flags
      if (abi::StateOf(word) == State::kComplete) {
        ring->set_state_word(
            index, word ^ (static_cast<uint32_t>(random()) & 0x07ff'0000));
      }
      return;
    case 6:
      if (abi::StateOf(word) == State::kRewriteRequested) {
        ring->set_state_word(index, abi::kAcknowledgedWord);
      }
      return;
    default:
      ring->SetWord64(abi::kWriterLossOffset + random() % 8 * 8, random());
  }
}

// The number of an eventfd to play with, never closed while it is here.
std::atomic<int> shared_event_fd{-1};

void AttackRings() {
  Random random(1);
  bool reported = false;
  for (;;) {
    std::deque<RingImage> rings;
    const auto add_ring = [&rings] {
      rings.push_back(RingImage::InMemfd({16, 512, 0xffff'fff8, true}));
      return rings.back().fd();
    };
    Connection connection;
    connection.Send(MakeHello(2), {add_ring(), add_ring()});
    const os::UniqueFd event_fd = connection.AwaitWelcome();
    if (!event_fd.valid()) continue;
    // On a number of its own: the other thread may be in the middle of a call.
    const int old = shared_event_fd.load();
    if (old < 0) {
      shared_event_fd = fcntl(event_fd.get(), F_DUPFD_CLOEXEC, 0);
    } else {
      (void)dup3(event_fd.get(), old, O_CLOEXEC);
    }
    for (int i = 0; i < kRingsPerConnection && !connection.HungUp(); ++i) {
      for (int j = 0; j < kForgeries; ++j) {
        for (RingImage& ring : rings) Forge(&ring, random);
      }
      if (!reported) handshake::Report();
      reported = true;
      BreakRing(&rings[random() % rings.size()], random);
      // Holes in memory that is being read.
      (void)fallocate(rings[0].fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, static_cast<off_t>(rings[0].size()));
      const control::AddRings add{{{16, 512, control::RingRole::kShared, 0}}};
      connection.Send(add, {add_ring()});
    }
  }
}

void AttackEventFd() {
  for (uint64_t i = 0;; ++i) {
    const int fd = shared_event_fd.load();
    if (fd < 0) {
      std::this_thread::yield();
      continue;
    }
    // Blocking while the consumer might read or write it, if it did.
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    eventfd_t value = 0;
    if (i % 64 == 0) (void)eventfd_read(fd, &value);
    (void)eventfd_write(fd, i % 64 == 1 ? ~uint64_t{0} - 1 : 1);
    (void)fcntl(fd, F_SETFL, 0);
  }
}

// --- The socket and the limits ---

void AskForTooMuch(Random& random, const std::vector<int>& foreign) {
  Connection connection;
  switch (random() % 8) {
    case 0:  // more memory than one producer may map, which is not there either
    {
      control::Hello hello = MakeHello(1);
      hello.rings[0] = {1u << 20, 32u << 10, control::RingRole::kShared, 0};
      return connection.Send(hello, {foreign[0]});
    }
    case 1: {  // more rings, all of them the same
      const RingImage ring = RingImage::InMemfd({16, 512, 0, true});
      return connection.Send(MakeHello(200), std::vector<int>(200, ring.fd()));
    }
    case 2:  // descriptors that are no rings
      return connection.Send(MakeHello(foreign.size()), foreign);
    case 3:  // with a message that may bear none
      return connection.Send(control::Goodbye{}, foreign);
    case 4:
      return connection.SendBytes(std::string(random() % 70'000, '\x0a'),
                                  std::vector<int>(253, foreign[0]));
    default: {  // names without end
      connection.Send(MakeHello(0));
      for (uint16_t id = 10; id < 3000 && !connection.HungUp(); ++id) {
        connection.Send(control::AddBuffers{{{id, std::to_string(random())}}});
      }
    }
  }
}

void AttackSocket() {
  Random random(2);
  std::array<int, 2> pipe_fds{};
  Require(pipe2(pipe_fds.data(), O_CLOEXEC) == 0, "pipe2");
  const std::vector<int> foreign = {pipe_fds[0], pipe_fds[1],
                                    open("/dev/zero", O_RDWR | O_CLOEXEC),
                                    eventfd(0, EFD_CLOEXEC)};
  std::deque<Connection> silent;
  for (;;) {
    AskForTooMuch(random, foreign);
    // Of those that say nothing, as many as may stay and some more.
    silent.emplace_back();
    if (silent.size() > 24) silent.pop_front();
  }
}

}  // namespace
}  // namespace tracering::test

int main() {
  std::thread event_fd(tracering::test::AttackEventFd);
  std::thread socket(tracering::test::AttackSocket);
  tracering::test::AttackRings();
}
