// Knowing when a peer process has died, without mistaking a recycled PID for
// it. A socket's hang-up is not enough: a forked child may hold it open.
//
// Cold path, thread-safe, not async-signal-safe.
#ifndef TRACERING_SRC_COMMON_OS_PIDFD_H_
#define TRACERING_SRC_COMMON_OS_PIDFD_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// A close-on-exec pidfd for the process at the other end of `socket_fd`, which
// `pid` (from GetPeerCredentials) names. It becomes readable when the process
// has exited. Uses SO_PEERPIDFD where the kernel has it (6.5), which cannot be
// mistaken, else OpenPidFd(pid). An error means that `pid` is not to be
// trusted and death shows by hang-up alone; also if `pid` is 0.
absl::StatusOr<UniqueFd> OpenPeerPidFd(int socket_fd, pid_t pid);

// pidfd_open, refused if the process start time changed meanwhile, so that the
// pidfd and the start time belong to one process.
absl::StatusOr<UniqueFd> OpenPidFd(pid_t pid);

// When `pid` started, in clock ticks since boot (field 22 of /proc/PID/stat).
absl::StatusOr<uint64_t> ProcessStartTime(pid_t pid);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_PIDFD_H_
