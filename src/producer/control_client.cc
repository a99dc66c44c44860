// The state machine of the control socket; see control_client.h.
#include "src/producer/control_client.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <variant>

#include "src/common/abi/control_header.h"
#include "src/common/control/codec.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/unix_socket.h"
#include "src/producer/containment.h"

namespace tracering::internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMinRetryDelay{50};
constexpr milliseconds kMaxRetryDelay{2000};
// Until work that found no room is tried again.
constexpr milliseconds kWorkDelay{10};
// What one readiness of the socket may cost; the rest stays readable.
constexpr int kMaxMessagesAtOnce = 16;
// Of buffer names in one message, well below what a message may hold.
constexpr size_t kMaxBufferBytes = control::kMaxMessageSize / 2;
constexpr size_t kBufferOverhead = 16;

enum Tag : uint64_t { kTimer, kWake, kSocket };

std::string_view AsView(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlClient>> ControlClient::Create(
    Config config, Delegate* delegate) {
  absl::StatusOr<os::Epoll> epoll = os::Epoll::Create();
  if (!epoll.ok()) return epoll.status();
  absl::StatusOr<os::TimerFd> timer = os::TimerFd::Create();
  if (!timer.ok()) return timer.status();
  absl::StatusOr<os::UniqueFd> event_fd = os::CreateEventFd();
  if (!event_fd.ok()) return event_fd.status();
  os::GuardedFd wake_fd(*std::move(event_fd));
  if (absl::Status status = epoll->Add(timer->fd(), EPOLLIN, kTimer);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = epoll->Add(wake_fd.get(), EPOLLIN, kWake);
      !status.ok()) {
    return status;
  }
  // The first attempt is the first thing that driving does.
  if (absl::Status status = timer->SetOneShot(milliseconds(0)); !status.ok()) {
    return status;
  }
  return std::unique_ptr<ControlClient>(
      new ControlClient(std::move(config), delegate, *std::move(epoll),
                        *std::move(timer), std::move(wake_fd)));
}

ControlClient::ControlClient(Config config, Delegate* delegate, os::Epoll epoll,
                             os::TimerFd timer, os::GuardedFd wake_fd)
    : config_(std::move(config)),
      delegate_(delegate),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)),
      wake_fd_(std::move(wake_fd)),
      retry_delay_(kMinRetryDelay),
      last_error_(config_.socket_path.empty() ? "the rings are kept in files"
                                              : "not connected yet"),
      fork_generation_(ForkGuard::Generation()),
      fork_registration_({nullptr, 0, nullptr, nullptr, &guarded_socket_}) {}

ControlClient::~ControlClient() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!socket_.IsOurs()) return;
  std::string bytes;
  if (control::EncodeProducerMessage(control::Goodbye{}, &bytes) ==
      control::CodecOutcome::kOk) {
    // A service that does not read learns it from the hang-up.
    (void)os::SendMessage(socket_.get(), bytes);
  }
  CloseSocket();
}

void ControlClient::Run() {
  while (!stop_.load(std::memory_order_acquire)) {
    // Fails in a forked child, and if the program closed descriptors that it
    // did not open, as daemons do. There is nothing left to wait on.
    if (!Drive(milliseconds(-1))) return;
  }
}

bool ControlClient::Drive(milliseconds timeout) {
  if (driven_.exchange(true, std::memory_order_acquire)) return false;
  const Rollback stop_driving(
      [this] { driven_.store(false, std::memory_order_release); });
  return Contain([&] { return HandleReady(timeout); },
                 [this] {
                   GiveUpSession();
                   return !InForkedChild();
                 });
}

void ControlClient::Stop() {
  stop_.store(true, std::memory_order_release);
  os::SignalEventFd(wake_fd_.get());
}

void ControlClient::RequestWork() { os::SignalEventFd(wake_fd_.get()); }

