// pidfds and start times of peer processes; see pidfd.h.
#include "src/common/os/pidfd.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "src/common/os/small_file.h"

// Newer than the C library's headers.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace tracering::os {
namespace {

constexpr int kStartTimeField = 22;

absl::Status CheckPid(pid_t pid) {
  if (pid > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("pid {} names no process that can be seen from here", pid));
}

}  // namespace

absl::StatusOr<UniqueFd> OpenPeerPidFd(int socket_fd, pid_t pid) {
  if (absl::Status status = CheckPid(pid); !status.ok()) return status;
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) {
    return UniqueFd(fd);
  }
  if (errno == ENOPROTOOPT) return OpenPidFd(pid);
  return absl::ErrnoToStatus(errno,
                             fmt::format("SO_PEERPIDFD of process {}", pid));
}

absl::StatusOr<UniqueFd> OpenPidFd(pid_t pid) {
  if (absl::Status status = CheckPid(pid); !status.ok()) return status;
  const absl::StatusOr<uint64_t> before = ProcessStartTime(pid);
  if (!before.ok()) return before.status();
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, fmt::format("pidfd_open of {}", pid));
  }
  const absl::StatusOr<uint64_t> after = ProcessStartTime(pid);
  if (!after.ok()) return after.status();
  if (*before != *after) {
    return absl::AbortedError(
        fmt::format("pid {} was recycled while it was opened", pid));
  }
  return fd;
}

absl::StatusOr<uint64_t> ProcessStartTime(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const absl::StatusOr<std::string> stat = ReadSmallFile(path);
  if (!stat.ok()) return stat.status();
  // Field 2 is the name in parentheses; it may contain spaces and parentheses
  // of its own, the fields behind it do not.
  std::string_view rest = *stat;
  const size_t name_end = rest.rfind(") ");
  if (name_end != std::string_view::npos) {
    rest.remove_prefix(name_end + 2);
    for (int field = 3; field < kStartTimeField; ++field) {
      const size_t space = rest.find(' ');
      if (space == std::string_view::npos) break;
      rest.remove_prefix(space + 1);
    }
    uint64_t ticks = 0;
    const char* end = rest.data() + rest.size();
    const auto parsed = std::from_chars(rest.data(), end, ticks);
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == ' ') {
      return ticks;
    }
  }
  return absl::InternalError(
      fmt::format("'{}' has no start time in field {}", path, kStartTimeField));
}

}  // namespace tracering::os
