// Reading what the kernel tells in small files of /proc and /sys. Not for files
// that a peer may have made: nothing here expects more than the kernel's own
// text. Thread-safe.
#ifndef TRACERING_SRC_COMMON_OS_SMALL_FILE_H_
#define TRACERING_SRC_COMMON_OS_SMALL_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace tracering::os {

// The first 8 KiB of `path`, in one read, so that the kernel's answer is of one
// moment. Errors name the path. Cold path; may block on anything but /proc,
// /sys and memory file systems.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_SMALL_FILE_H_
