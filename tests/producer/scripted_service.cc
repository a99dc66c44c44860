// See scripted_service.h.
#include "tests/producer/scripted_service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <utility>
#include <variant>

#include "src/common/abi/control_header.h"
#include "src/common/abi/geometry.h"
#include "src/common/control/codec.h"
#include "src/common/os/eventfd.h"
#include "tests/support/group_codec.h"

namespace tracering::test {

using std::chrono::milliseconds;

bool PollFd(int fd, short events, milliseconds timeout) {
  pollfd entry{fd, events, 0};
  return poll(&entry, 1, static_cast<int>(timeout.count())) == 1;
}

TracePacket ParsePacket(const std::string& bytes) {
  std::string error;
  const std::optional<std::string> canonical = GroupsToProtobuf(bytes, &error);
  TracePacket packet;
  EXPECT_TRUE(canonical.has_value()) << error;
  EXPECT_TRUE(packet.ParseFromString(canonical.value_or("")));
  return packet;
}

// --- Session ---

Session::Session(os::UniqueFd socket) : socket_(std::move(socket)) {}

bool Session::ReceiveHello() {
  if (!PollFd(socket_.get(), POLLIN)) return false;
  std::string buffer(control::kMaxMessageSize, '\0');
  os::ReceivedMessage received = os::ReceiveMessage(
      socket_.get(), buffer.data(), buffer.size(), os::kMaxFdsPerMessage);
  control::ProducerMessage message;
  if (received.outcome != os::ReceiveOutcome::kMessage ||
      control::DecodeProducerMessage(
          std::string_view(buffer.data(), received.size), &message) !=
          control::CodecOutcome::kOk ||
      !std::holds_alternative<control::Hello>(message) ||
      control::NumFds(message) != received.fds.size()) {
    return false;
  }
  hello_ = std::get<control::Hello>(message);
  memfds_ = std::move(received.fds);
  Remember(hello_.buffers);
  for (size_t i = 0; i < memfds_.size(); ++i) {
    const control::RingInfo& info = hello_.rings[i];
    const abi::Geometry geometry(info.num_chunks, info.chunk_size);
    const absl::Status checked =
        os::CheckSealedMemory(memfds_[i].get(), geometry.RingSize());
    EXPECT_TRUE(checked.ok()) << checked.ToString();
    auto mapping =
        os::SharedMapping::Map(memfds_[i].get(), geometry.RingSize());
    if (!mapping.ok()) return false;
    mappings_.push_back(*std::move(mapping));
    readers_.push_back(std::make_unique<ReferenceReader>(
        ring_base(i), RingShape{info.num_chunks, info.chunk_size}));
  }
  return true;
}

void Session::Remember(const std::vector<control::BufferInfo>& buffers) {
  buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
}

bool Session::Welcome(std::vector<std::string> unknown_buffers) {
  auto event_fd = os::CreateEventFd();
  if (!event_fd.ok()) return false;
  event_fd_ = *std::move(event_fd);
  control::Welcome welcome;
  welcome.abi_version = abi::kAbiVersion;
  welcome.unknown_buffers = std::move(unknown_buffers);
  return Send(welcome, {event_fd_.get()});
}

bool Session::Send(const control::ConsumerMessage& message,
                   const std::vector<int>& fds) {
  std::string bytes;
  return control::EncodeConsumerMessage(message, &bytes) ==
             control::CodecOutcome::kOk &&
         SendBytes(bytes, fds);
}

bool Session::SendBytes(std::string_view bytes, const std::vector<int>& fds) {
  return os::SendMessage(socket_.get(), bytes, fds).outcome ==
         os::SendOutcome::kSent;
}

std::optional<control::ProducerMessage> Session::Receive() {
  if (!PollFd(socket_.get(), POLLIN)) return std::nullopt;
  std::string buffer(control::kMaxMessageSize, '\0');
  const os::ReceivedMessage received = os::ReceiveMessage(
      socket_.get(), buffer.data(), buffer.size(), os::kMaxFdsPerMessage);
  control::ProducerMessage message;
  if (received.outcome != os::ReceiveOutcome::kMessage ||
      control::DecodeProducerMessage(
          std::string_view(buffer.data(), received.size), &message) !=
          control::CodecOutcome::kOk) {
    return std::nullopt;
  }
  if (const auto* add = std::get_if<control::AddBuffers>(&message)) {
    Remember(add->buffers);
  }
  return message;
}

bool Session::AwaitHangUp() {
  while (Receive().has_value()) {
  }
  return PollFd(socket_.get(), POLLHUP);
}

uint8_t* Session::ring_base(size_t ring) const {
  return static_cast<uint8_t*>(mappings_[ring].data());
}

std::string Session::BufferName(uint16_t id) const {
  for (const control::BufferInfo& buffer : buffers_) {
    if (buffer.id == id) return buffer.name;
  }
  return "";
}

size_t Session::Drain(size_t ring) { return readers_[ring]->Drain(); }

size_t Session::DrainAll() {
  size_t resolved = 0;
  for (const auto& reader : readers_) resolved += reader->Drain();
  return resolved;
}

std::vector<TracePacket> Session::PacketsOf(size_t ring) const {
  std::vector<TracePacket> packets;
  for (const DecodedPacket& packet : readers_[ring]->joiner().packets()) {
    packets.push_back(ParsePacket(packet.bytes));
  }
  return packets;
}

std::vector<TracePacket> Session::Packets() const {
  std::vector<TracePacket> packets;
  for (size_t i = 0; i < num_rings(); ++i) {
    if (i == metadata_ring()) continue;
    for (TracePacket& packet : PacketsOf(i)) {
      packets.push_back(std::move(packet));
    }
  }
  return packets;
}

size_t Session::metadata_ring() const {
  for (size_t i = 0; i < hello_.rings.size(); ++i) {
    if (hello_.rings[i].role == control::RingRole::kDescriptors) return i;
  }
  ADD_FAILURE() << "no ring for descriptors";
  return hello_.rings.size();
}

std::vector<std::string> Session::Violations() const {
  std::vector<std::string> all;
  for (const auto& reader : readers_) {
    for (std::string& violation : reader->violations()) {
      all.push_back(std::move(violation));
    }
  }
  return all;
}

// --- Services ---

ScriptedService::ScriptedService(const std::string& path) {
  auto listener = os::ListeningSocket::Create(path, 0600);
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  if (listener.ok()) listener_.emplace(*std::move(listener));
}

std::unique_ptr<Session> ScriptedService::Accept(milliseconds timeout) {
  if (!listener_.has_value() || !PollFd(listener_->fd(), POLLIN, timeout)) {
    return nullptr;
  }
  os::AcceptResult accepted = os::Accept(listener_->fd());
  if (accepted.outcome != os::AcceptOutcome::kAccepted) return nullptr;
  return std::make_unique<Session>(std::move(accepted.fd));
}

std::unique_ptr<Session> ScriptedService::AcceptAndReceiveHello() {
  std::unique_ptr<Session> session = Accept();
  if (session == nullptr || !session->ReceiveHello()) return nullptr;
  return session;
}

std::unique_ptr<Session> ScriptedService::AcceptAndWelcome(
    std::vector<std::string> unknown_buffers) {
  std::unique_ptr<Session> session = AcceptAndReceiveHello();
  if (session == nullptr || !session->Welcome(std::move(unknown_buffers))) {
    return nullptr;
  }
  return session;
}

DrainingService::DrainingService(const std::string& path)
    : service_(path), thread_([this] { Run(); }) {}

void DrainingService::Stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void DrainingService::Run() {
  // Looks up often enough to see Stop, and to take what nobody signalled.
  constexpr milliseconds kSlice{5};
  while (!stop_.load()) {
    std::vector<pollfd> fds = {{service_.fd(), POLLIN, 0}};
    for (const Client& client : clients_) {
      // Negative numbers are passed over.
      const int socket = client.connected ? client.session->socket() : -1;
      fds.push_back({socket, POLLIN, 0});
      fds.push_back({client.session->event_fd(), POLLIN, 0});
    }
    poll(fds.data(), fds.size(), static_cast<int>(kSlice.count()));
    for (size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if (fds[2 * i + 2].revents != 0) {
        os::ResetEventFd(client.session->event_fd());
      }
      if (fds[2 * i + 1].revents != 0) HandleSocket(&client);
      client.session->DrainAll();
    }
    if (fds[0].revents != 0) AcceptOne();
  }
  for (Client& client : clients_) {
    while (client.connected &&
           PollFd(client.session->socket(), POLLIN, milliseconds(0))) {
      HandleSocket(&client);
    }
    client.session->DrainAll();
  }
}

void DrainingService::AcceptOne() {
  Client client;
  client.session = service_.AcceptAndWelcome();
  if (client.session != nullptr) clients_.push_back(std::move(client));
}

void DrainingService::HandleSocket(Client* client) {
  const std::optional<control::ProducerMessage> message =
      client->session->Receive();
  client->connected = message.has_value();
  if (client->connected && std::holds_alternative<control::Goodbye>(*message)) {
    client->said_goodbye = true;
  }
}

}  // namespace tracering::test