void ControlClient::AddBuffer(control::BufferInfo buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.push_back(std::move(buffer));
  // Without memory the caller will name it again, under the same id.
  Rollback forget([this] {
    buffers_.pop_back();
    num_buffers_sent_ = std::min(num_buffers_sent_, buffers_.size());
  });
  SendBuffers();
  forget.Commit();
}

absl::Status ControlClient::SendTrigger(std::string_view name) {
  control::Trigger trigger;
  trigger.name = std::string(name);
  std::string bytes;
  if (name.empty() ||
      control::EncodeProducerMessage(std::move(trigger), &bytes) !=
          control::CodecOutcome::kOk) {
    return absl::InvalidArgumentError(
        fmt::format("trigger of {} bytes: a name has 1 to {}", name.size(),
                    control::kMaxNameSize));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (!socket_.IsOurs()) {
    return absl::UnavailableError("no service is there to hear a trigger");
  }
  const os::SendResult sent = os::SendMessage(socket_.get(), bytes);
  if (sent.outcome == os::SendOutcome::kSent) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("a trigger could not be sent: {}",
                                            std::strerror(sent.error)));
}

std::string ControlClient::last_error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_error_;
}

bool ControlClient::HandleReady(milliseconds timeout) {
  std::array<epoll_event, 3> events;
  absl::StatusOr<size_t> ready =
      epoll_.Wait(events.data(), events.size(), timeout);
  if (!ready.ok()) return false;
  for (size_t i = 0; i < *ready; ++i) {
    if (InForkedChild()) return false;
    switch (events[i].data.u64) {
      case kTimer:
        HandleTimer();
        break;
      case kWake:
        HandleWake();
        break;
      case kSocket:
        HandleSocket(events[i].events);
        break;
    }
  }
  return !InForkedChild();
}

void ControlClient::HandleTimer() {
  if (timer_.TakeExpirations() == 0) return;
  if (state_ == State::kAttached) {
    Work();
    return;
  }
  if (state_ != State::kIdle || config_.socket_path.empty()) return;
  absl::StatusOr<os::UniqueFd> socket = ConnectToTrusted();
  const absl::Status status =
      socket.ok() ? Greet(*std::move(socket)) : socket.status();
  if (!status.ok()) Disconnect(std::string(AsView(status)));
}

void ControlClient::HandleWake() {
  os::ResetEventFd(wake_fd_.get());
  if (state_ == State::kAttached) Work();
}

void ControlClient::HandleSocket(uint32_t events) {
  // Another process may hold it open, and so keep it in epoll.
  if (!socket_.IsOurs()) {
    Disconnect("the program closed the connection");
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    SendBuffers();
  }
  if ((events & ~uint32_t{EPOLLOUT}) == 0) return;
  if (receive_buffer_ == nullptr) {
    receive_buffer_.reset(new char[control::kMaxMessageSize]);
  }
  for (int i = 0; i < kMaxMessagesAtOnce && socket_.valid(); ++i) {
    if (InForkedChild()) return;
    const os::ReceivedMessage message =
        os::ReceiveMessage(socket_.get(), receive_buffer_.get(),
                           control::kMaxMessageSize, os::kMaxFdsPerMessage);
    switch (message.outcome) {
      case os::ReceiveOutcome::kMessage:
        HandleMessage(receive_buffer_.get(), message.size, message.fds);
        break;
      case os::ReceiveOutcome::kWouldBlock:
        return;
      case os::ReceiveOutcome::kClosed:
        Disconnect("the service closed the connection");
        return;
      case os::ReceiveOutcome::kPayloadTruncated:
      case os::ReceiveOutcome::kControlTruncated:
        Disconnect("a message of the service was too large");
        return;
      case os::ReceiveOutcome::kFailed:
        Disconnect(fmt::format("receiving from the service: {}",
                               std::strerror(message.error)));
        return;
    }
  }
}

