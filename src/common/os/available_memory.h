// How much memory can still be had, asked before taking a lot of it: the kernel
// grants shared memory page by page until its OOM killer ends some process. An
// estimate, as others take memory meanwhile. Thread-safe.
#ifndef TRACERING_SRC_COMMON_OS_AVAILABLE_MEMORY_H_
#define TRACERING_SRC_COMMON_OS_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace tracering::os {

// An upper bound, in bytes: what the machine can free without killing anybody,
// swap included, or the memory limit of this process's control group (v2) if
// that is less. The largest number if nobody says. `root` is put in front of
// /proc and /sys. Cold path.
uint64_t AvailableMemory(const std::string& root = "");

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_AVAILABLE_MEMORY_H_
