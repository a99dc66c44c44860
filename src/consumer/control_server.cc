// Admission, messages and liveness; see control_server.h for the trust rules.
#include "src/consumer/control_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <variant>

#include "src/common/abi/control_header.h"
#include "src/common/control/codec.h"
#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/pidfd.h"
#include "src/common/os/process.h"
#include "src/common/os/untrusted_fds.h"
#include "src/consumer/event_tag.h"

namespace tracering::internal {
namespace {

// An honest producer says Hello right after it has connected.
constexpr int64_t kGreetingTimeoutNs = int64_t{5} * 1'000'000'000;

// Connections that owe a Hello: of one process, and of all of them. They hold
// descriptors that honest producers need.
constexpr ptrdiff_t kMaxGreetingsPerProcess = 16;
constexpr size_t kMaxGreetings = 64;

// Descriptors that no connection takes, for the files that traces are saved in
// and for what the program itself opens.
constexpr size_t kReservedFds = 32;

// Connections taken in one go, so that a flood of them delays nobody's ring.
constexpr int kMaxAcceptsPerEvent = 16;

// More than the listening socket's queue holds.
constexpr int kMaxPending = 256;

// Messages of one connection that wait for their turn.
constexpr size_t kMaxEarlyMessages = 16;

// A process that is gone has left no more than a socket's queue holds, but a
// forked child of it may go on sending.
constexpr int kMaxMessagesAtExit = 256;

std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

void SendReject(int socket, std::string_view reason) {
  control::Reject reject;
  reject.reason = std::string(reason.substr(0, control::kMaxReasonSize));
  std::string bytes;
  if (control::EncodeConsumerMessage(std::move(reject), &bytes) !=
      control::CodecOutcome::kOk) {
    return;
  }
  // A peer that does not take it closes its end or has its queue full of what
  // it did not read. Either way it is told by the closed connection.
  (void)os::SendMessage(socket, bytes);
}

BufferRequests ToRequests(std::vector<control::BufferInfo> buffers) {
  BufferRequests requests;
  requests.reserve(buffers.size());
  for (control::BufferInfo& buffer : buffers) {
    requests.emplace_back(BufferId(buffer.id), std::move(buffer.name));
  }
  return requests;
}

std::vector<RingRequest> ToRequests(const std::vector<control::RingInfo>& rings,
                                    const std::vector<os::UniqueFd>& fds) {
  std::vector<RingRequest> requests(rings.size());
  for (size_t i = 0; i < rings.size(); ++i) {
    requests[i].memfd = fds[i].get();
    requests[i].num_chunks = rings[i].num_chunks;
    requests[i].chunk_size = rings[i].chunk_size;
    requests[i].metadata = rings[i].role == control::RingRole::kDescriptors;
  }
  return requests;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Create(
    const std::string& path, std::vector<uid_t> allowed_uids,
    std::vector<std::string> categories, SessionRegistry* registry,
    os::Epoll* epoll, EventLog* log) {
  const mode_t mode = allowed_uids.empty() ? 0600 : 0666;
  absl::StatusOr<os::ListeningSocket> socket =
      os::ListeningSocket::Create(path, mode);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<ControlServer> server(
      new ControlServer(*std::move(socket), std::move(allowed_uids),
                        std::move(categories), registry, epoll, log));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

ControlServer::ControlServer(os::ListeningSocket socket,
                             std::vector<uid_t> allowed_uids,
                             std::vector<std::string> categories,
                             SessionRegistry* registry, os::Epoll* epoll,
                             EventLog* log)
    : socket_(std::move(socket)),
      allowed_uids_(std::move(allowed_uids)),
      registry_(registry),
      epoll_(epoll),
      log_(log),
      categories_(std::move(categories)),
      receive_buffer_(control::kMaxMessageSize) {}

ControlServer::~ControlServer() { StopListening(); }

void ControlServer::StopListening() {
  if (!socket_.has_value()) return;
  if (!paused_) epoll_->Remove(socket_->fd()).IgnoreError();
  // Who still waits is sent away one by one: along with the socket the kernel
  // would close what they have sent, and wait for it.
  for (int i = 0; i < kMaxPending; ++i) {
    os::AcceptResult waiting = os::Accept(socket_->fd());
    if (waiting.outcome != os::AcceptOutcome::kAccepted) break;
    os::CloseConnection(std::move(waiting.fd));
  }
  socket_.reset();
}

absl::Status ControlServer::Listen() {
  return epoll_->Add(socket_->fd(), EPOLLIN, EventTag(EventKind::kListener));
}

void ControlServer::Pause(int error) {
  if (paused_) return;
  // The connection stays queued and the listener readable: without this the
  // loop would spin.
  paused_ = true;
  removals_at_pause_ = registry_->removals();
  epoll_->Remove(socket_->fd()).IgnoreError();
  if (!std::exchange(short_of_resources_, true)) {
    log_->Add(fmt::format("cannot take connections for now: {}",
                          std::strerror(error)));
  }
}

void ControlServer::OnSessionsChanged() {
  if (!needs_timer() || registry_->removals() == removals_at_pause_) return;
  paused_ = !Listen().ok();
  removals_at_pause_ = registry_->removals();
}

void ControlServer::OnTick() {
  if (categories_are_owed_) SendOwedCategories();
  if (needs_timer()) paused_ = !Listen().ok();
  const int64_t now = os::MonotonicNs();
  while (!greetings_.empty() && greetings_.front().deadline_ns <= now) {
    ProducerSession* session = registry_->Find(greetings_.front().session);
    greetings_.pop_front();
    if (session != nullptr && session->phase == SessionPhase::kGreeting) {
      Reject(session, "no Hello came in time");
    }
  }
}

void ControlServer::OnListenerReady() {
  for (int i = 0; i < kMaxAcceptsPerEvent && socket_.has_value(); ++i) {
    // A connection also takes a pidfd, and an eventfd once it has said Hello.
    if (os::NextFdIsReserved(kReservedFds + 2 + greetings_.size())) {
      return Pause(EMFILE);
    }
    os::AcceptResult result = os::Accept(socket_->fd());
    switch (result.outcome) {
      case os::AcceptOutcome::kAccepted:
        short_of_resources_ = false;
        Admit(std::move(result.fd));
        break;
      case os::AcceptOutcome::kWouldBlock:
        return;
      case os::AcceptOutcome::kOutOfResources:
      case os::AcceptOutcome::kFailed:
        Pause(result.error);
        return;
    }
  }
}

void ControlServer::TurnAway(os::UniqueFd socket,
                             const os::PeerCredentials& peer,
                             std::string_view reason) {
  registry_->CountRefusal();
  log_->Add(fmt::format("turned away process {} of user {}: {}", peer.pid,
                        peer.uid, reason));
  SendReject(socket.get(), reason);
  os::CloseConnection(std::move(socket));
}

void ControlServer::Admit(os::UniqueFd socket) {
  const absl::StatusOr<os::PeerCredentials> peer =
      os::GetPeerCredentials(socket.get());
  if (!peer.ok()) {
    return TurnAway(std::move(socket), {}, Message(peer.status()));
  }
  if (peer->uid != geteuid() &&
      std::find(allowed_uids_.begin(), allowed_uids_.end(), peer->uid) ==
          allowed_uids_.end()) {
    return TurnAway(
        std::move(socket), *peer,
        fmt::format("user {} may not connect to this service", peer->uid));
  }
  MakeRoomToGreet(peer->pid);
  absl::StatusOr<ProducerSession*> opened = registry_->Open();
  if (!opened.ok()) {
    return TurnAway(std::move(socket), *peer, Message(opened.status()));
  }

  ProducerSession* session = *opened;
  session->socket = std::move(socket);
  session->owner.uid = static_cast<int32_t>(peer->uid);
  absl::StatusOr<os::UniqueFd> pidfd =
      os::OpenPeerPidFd(session->socket.get(), peer->pid);
  if (pidfd.ok()) {
    session->pidfd = *std::move(pidfd);
    session->owner.pid = peer->pid;
  }
  session->owner.hear_requests = [this, id = session->id] { HearRequests(id); };
  if (absl::Status status = Watch(session); !status.ok()) {
    return Reject(session, Message(status));
  }
  greetings_.push_back(
      {session->id, peer->pid, os::MonotonicNs() + kGreetingTimeoutNs});
}

void ControlServer::MakeRoomToGreet(pid_t pid) {
  const auto is_over = [this](const Greeting& greeting) {
    const ProducerSession* session = registry_->Find(greeting.session);
    return session == nullptr || session->phase != SessionPhase::kGreeting;
  };
  greetings_.erase(
      std::remove_if(greetings_.begin(), greetings_.end(), is_over),
      greetings_.end());
  const auto is_of_peer = [pid](const Greeting& greeting) {
    return greeting.pid == pid;
  };
  auto oldest = greetings_.begin();
  if (std::count_if(greetings_.begin(), greetings_.end(), is_of_peer) >=
      kMaxGreetingsPerProcess) {
    oldest = std::find_if(greetings_.begin(), greetings_.end(), is_of_peer);
  } else if (greetings_.size() < kMaxGreetings) {
    return;
  }
  const uint64_t id = oldest->session;
  greetings_.erase(oldest);
  // Its Hello may be there without our having looked.
  ReceiveOne(id);
  ProducerSession* session = registry_->Find(id);
  if (session != nullptr && session->phase == SessionPhase::kGreeting) {
    Reject(session, "too many connections owe a Hello");
  }
}

absl::Status ControlServer::Watch(ProducerSession* session) {
  if (session->pidfd.valid()) {
    if (absl::Status status =
            epoll_->Add(session->pidfd.get(), EPOLLIN,
                        EventTag(EventKind::kProcessExit, session->id));
        !status.ok()) {
      return status;
    }
  }
  return epoll_->Add(session->socket.get(), EPOLLIN | EPOLLRDHUP,
                     EventTag(EventKind::kConnection, session->id));
}

void ControlServer::OnProcessExit(uint64_t session_id) {
  ProducerSession* session = registry_->Find(session_id);
  if (session == nullptr) return;
  // What it had said before counts: a short-lived producer may have left
  // behind its Hello, and in it the only way to its rings.
  for (int i = 0; i < kMaxMessagesAtExit && ReceiveOne(session_id); ++i) {
  }
  session = registry_->Find(session_id);
  if (session != nullptr) registry_->BeginClose(session, "exited");
}

EarlyMessage ControlServer::Receive(const ProducerSession& session) {
  EarlyMessage message;
  message.received =
      os::ReceiveMessage(session.socket.get(), receive_buffer_.data(),
                         receive_buffer_.size(), control::kMaxRingsPerMessage);
  message.bytes.assign(receive_buffer_.data(), message.received.size);
  return message;
}

// Packets travel faster than messages: a producer may name a buffer and fill a
// chunk for it before we have looked at the socket. It has sent the message
// first, so it is there. Nothing but names of buffers may take effect here, in
// the middle of a slice; the rest waits for its turn.
void ControlServer::HearRequests(uint64_t session_id) {
  ProducerSession* session = registry_->Find(session_id);
  if (session == nullptr) return;
  std::deque<EarlyMessage>& early = session->early_messages;
  RingOwner::HearBudget& budget = session->owner.hear_budget;
  while (early.size() < kMaxEarlyMessages && !budget.spent()) {
    EarlyMessage message = Receive(*session);
    if (message.received.outcome == os::ReceiveOutcome::kWouldBlock) break;
    --budget.messages;
    budget.bytes -= static_cast<int64_t>(message.bytes.size());
    const bool is_message =
        message.received.outcome == os::ReceiveOutcome::kMessage;
    control::ProducerMessage decoded;
    std::vector<std::string> unknown;
    const bool granted =
        is_message && message.received.fds.empty() &&
        control::DecodeProducerMessage(message.bytes, &decoded) ==
            control::CodecOutcome::kOk &&
        std::holds_alternative<control::AddBuffers>(decoded) &&
        registry_
            ->GrantBuffers(session,
                           ToRequests(std::move(
                               std::get<control::AddBuffers>(decoded).buffers)),
                           &unknown)
            .ok();
    if (granted) continue;
    if (early.empty()) with_early_messages_.push_back(session_id);
    early.push_back(std::move(message));
    if (!is_message) break;  // the end of the connection, or of its sense
  }
}

void ControlServer::HandleEarlyMessages() {
  for (const uint64_t id : std::exchange(with_early_messages_, {})) {
    for (bool more = true; more;) {
      const ProducerSession* session = registry_->Find(id);
      more = session != nullptr && !session->early_messages.empty() &&
             ReceiveOne(id);
    }
  }
}

bool ControlServer::ReceiveOne(uint64_t session_id) {
  ProducerSession* session = registry_->Find(session_id);
  if (session == nullptr || session->phase == SessionPhase::kClosing) {
    return false;
  }
  EarlyMessage message;
  if (session->early_messages.empty()) {
    message = Receive(*session);
  } else {
    message = std::move(session->early_messages.front());
    session->early_messages.pop_front();
  }
  os::ReceivedMessage& received = message.received;
  switch (received.outcome) {
    case os::ReceiveOutcome::kMessage:
      OnDatagram(session, message.bytes, received.fds);
      os::CloseUntrusted(std::move(received.fds));
      return true;
    case os::ReceiveOutcome::kWouldBlock:
      break;
    case os::ReceiveOutcome::kClosed:
      registry_->BeginClose(session, "closed its connection");
      break;
    case os::ReceiveOutcome::kPayloadTruncated:
      Reject(session, fmt::format("a message exceeds {} bytes",
                                  control::kMaxMessageSize));
      break;
    case os::ReceiveOutcome::kControlTruncated:
      Reject(session, "a message carries more descriptors than can be taken");
      break;
    case os::ReceiveOutcome::kFailed:
      registry_->BeginClose(session,
                            fmt::format("lost its connection: {}",
                                        std::strerror(received.error)));
      break;
  }
  return false;
}

void ControlServer::OnDatagram(ProducerSession* session, std::string_view bytes,
                               const std::vector<os::UniqueFd>& fds) {
  control::ProducerMessage message;
  const control::CodecOutcome outcome =
      control::DecodeProducerMessage(bytes, &message);
  if (outcome != control::CodecOutcome::kOk) {
    return Reject(session, control::CodecRule(outcome));
  }
  // A kind of message that a newer producer knows. None of those that may be
  // ignored brings descriptors.
  if (std::holds_alternative<std::monostate>(message) && fds.empty()) return;
  if (fds.size() != control::NumFds(message)) {
    return Reject(session, fmt::format("a message carries {} descriptors; {} "
                                       "belong with it",
                                       fds.size(), control::NumFds(message)));
  }
  OnMessage(session, std::move(message), fds);
}

void ControlServer::OnMessage(ProducerSession* session,
                              control::ProducerMessage message,
                              const std::vector<os::UniqueFd>& fds) {
  if (const auto* request = std::get_if<control::StatsRequest>(&message)) {
    return OnStatsRequest(session, *request);
  }
  const bool is_hello = std::holds_alternative<control::Hello>(message);
  const bool greeting = session->phase == SessionPhase::kGreeting;
  if (is_hello != greeting) {
    return Reject(session, greeting ? "the first message must be Hello"
                                    : "Hello came twice");
  }
  if (std::holds_alternative<control::Goodbye>(message)) {
    return registry_->BeginClose(session, "said goodbye");
  }
  absl::Status status;
  if (auto* hello = std::get_if<control::Hello>(&message)) {
    status = OnHello(session, std::move(*hello), fds);
  } else if (auto* rings = std::get_if<control::AddRings>(&message)) {
    status = OnAddRings(session, *rings, fds);
  } else if (auto* buffers = std::get_if<control::AddBuffers>(&message)) {
    status = OnAddBuffers(session, std::move(*buffers));
  } else if (auto* trigger = std::get_if<control::Trigger>(&message)) {
    log_->AddTrigger({std::move(trigger->name), session->id, session->name,
                      session->owner.pid});
  }
  if (!status.ok()) Reject(session, Message(status));
}

absl::Status ControlServer::OnHello(ProducerSession* session,
                                    control::Hello hello,
                                    const std::vector<os::UniqueFd>& fds) {
  session->name = std::move(hello.process_name);
  // The rings are laid out in the highest version that the producer knows.
  if (hello.abi_version_max != abi::kAbiVersion) {
    return absl::UnimplementedError(
        fmt::format("rings are of version {}; this service reads version {}",
                    hello.abi_version_max, abi::kAbiVersion));
  }
  std::vector<std::string> unknown;
  if (absl::Status status = registry_->GrantBuffers(
          session, ToRequests(std::move(hello.buffers)), &unknown);
      !status.ok()) {
    return status;
  }
  if (absl::Status status =
          registry_->AttachRings(session, ToRequests(hello.rings, fds));
      !status.ok()) {
    return status;
  }
  registry_->MarkAttached(session);
  return SendWelcome(session, std::move(unknown));
}

absl::Status ControlServer::SendWelcome(
    ProducerSession* session, std::vector<std::string> unknown_buffers) {
  absl::StatusOr<os::UniqueFd> event_fd = os::CreateEventFd();
  if (!event_fd.ok()) return event_fd.status();
  control::Welcome welcome;
  welcome.abi_version = abi::kAbiVersion;
  welcome.unknown_buffers = std::move(unknown_buffers);
  welcome.enabled_categories = categories_;
  std::string bytes;
  control::CodecOutcome outcome =
      control::EncodeConsumerMessage(welcome, &bytes);
  const bool without_categories =
      outcome == control::CodecOutcome::kMessageTooLarge;
  if (without_categories) {
    welcome.enabled_categories.clear();
    outcome = control::EncodeConsumerMessage(std::move(welcome), &bytes);
  }
  if (outcome != control::CodecOutcome::kOk) {
    return absl::ResourceExhaustedError(fmt::format(
        "the answer to Hello cannot be sent: {}", control::CodecRule(outcome)));
  }
  if (absl::Status status =
          registry_->WatchEventFd(session, *std::move(event_fd));
      !status.ok()) {
    return status;
  }
  const os::SendResult sent =
      os::SendMessage(session->socket.get(), bytes, {session->event_fd.get()});
  if (sent.outcome != os::SendOutcome::kSent) {
    return absl::UnavailableError(fmt::format(
        "the answer to Hello cannot be sent: {}", std::strerror(sent.error)));
  }
  if (without_categories) SendCategories(session);
  return absl::OkStatus();
}

void ControlServer::SetEnabledCategories(std::vector<std::string> patterns) {
  categories_ = std::move(patterns);
  for (const auto& [id, session] : registry_->sessions()) {
    // Who greets later hears it then.
    if (session->socket.valid() && session->phase == SessionPhase::kAttached) {
      SendCategories(session.get());
    }
  }
}

void ControlServer::SendCategories(ProducerSession* session) {
  control::SetEnabled set;
  set.patterns = categories_;
  std::string bytes;
  if (control::EncodeConsumerMessage(std::move(set), &bytes) !=
      control::CodecOutcome::kOk) {
    return;  // CheckCategories leaves nothing that could be in the way
  }
  // A hang-up is noticed elsewhere.
  session->owes_categories =
      os::SendMessage(session->socket.get(), bytes).outcome ==
      os::SendOutcome::kWouldBlock;
  categories_are_owed_ |= session->owes_categories;
}

void ControlServer::SendOwedCategories() {
  categories_are_owed_ = false;
  for (const auto& [id, session] : registry_->sessions()) {
    if (session->owes_categories) SendCategories(session.get());
  }
}

absl::Status ControlServer::OnAddRings(ProducerSession* session,
                                       const control::AddRings& message,
                                       const std::vector<os::UniqueFd>& fds) {
  return registry_->AttachRings(session, ToRequests(message.rings, fds));
}

absl::Status ControlServer::OnAddBuffers(ProducerSession* session,
                                         control::AddBuffers message) {
  std::vector<std::string> unknown;
  return registry_->GrantBuffers(
      session, ToRequests(std::move(message.buffers)), &unknown);
}

void ControlServer::OnStatsRequest(ProducerSession* session,
                                   const control::StatsRequest& request) {
  const auto uid = static_cast<uid_t>(session->owner.uid);
  if (uid != geteuid() && uid != 0) {
    return Reject(session, "stats are for the user of the service only");
  }
  session->is_observer = session->phase == SessionPhase::kGreeting;
  std::string bytes;
  if (control::EncodeConsumerMessage(
          registry_->StatsPage(request.after_producer), &bytes) !=
      control::CodecOutcome::kOk) {
    return Reject(session, "stats cannot be sent");
  }
  // Who does not read what it asked for misses it.
  (void)os::SendMessage(session->socket.get(), bytes);
}

void ControlServer::Reject(ProducerSession* session, std::string_view reason) {
  SendReject(session->socket.get(), reason);
  if (session->phase == SessionPhase::kGreeting) registry_->CountRefusal();
  registry_->BeginClose(session, fmt::format("was rejected: {}", reason));
}

}  // namespace tracering::internal
