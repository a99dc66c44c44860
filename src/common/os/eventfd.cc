// eventfds; see eventfd.h for who watches and who writes them.
#include "src/common/os/eventfd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "src/common/os/errno_saver.h"
#include "src/common/os/guarded_fd.h"

namespace tracering::os {

absl::StatusOr<UniqueFd> CreateEventFd() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  return fd;
}

absl::Status CheckEventFd(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "fstat");
  // Only anonymous kernel objects are of no file type. Those of them that are
  // not eventfds refuse such a write.
  if ((info.st_mode & S_IFMT) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("fd of file type {:#o} is not an eventfd",
                    static_cast<unsigned>(info.st_mode & S_IFMT)));
  }
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "fcntl of an eventfd");
  }
  return absl::OkStatus();
}

void SignalEventFd(int fd) noexcept {
  // The program may have closed the number and got it again for a file.
  if (IsNamedFile(fd)) return;
  ErrnoSaver saver;
  const uint64_t one = 1;
  while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void ResetEventFd(int fd) noexcept {
  if (IsNamedFile(fd)) return;
  ErrnoSaver saver;
  uint64_t counter = 0;
  while (read(fd, &counter, sizeof(counter)) < 0 && errno == EINTR) {
  }
}

}  // namespace tracering::os
