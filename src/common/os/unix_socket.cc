// Accepting, connecting and messages; see unix_socket.h for what peers may do.
// Listening is in listening_socket.cc.
#include "src/common/os/unix_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/common/os/socket_address.h"
#include "src/common/os/untrusted_fds.h"

namespace tracering::os {
namespace {

// Takes ownership of every descriptor that a received header carries.
void OwnReceivedFds(msghdr* header, std::vector<UniqueFd>* fds) {
  for (cmsghdr* control = CMSG_FIRSTHDR(header); control != nullptr;
       control = CMSG_NXTHDR(header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t num_fds = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < num_fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      fds->emplace_back(fd);
    }
  }
}

bool MeansClosed(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN ||
         error == ECONNREFUSED;
}

}  // namespace

AcceptResult Accept(int listening_fd) {
  AcceptResult result;
  do {
    result.fd.reset(
        accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  } while (!result.fd.valid() && (errno == EINTR || errno == ECONNABORTED));
  if (result.fd.valid()) {
    result.outcome = AcceptOutcome::kAccepted;
    return result;
  }
  result.error = errno;
  switch (errno) {
    case EAGAIN:
      result.outcome = AcceptOutcome::kWouldBlock;
      break;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      result.outcome = AcceptOutcome::kOutOfResources;
      break;
    default:
      result.outcome = AcceptOutcome::kFailed;
  }
  return result;
}

absl::StatusOr<UniqueFd> Connect(const std::string& path) {
  absl::StatusOr<sockaddr_un> address = MakeSocketAddress(path);
  if (!address.ok()) return address.status();
  absl::StatusOr<UniqueFd> fd = CreateSocket();
  if (!fd.ok()) return fd.status();
  if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&*address),
              sizeof(*address)) != 0) {
    return absl::ErrnoToStatus(errno,
                               fmt::format("cannot connect to '{}'", path));
  }
  return fd;
}

SendResult SendMessage(int socket_fd, std::string_view bytes,
                       const std::vector<int>& fds) {
  if (bytes.empty() || fds.size() > kMaxFdsPerMessage) {
    return {SendOutcome::kFailed, EINVAL};
  }
  iovec payload{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &payload;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))];
  if (!fds.empty()) {
    std::memset(control, 0, sizeof(control));
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {SendOutcome::kSent, 0};
  const int error = errno;
  if (error == EAGAIN) return {SendOutcome::kWouldBlock, error};
  if (MeansClosed(error)) return {SendOutcome::kClosed, error};
  return {SendOutcome::kFailed, error};
}

ReceivedMessage ReceiveMessage(int socket_fd, void* buffer, size_t capacity,
                               size_t max_fds) {
  ReceivedMessage message;
  // Before the kernel hands any out: emplacing them must not fail.
  message.fds.reserve(kMaxFdsPerMessage);

  // Room for all that can come, whatever `max_fds` is: what does not fit, the
  // kernel closes within recvmsg, which may block (untrusted_fds.h).
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))];
  iovec payload{buffer, capacity};
  msghdr header{};
  ssize_t received = 0;
  bool was_reset = false;
  for (;;) {
    header = {};
    header.msg_iov = &payload;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    received = recvmsg(socket_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received >= 0) break;
    if (errno == EINTR) continue;
    // A peer that died without having read all that we sent is reported
    // first, once; what it had sent before still waits behind that.
    if (errno == ECONNRESET && !was_reset) {
      was_reset = true;
      continue;
    }
    break;
  }
  if (received < 0) {
    if (errno == EAGAIN) {
      message.outcome = ReceiveOutcome::kWouldBlock;
    } else if (MeansClosed(errno)) {
      message.outcome = ReceiveOutcome::kClosed;
    } else {
      message.outcome = ReceiveOutcome::kFailed;
      message.error = errno;
    }
    return message;
  }

  OwnReceivedFds(&header, &message.fds);
  if (received == 0) {
    message.outcome = ReceiveOutcome::kClosed;
  } else if ((header.msg_flags & MSG_TRUNC) != 0) {
    message.outcome = ReceiveOutcome::kPayloadTruncated;
  } else if ((header.msg_flags & MSG_CTRUNC) != 0 ||
             message.fds.size() > max_fds) {
    message.outcome = ReceiveOutcome::kControlTruncated;
  } else {
    message.outcome = ReceiveOutcome::kMessage;
    message.size = static_cast<size_t>(received);
    return message;
  }
  CloseUntrusted(std::move(message.fds));
  message.fds.clear();
  return message;
}

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket_fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) !=
      0) {
    return absl::ErrnoToStatus(errno, "SO_PEERCRED");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace tracering::os
