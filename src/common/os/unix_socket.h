// AF_UNIX/SOCK_SEQPACKET sockets: listening on a path, connecting, and sending
// messages with descriptors. Bytes only: what they mean is src/common/control.
//
// Trust: the peer may send anything, clear O_NONBLOCK on a descriptor that it
// shares, or vanish. No call here blocks, raises SIGPIPE or loses track of a
// descriptor. Thread-safe on distinct sockets; not async-signal-safe.
#ifndef TRACERING_SRC_COMMON_OS_UNIX_SOCKET_H_
#define TRACERING_SRC_COMMON_OS_UNIX_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/memfd.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// SCM_MAX_FD of the kernel: what one message can carry.
inline constexpr size_t kMaxFdsPerMessage = 253;

// A listening socket and the path that it is bound to.
class ListeningSocket {
 public:
  // Binds `path`, gives it `mode` (0600 or 0666) and listens, non-blocking and
  // close-on-exec. A socket that refuses connections is left over from a
  // service that died, and is replaced. One that does not is an error
  // (ALREADY_EXISTS), as is any other kind of file there; errors name the
  // path. `path` + ".lock" serialises services that start at the same time,
  // and exists only meanwhile; waiting for it ends after a second with an
  // error.
  static absl::StatusOr<ListeningSocket> Create(const std::string& path,
                                                mode_t mode);

  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;

  // Unlinks the path if it still leads to this very socket and this process
  // is the one that bound it (not a forked child), then stops listening.
  ~ListeningSocket() { UnlinkIfOurs(); }

  // Readable when a connection waits. See Accept.
  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }

 private:
  ListeningSocket(UniqueFd fd, std::string path, FileIdentity identity);
  void UnlinkIfOurs() noexcept;

  UniqueFd fd_;
  std::string path_;
  FileIdentity identity_;
  pid_t owner_pid_ = 0;
};

enum class AcceptOutcome {
  kAccepted,
  kWouldBlock,      // nobody waits
  kOutOfResources,  // no descriptor or memory: the connection stays queued
  kFailed,
};

struct AcceptResult {
  AcceptOutcome outcome = AcceptOutcome::kFailed;
  UniqueFd fd;    // non-blocking, close-on-exec; valid if kAccepted
  int error = 0;  // errno; 0 if kAccepted
};

// Takes the next connection of a listening socket.
[[nodiscard]] AcceptResult Accept(int listening_fd);

// Connects to `path` (at most 107 bytes). The socket is non-blocking and
// close-on-exec. NOT_FOUND: no such path; UNAVAILABLE: nobody listens, or the
// service's queue is full; other codes as errno says. Errors name the path.
absl::StatusOr<UniqueFd> Connect(const std::string& path);

enum class SendOutcome {
  kSent,        // all of it: messages are never sent in part
  kWouldBlock,  // the peer's queue is full; nothing was sent
  kClosed,      // the peer is gone
  kFailed,      // see `error`
};

struct SendResult {
  SendOutcome outcome = SendOutcome::kFailed;
  int error = 0;  // errno; 0 if kSent
};

// Sends one message. `bytes` must not be empty (the peer could not tell it
// from a closed connection: EINVAL); `fds` are duplicated into it in order, at
// most kMaxFdsPerMessage (EINVAL), and stay the caller's.
[[nodiscard]] SendResult SendMessage(int socket_fd, std::string_view bytes,
                                     const std::vector<int>& fds = {});

enum class ReceiveOutcome {
  kMessage,
  kWouldBlock,
  kClosed,            // by the peer; all that it had sent has been received
  kPayloadTruncated,  // longer than `capacity`; the message is gone
  kControlTruncated,  // more than `max_fds` descriptors, or no room for them in
                      // this process; the message is gone
  kFailed,            // see `error`
};

struct ReceivedMessage {
  ReceiveOutcome outcome = ReceiveOutcome::kFailed;
  size_t size = 0;            // bytes in the buffer; 0 unless kMessage
  std::vector<UniqueFd> fds;  // close-on-exec, in order; empty unless kMessage
  int error = 0;              // errno if kFailed
};

// Receives one message of up to `capacity` bytes and `max_fds` descriptors.
// Those of a message that is refused have been closed; whoever refuses one
// later closes them by CloseUntrusted (untrusted_fds.h).
[[nodiscard]] ReceivedMessage ReceiveMessage(int socket_fd, void* buffer,
                                             size_t capacity, size_t max_fds);

// Who is at the other end of a connection: the process that connected, or the
// one that listened, at that time. `pid` is 0 if it cannot be seen from this
// process's PID namespace.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket_fd);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_UNIX_SOCKET_H_
