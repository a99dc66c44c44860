// The real control server over its real socket: several clients that connect,
// say anything with descriptors of every kind, forge the rings that they handed
// over, and vanish, beside an honest producer.
//
//   input := limits, then operations of a byte and what they need
//
// Held against: every answer is a message, every line of the log one line, the
// honest producer's packets are exact, the consumer comes to rest, and no
// descriptor is left behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/common/abi/control_header.h"
#include "src/common/control/codec.h"
#include "src/common/os/unix_socket.h"
#include "tests/fuzz/foreign_fds.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/support/eventually.h"
#include "tests/support/open_fds.h"
#include "tests/support/require.h"
#include "tests/support/ring_image.h"
#include "tests/support/temp_dir.h"
#include "tracering/consumer.h"

namespace tracering::test {
namespace {

constexpr size_t kMaxServerOperations = 100;
// More than one process may leave without a Hello.
constexpr size_t kMaxClients = 20;
constexpr size_t kMaxRings = 3;
// Steps in which a consumer that nobody disturbs has done all it has to.
constexpr int kMaxSteps = 1000;

const std::string& SocketPath() {
  static const TempDir directory;
  static const std::string path = directory.Path("s");
  return path;
}

struct Client {
  os::UniqueFd socket;
  os::UniqueFd event_fd;
};

// What the service answers, if anything; an error in words.
std::string Receive(Client* client,
                    std::optional<control::ConsumerMessage>* message) {
  std::vector<char> buffer(control::kMaxMessageSize);
  os::ReceivedMessage received =
      os::ReceiveMessage(client->socket.get(), buffer.data(), buffer.size(), 4);
  if (received.outcome != os::ReceiveOutcome::kMessage) return "";
  message->emplace();
  if (control::DecodeConsumerMessage({buffer.data(), received.size},
                                     &**message) !=
      control::CodecOutcome::kOk) {
    return "an answer that is no message";
  }
  if (received.fds.size() != control::NumFds(**message)) {
    return "an answer with other descriptors than belong to it";
  }
  if (!received.fds.empty()) client->event_fd = std::move(received.fds[0]);
  return "";
}

class ServerSession {
 public:
  explicit ServerSession(FuzzInput input);

  std::string Run();

 private:
  void Fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  void StartHonest();
  void PublishHonest();
  void CheckHonest();
  void ComeToRest();

  RingImage& Ring(size_t index);
  control::RingInfo AnyRing(std::vector<int>* fds);
  int AnyFd();
  std::vector<control::BufferInfo> AnyBuffers();
  control::ProducerMessage AnyMessage(std::vector<int>* fds);
  void Send(const std::string& bytes, const std::vector<int>& fds);
  void SendMessage();
  void SendDamaged();
  void ForgeRing();
  void UseEventFd();
  void Operate();
  Client& client() { return clients_[current_]; }

