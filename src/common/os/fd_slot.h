// Exchanging what a descriptor number stands for while other threads use it.
//
// The number stays valid throughout, so a writer can never reach a descriptor
// that somebody else has since opened.
#ifndef TRACERING_SRC_COMMON_OS_FD_SLOT_H_
#define TRACERING_SRC_COMMON_OS_FD_SLOT_H_

#include "absl/status/status.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// Makes `slot_fd`, an open descriptor of ours, another descriptor of the file
// behind `with`, close-on-exec. Atomic: a thread that writes to the number
// meanwhile reaches the old file or the new one, never a stranger's. On an
// error the slot is unchanged.
absl::Status ReplaceFd(int slot_fd, const UniqueFd& with);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_FD_SLOT_H_
