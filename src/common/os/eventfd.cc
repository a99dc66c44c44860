// eventfds; see eventfd.h for who watches and who writes them.
#include "src/common/os/eventfd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "src/common/os/errno_saver.h"

namespace tracering::os {

absl::StatusOr<UniqueFd> CreateEventFd() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  return fd;
}

void SignalEventFd(int fd) noexcept {
  ErrnoSaver saver;
  const uint64_t one = 1;
  while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void ResetEventFd(int fd) noexcept {
  ErrnoSaver saver;
  uint64_t counter = 0;
  while (read(fd, &counter, sizeof(counter)) < 0 && errno == EINTR) {
  }
}

}  // namespace tracering::os