void ControlClient::HandleMessage(const char* bytes, size_t size,
                                  const std::vector<os::UniqueFd>& fds) {
  control::ConsumerMessage message;
  const control::CodecOutcome outcome =
      control::DecodeConsumerMessage(std::string_view(bytes, size), &message);
  if (outcome != control::CodecOutcome::kOk) {
    Disconnect(fmt::format("a message of the service broke a rule: {}",
                           control::CodecRule(outcome)));
    return;
  }
  if (std::holds_alternative<std::monostate>(message)) return;
  if (fds.size() != control::NumFds(message)) {
    Disconnect(
        fmt::format("a message of the service came with {} descriptors "
                    "instead of {}",
                    fds.size(), control::NumFds(message)));
    return;
  }
  if (const auto* reject = std::get_if<control::Reject>(&message)) {
    Disconnect(fmt::format("the service refused: {}", reject->reason));
  } else if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
    HandleWelcome(*welcome, fds);
  } else if (auto* set = std::get_if<control::SetEnabled>(&message)) {
    // Before Welcome it means nothing, which says it all anyway.
    if (state_ == State::kAttached) {
      delegate_->OnCategories(std::move(set->patterns));
    }
  }
}

void ControlClient::HandleWelcome(const control::Welcome& welcome,
                                  const std::vector<os::UniqueFd>& fds) {
  if (state_ != State::kGreeting) {
    Disconnect("the service welcomed this process twice");
    return;
  }
  if (welcome.abi_version != abi::kAbiVersion) {
    Disconnect(fmt::format("the service wants ring ABI version {}; this is {}",
                           welcome.abi_version, abi::kAbiVersion));
    return;
  }
  // Before the delegate: what it traces may name new buffers and request work.
  state_ = State::kAttached;
  retry_delay_ = kMinRetryDelay;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_error_.clear();
  }
  const absl::Status status = delegate_->OnAttached(fds.front(), welcome);
  if (!status.ok()) {
    Disconnect(std::string(AsView(status)));
    return;
  }
  Work();
}

void ControlClient::Work() {
  if (!delegate_->DoWork()) return;
  // Without a timer the next request or session does what is left.
  (void)timer_.SetOneShot(kWorkDelay);
}

absl::StatusOr<os::UniqueFd> ControlClient::ConnectToTrusted() const {
  absl::StatusOr<os::UniqueFd> socket = os::Connect(config_.socket_path);
  if (!socket.ok()) return socket;
  const absl::StatusOr<os::PeerCredentials> peer =
      os::GetPeerCredentials(socket->get());
  if (!peer.ok()) return peer.status();
  const auto& allowed = config_.allowed_uids;
  if (peer->uid != geteuid() && peer->uid != 0 &&
      std::find(allowed.begin(), allowed.end(), peer->uid) == allowed.end()) {
    return absl::PermissionDeniedError(
        fmt::format("the service at '{}' runs as user {}, which is neither "
                    "this user, nor root, nor allowed",
                    config_.socket_path, peer->uid));
  }
  return socket;
}

absl::Status ControlClient::Greet(os::UniqueFd socket) {
  std::lock_guard<std::mutex> lock(mutex_);
  socket_ = os::GuardedFd(std::move(socket));
  guarded_socket_.inode.store(socket_.inode(), std::memory_order_relaxed);
  guarded_socket_.number.store(socket_.get(), std::memory_order_release);
  num_buffers_sent_ = 0;
  want_writable_ = false;
  state_ = State::kGreeting;
  if (absl::Status status = epoll_.Add(socket_.get(), EPOLLIN, kSocket);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = SendGreeting(); !status.ok()) return status;
  SendBuffers();
  return absl::OkStatus();
}

