// Sealed memory files: how a ring's memory is made, and how a memory file that
// came from another process is checked before a byte of it is touched.
//
// Trust: CheckSealedMemory takes descriptors from peers that may have passed
// anything. Cold path, thread-safe, not async-signal-safe.
#ifndef TRACERING_SRC_COMMON_OS_MEMFD_H_
#define TRACERING_SRC_COMMON_OS_MEMFD_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

// Names a file independently of descriptors and paths, for as long as
// somebody holds it open.
struct FileIdentity {
  dev_t dev = 0;
  ino_t ino = 0;

  friend bool operator==(const FileIdentity& a, const FileIdentity& b) {
    return a.dev == b.dev && a.ino == b.ino;
  }
  friend bool operator!=(const FileIdentity& a, const FileIdentity& b) {
    return !(a == b);
  }
};

// Creates `bytes` (at least 1) bytes of zeroed, fully allocated memory behind
// a close-on-exec memfd that can neither shrink, grow nor be executed, and
// takes no further seals. `debug_name` appears in /proc only; what exceeds the
// kernel's limit of 249 bytes is cut off.
//
// A lack of memory, or of file size limit (RLIMIT_FSIZE), is an error here
// that names the size: never the OOM killer now, a SIGXFSZ or a SIGBUS later.
absl::StatusOr<UniqueFd> CreateSealedMemory(const char* debug_name,
                                            size_t bytes);

// The same with a file at `path`, readable by its owner only, instead of a
// memfd, and without seals: whoever cuts it takes the memory away from those
// who have it mapped. Replaces a regular file of that name, and nothing else.
absl::StatusOr<UniqueFd> CreateFileMemory(const std::string& path,
                                          size_t bytes);

// OK if `fd` may be mapped and used without any fear of SIGBUS: a writable
// memory file on tmpfs (not hugetlbfs), of exactly `expected_bytes`, sealed
// against shrinking, growing and further seals, and allocated in full, so that
// only holes punched later cost memory; those read as zero.
//
// Never blocks, whatever `fd` is, also a file of a hung FUSE server; allocates
// nothing; takes the same short time for any size. Errors say which rule was
// broken.
absl::Status CheckSealedMemory(int fd, size_t expected_bytes);

// The identity of the open file behind `fd`. On a descriptor from a peer call
// it only after CheckSealedMemory: a foreign file system may never answer.
absl::StatusOr<FileIdentity> IdentifyFile(int fd);

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_MEMFD_H_
