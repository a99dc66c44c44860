// Wake-ups across processes: an eventfd that is only ever written, and watched
// edge-triggered, so that neither side depends on the other reading it.
//
// The peer shares the descriptor's state, so nothing here trusts its counter or
// its flags.
#ifndef TRACERING_SRC_COMMON_OS_EVENTFD_H_
#define TRACERING_SRC_COMMON_OS_EVENTFD_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// A close-on-exec, non-blocking eventfd with counter 0.
absl::StatusOr<UniqueFd> CreateEventFd();

// OK if `fd`, which came from a peer, is some kernel object on which a write of
// 8 bytes does not block: no pipe, socket, file or device. Sets O_NONBLOCK,
// which the peer can clear again. Never blocks.
absl::Status CheckEventFd(int fd);

// Adds 1 to the counter. A counter at its maximum is readable already, and no
// other failure can be helped by the caller: nothing is reported. No effect if
// the number now stands for a file, pipe or socket of the program. Keeps errno.
// Async-signal-safe. Does not block as long as `fd` is non-blocking.
void SignalEventFd(int fd) noexcept;

// Sets the counter to 0 if it is not, for owners that poll level-triggered. The
// same goes for a number that is no eventfd any more. Keeps errno.
// Async-signal-safe. Only for eventfds that no peer has got: one that can clear
// O_NONBLOCK could block the caller.
void ResetEventFd(int fd) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_EVENTFD_H_
