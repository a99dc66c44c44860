// Pieces that both the listening and the connecting side of unix_socket.h
// need: addresses, options, error texts.
//
// Nothing outside of this room includes it.
#ifndef TRACERING_SRC_COMMON_OS_SOCKET_ADDRESS_H_
#define TRACERING_SRC_COMMON_OS_SOCKET_ADDRESS_H_

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// `path` as a socket address; an error that names it and the rule otherwise.
inline absl::StatusOr<sockaddr_un> MakeSocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr size_t kMaxPathSize = sizeof(address.sun_path) - 1;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "socket path '{}' must not be empty or contain a zero byte", path));
  }
  if (path.size() > kMaxPathSize) {
    return absl::InvalidArgumentError(
        fmt::format("socket path '{}' has {} bytes; the limit is {}", path,
                    path.size(), kMaxPathSize));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// An unbound, non-blocking, close-on-exec SOCK_SEQPACKET socket.
inline absl::StatusOr<UniqueFd> CreateSocket() {
  UniqueFd fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "socket");
  return fd;
}

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_SOCKET_ADDRESS_H_
