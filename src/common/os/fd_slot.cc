// dup3; see fd_slot.h.
#include "src/common/os/fd_slot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace tracering::os {

absl::Status ReplaceFd(const GuardedFd& slot, const UniqueFd& with) {
  if (!slot.IsOurs()) {
    return absl::FailedPreconditionError(
        fmt::format("fd {} was closed by the program", slot.get()));
  }
  // EBUSY: another thread is just being given this very number, which cannot
  // last, as it is taken already.
  while (dup3(with.get(), slot.get(), O_CLOEXEC) < 0) {
    if (errno == EINTR || errno == EBUSY) continue;
    return absl::ErrnoToStatus(
        errno, fmt::format("cannot put fd {} in place of fd {}", with.get(),
                           slot.get()));
  }
  return absl::OkStatus();
}

}  // namespace tracering::os
