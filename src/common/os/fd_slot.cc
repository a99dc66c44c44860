// dup3; see fd_slot.h.
#include "src/common/os/fd_slot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace tracering::os {

absl::Status ReplaceFd(int slot_fd, const UniqueFd& with) {
  // EBUSY: another thread is just being given this very number, which cannot
  // last, as it is taken already.
  while (dup3(with.get(), slot_fd, O_CLOEXEC) < 0) {
    if (errno == EINTR || errno == EBUSY) continue;
    return absl::ErrnoToStatus(
        errno,
        fmt::format("cannot put fd {} in place of fd {}", with.get(), slot_fd));
  }
  return absl::OkStatus();
}

}  // namespace tracering::os
