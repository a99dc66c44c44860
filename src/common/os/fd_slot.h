// Exchanging what a descriptor number stands for while other threads use it.
//
// The number stays valid throughout, so a writer can never reach a descriptor
// that somebody else has since opened.
#ifndef TRACERING_SRC_COMMON_OS_FD_SLOT_H_
#define TRACERING_SRC_COMMON_OS_FD_SLOT_H_

#include "absl/status/status.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// Makes `slot`, an eventfd as `with` is, another descriptor of the file behind
// `with`, close-on-exec. Atomic: a thread that writes to the number
// meanwhile reaches the old file or the new one, never a stranger's. On an
// error, also that the program has taken the number for itself, it is
// unchanged.
absl::Status ReplaceFd(const GuardedFd& slot, const UniqueFd& with);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_FD_SLOT_H_