  FuzzInput input_;
  std::unique_ptr<Consumer> consumer_;
  RingImage honest_image_;
  Client honest_;
  uint64_t honest_packets_ = 0;
  std::array<Client, kMaxClients> clients_;
  size_t current_ = 0;
  std::array<std::unique_ptr<RingImage>, kMaxRings> rings_;
  std::string wrong_;
};

ServerSession::ServerSession(FuzzInput input)
    : input_(input), honest_image_(RingImage::InMemfd({8, 256, 0, true})) {
  const uint8_t what = input_.Byte();
  ConsumerOptions options;
  options.socket_path = SocketPath();
  options.buffers = {{"main", 64 << 10, FillPolicy::kRing},
                     {"discard", 4096, FillPolicy::kDiscard}};
  // Time decides nothing here.
  options.drain_period = std::chrono::hours(1);
  options.wakeup_threshold = what % 3;
  options.limits.producers = 4 + what % 16;
  options.limits.rings_per_producer = 1 + what / 16 % 4;
  options.limits.ring_bytes_per_producer = what < 128 ? 1 << 30 : 5000;
  options.limits.buffers_per_producer = 4;
  options.limits.partial_packet_bytes = 1024;
  options.limits.partial_bytes_per_producer = 2048;
  options.limits.metadata_buffer_size = 4096;
  options.log = [this](std::string_view line) {
    const bool one_line = std::all_of(line.begin(), line.end(), [](char c) {
      return c >= ' ' && c < '\x7f';
    });
    if (!one_line) Fail("a line of the log has bytes of a peer in it");
  };
  auto consumer = Consumer::Create(std::move(options));
  Require(consumer.ok(), "a consumer");
  consumer_ = *std::move(consumer);
}

void ServerSession::StartHonest() {
  auto socket = os::Connect(SocketPath());
  Require(socket.ok(), "a connection");
  honest_.socket = *std::move(socket);
  control::Hello hello;
  hello.abi_version_min = hello.abi_version_max = abi::kAbiVersion;
  hello.process_name = "honest";
  hello.rings = {{8, 256, control::RingRole::kShared, 0}};
  hello.buffers = {{1, "main"}};
  std::string bytes;
  Require(control::EncodeProducerMessage(hello, &bytes) ==
                  control::CodecOutcome::kOk &&
              os::SendMessage(honest_.socket.get(), bytes, {honest_image_.fd()})
                      .outcome == os::SendOutcome::kSent,
          "a Hello");
  for (int i = 0; i < 2; ++i) consumer_->ProcessReady();
  std::optional<control::ConsumerMessage> answer;
  Fail(Receive(&honest_, &answer));
  if (!answer.has_value() ||
      !std::holds_alternative<control::Welcome>(*answer)) {
    Fail("the honest producer is not welcome");
  }
}

void ServerSession::PublishHonest() {
  if (honest_image_.write_pos() - honest_image_.read_pos() == 8) return;
  ForgedChunk chunk;
  chunk.fragments = {std::string("\x40\x2a", 2), std::string("\x40\x2b", 2)};
  honest_image_.Publish(chunk);
  honest_packets_ += chunk.fragments.size();
  (void)eventfd_write(honest_.event_fd.get(), 1);
}

void ServerSession::CheckHonest() {
  if (!consumer_->Flush(std::chrono::seconds(30)).complete) {
    Fail("a flush is not complete");
  }
  const ConsumerStats stats = consumer_->stats();
  const auto honest =
      std::find_if(stats.producers.begin(), stats.producers.end(),
                   [](const ProducerStats& p) { return p.id == 1; });
  if (honest == stats.producers.end()) return Fail("the honest one is gone");
  if (honest->packets.delivered != honest_packets_ ||
      honest->packets.lost.total() != 0) {
    Fail(fmt::format("{} of the honest packets were delivered, {} lost, of {}",
                     honest->packets.delivered, honest->packets.lost.total(),
                     honest_packets_));
  }
}

void ServerSession::ComeToRest() {
  pollfd entry{consumer_->poll_fd(), POLLIN, 0};
  for (int i = 0; i < kMaxSteps; ++i) {
    if (poll(&entry, 1, 0) == 0) return;
    consumer_->ProcessReady();
  }
  Fail("the consumer never comes to rest");
}

RingImage& ServerSession::Ring(size_t index) {
  std::unique_ptr<RingImage>& ring = rings_[index];
  if (ring == nullptr) {
    ring = std::make_unique<RingImage>(RingImage::InMemfd({4, 256, 0, true}));
  }
  return *ring;
}

int ServerSession::AnyFd() {
  const uint8_t what = input_.Byte();
  if (what < 128) return Ring(what % kMaxRings).fd();
  if (what == 255 && client().socket.valid()) return client().socket.get();
  const std::vector<int>& foreign = ForeignFds();
  return foreign[what % foreign.size()];
}

control::RingInfo ServerSession::AnyRing(std::vector<int>* fds) {
  const uint8_t what = input_.Byte();
  control::RingInfo ring{4, 256, static_cast<control::RingRole>(what % 3), 0};
  if (what >= 0xe0) ring.num_chunks = input_.Word32();
  if (what >= 0xf0) ring.chunk_size = input_.Word32();
  fds->push_back(AnyFd());
  return ring;
}

std::vector<control::BufferInfo> ServerSession::AnyBuffers() {
  static const std::array<std::string, 6> kNames = {
      "main", "discard", "metadata", "unknown", "", "new\nline\xff"};
  std::vector<control::BufferInfo> buffers(input_.Below(4));
  for (control::BufferInfo& buffer : buffers) {
    const uint8_t what = input_.Byte();
    buffer.id = what % 4;
    buffer.name = kNames[what / 4 % kNames.size()];
  }
  return buffers;
}

control::ProducerMessage ServerSession::AnyMessage(std::vector<int>* fds) {
  const uint8_t what = input_.Byte();
  const uint32_t num_rings = what / 8 % 4;
  switch (what % 8) {
    case 0:
      if (what / 8 % 2 == 1) return control::StatsRequest{input_.Byte()};
      return control::Goodbye{};
    case 1:
      return control::Trigger{input_.Bytes(input_.Byte())};
    case 2:
    case 3:
      return control::AddBuffers{AnyBuffers()};
    case 4: {
      control::AddRings add;
      for (uint32_t i = 0; i < num_rings; ++i)
        add.rings.push_back(AnyRing(fds));
      return add;
    }
    default: {
      control::Hello hello;
      hello.abi_version_max = what < 240 ? abi::kAbiVersion : input_.Byte();
      hello.process_name = input_.Bytes(input_.Below(8));
      hello.pid = what;
      for (uint32_t i = 0; i < num_rings; ++i) {
        hello.rings.push_back(AnyRing(fds));
      }
      hello.buffers = AnyBuffers();
      return hello;
    }
  }
}

void ServerSession::Send(const std::string& bytes,
                         const std::vector<int>& fds) {
  if (!client().socket.valid()) return;
  // Whatever comes of it: the queue may be full, the service may have hung up.
  (void)os::SendMessage(client().socket.get(), bytes, fds);
}

void ServerSession::SendMessage() {
  std::vector<int> fds;
  const control::ProducerMessage message = AnyMessage(&fds);
  std::string bytes;
  if (control::EncodeProducerMessage(message, &bytes) !=
      control::CodecOutcome::kOk) {
    return;
  }
  Send(bytes, fds);
}

// A message in which bytes are changed, with more or fewer descriptors.
void ServerSession::SendDamaged() {
  std::vector<int> fds;
  std::string bytes;
  (void)control::EncodeProducerMessage(AnyMessage(&fds), &bytes);
  for (uint32_t left = input_.Below(4); left != 0 && !bytes.empty(); --left) {
    const size_t at = input_.Byte() % bytes.size();
    bytes[at] = static_cast<char>(input_.Byte());
  }
  const uint8_t what = input_.Byte();
  if (what % 4 == 0) bytes += input_.Bytes(what);
  for (uint32_t left = what / 4 % 4; left != 0; --left) fds.push_back(AnyFd());
  if (what >= 0xf0) fds.resize(std::min<size_t>(fds.size(), what % 3));
  if (what == 0xef && !fds.empty()) fds.resize(253, fds[0]);
  Send(bytes, fds);
}

void ServerSession::ForgeRing() {
  const uint8_t what = input_.Byte();
  RingImage& ring = Ring(what % kMaxRings);
  switch (what / 4 % 8) {
    case 0:
      return ring.set_write_pos(ring.write_pos() + input_.Byte());
    case 1:
      return ring.set_read_pos(input_.Byte());
    case 2:
      return ring.set_state_word(what / 32 % 4, input_.Word32());
    case 3:
      return ring.SetWord32(abi::kReaderEpochOffset, input_.Byte());
    default: {
      ForgedChunk chunk;
      const uint8_t bears = input_.Byte();
      chunk.writer = bears % 4;
      chunk.buffer = bears / 4 % 5;
      chunk.flags = (bears / 32u) << abi::kFlagsShift;
      chunk.fragments.push_back(input_.Bytes(bears % 64));
      chunk.fragments.emplace_back();
      ring.Publish(chunk);
    }
  }
}

void ServerSession::UseEventFd() {
  const int fd = client().event_fd.get();
  if (fd < 0) return;
  eventfd_t value = 0;
  switch (input_.Below(4)) {
    case 0:
      (void)eventfd_write(fd, 1);
      break;
    case 1:  // the most that it holds; nobody may read or write it blocking
      Require(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "F_SETFL");
      (void)eventfd_write(fd, ~uint64_t{0} - 1);
      break;
    case 2:
      Require(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "F_SETFL");
      (void)eventfd_read(fd, &value);
      (void)fcntl(fd, F_SETFL, 0);
      break;
    case 3:
      client().event_fd.reset();
      break;
  }
}

void ServerSession::Operate() {
  const uint8_t what = input_.Byte();
  switch (what % 16) {
    case 0:
    case 1: {
      current_ = what / 16 * 2 % kMaxClients + what % 2;
      auto socket = os::Connect(SocketPath());
      client().event_fd.reset();
      if (socket.ok()) client().socket = *std::move(socket);
      return;
    }
    case 2:
      current_ = what / 16;
      return;
    case 3:
    case 4:
    case 5:
      return SendMessage();
    case 6:
      return SendDamaged();
    case 7: {
      const std::string bytes = input_.Bytes(what / 4);
      return Send(bytes, {});
    }
    case 8: {
      if (!client().socket.valid()) return;
      std::optional<control::ConsumerMessage> answer;
      Fail(Receive(&client(), &answer));
      return;
    }
    case 9:
      return UseEventFd();
    case 10:
      if (client().socket.valid() && what < 64) {
        (void)shutdown(client().socket.get(), what % 3);
      } else {
        client().socket.reset();
      }
      return;
    case 11:
      return ForgeRing();
    case 12:
      return PublishHonest();
    case 13:
      if (what < 64) return CheckHonest();
      (void)consumer_->Flush(std::chrono::nanoseconds(0));
      return;
    default:
      for (int left = what / 32; left >= 0; --left) consumer_->ProcessReady();
  }
}

std::string ServerSession::Run() {
  StartHonest();
  for (size_t i = 0;
       i < kMaxServerOperations && !input_.done() && wrong_.empty(); ++i) {
    Operate();
  }
  ComeToRest();
  CheckHonest();
  for (Client& client : clients_) client = Client();
  ComeToRest();
  const ConsumerStats stats = consumer_->stats();
  if (stats.producers_connected != 1) Fail("somebody was not let go");
  std::optional<control::ConsumerMessage> answer;
  Fail(Receive(&honest_, &answer));
  if (answer.has_value()) Fail("the honest producer was told something");
  PublishHonest();
  CheckHonest();
  consumer_->Stop();
  return wrong_;
}

}  // namespace

std::string FuzzControlServer(const uint8_t* bytes, size_t size) {
  ForeignFds();
  SocketPath();
  const size_t before = CountOpenFds();
  std::string wrong = ServerSession(FuzzInput(bytes, size)).Run();
  // What a peer sent may be closed on another thread.
  if (!Eventually([before] { return CountOpenFds() == before; })) {
    return "descriptors are left behind";
  }
  return wrong;
}

}  // namespace tracering::test