absl::Status ControlClient::SendGreeting() {
  control::Hello hello;
  hello.abi_version_min = abi::kAbiVersion;
  hello.abi_version_max = abi::kAbiVersion;
  hello.process_name = config_.process_name;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.rings = config_.rings;
  const size_t num_buffers = TakeBuffers(&hello);
  std::string bytes;
  const control::CodecOutcome outcome =
      control::EncodeProducerMessage(std::move(hello), &bytes);
  if (outcome != control::CodecOutcome::kOk) {
    return absl::InternalError(control::CodecRule(outcome));
  }
  std::vector<int> memfds;
  for (const os::GuardedFd* memfd : config_.memfds) {
    // No file of the program ever goes to the service.
    if (!memfd->IsOurs()) {
      return absl::FailedPreconditionError(
          "the program closed descriptors of its rings");
    }
    memfds.push_back(memfd->get());
  }
  const os::SendResult sent = os::SendMessage(socket_.get(), bytes, memfds);
  if (sent.outcome != os::SendOutcome::kSent) {
    return absl::UnavailableError(
        fmt::format("greeting the service: {}", std::strerror(sent.error)));
  }
  num_buffers_sent_ = num_buffers;
  return absl::OkStatus();
}

// Adds buffers that have not been sent, as many as one message should hold, and
// returns how many they are.
template <typename Message>
size_t ControlClient::TakeBuffers(Message* message) const {
  size_t bytes = 0;
  size_t count = 0;
  for (size_t i = num_buffers_sent_;
       i < buffers_.size() && count < control::kMaxBuffersPerMessage; ++i) {
    bytes += buffers_[i].name.size() + kBufferOverhead;
    if (bytes > kMaxBufferBytes) break;
    message->buffers.push_back(buffers_[i]);
    ++count;
  }
  return count;
}

void ControlClient::SendBuffers() {
  if (!socket_.IsOurs()) return;
  bool blocked = false;
  while (num_buffers_sent_ < buffers_.size() && !blocked) {
    control::AddBuffers add;
    const size_t count = TakeBuffers(&add);
    std::string bytes;
    if (control::EncodeProducerMessage(std::move(add), &bytes) !=
        control::CodecOutcome::kOk) {
      return;
    }
    const os::SendResult sent = os::SendMessage(socket_.get(), bytes);
    if (sent.outcome == os::SendOutcome::kSent) {
      num_buffers_sent_ += count;
    } else if (sent.outcome == os::SendOutcome::kWouldBlock) {
      blocked = true;
    } else {
      return;  // the driving thread sees the hang-up, too
    }
  }
  if (blocked == want_writable_) return;
  const uint32_t events =
      blocked ? uint32_t{EPOLLIN} | uint32_t{EPOLLOUT} : uint32_t{EPOLLIN};
  if (epoll_.Modify(socket_.get(), events, kSocket).ok()) {
    want_writable_ = blocked;
  }
}

void ControlClient::Disconnect(std::string reason) {
  const bool was_attached = state_ == State::kAttached;
  state_ = State::kIdle;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    CloseSocket();
    last_error_ = std::move(reason);
  }
  if (was_attached) delegate_->OnDetached();
  ScheduleRetry();
}

void ControlClient::GiveUpSession() noexcept {
  if (InForkedChild()) return;
  // The text is short enough not to be allocated. Whatever is left after a
  // failure ends with the next attempt.
  Contain([this] { Disconnect("out of memory"); }, [this] { ScheduleRetry(); });
}

void ControlClient::ScheduleRetry() {
  // One thread is enough to notice: a timer that cannot be set (which the
  // kernel has no reason for) leaves the producer without a consumer.
  (void)timer_.SetOneShot(retry_delay_);
  retry_delay_ = std::min(2 * retry_delay_, kMaxRetryDelay);
}

void ControlClient::CloseSocket() {
  if (!socket_.valid()) return;
  // A child must not close a number that is somebody else's by then.
  guarded_socket_.number.store(-1, std::memory_order_relaxed);
  // Closed at the end also where there is no memory to report an error.
  const os::GuardedFd socket = std::move(socket_);
  if (socket.IsOurs()) epoll_.Remove(socket.get()).IgnoreError();
}

}  // namespace tracering::internal
