// The file under a TraceFileWriter, as a seam: production writes to a file
// descriptor, tests fail at any byte they like.
//
// Calls behave like the syscalls below them, with errno values as results, so
// that short writes, EINTR and errors are handled, and tested, in one place
// above. One thread at a time.
#ifndef TRACERING_SRC_CONSUMER_FILE_SINK_H_
#define TRACERING_SRC_CONSUMER_FILE_SINK_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tracering::internal {

class FileSink {
 public:
  virtual ~FileSink() = default;

  // Writes up to `size` bytes at the end. Returns how many, or -errno.
  virtual ssize_t Write(const void* bytes, size_t size) = 0;
  // Cuts the file to `size` bytes; writing goes on there. 0 or an errno value.
  virtual int Truncate(uint64_t size) = 0;
  // Brings what was written to the disk. 0 or an errno value.
  virtual int Sync() = 0;
  // Gives the file its final name, replacing what had it. 0 or an errno value.
  virtual int Publish() = 0;
  // Removes the file, unless it was published.
  virtual void Remove() = 0;

  // The name that the bytes can be found under now.
  virtual const std::string& path() const = 0;
};

// Creates an empty temporary file in the directory of `path`, readable by its
// owner only; Publish() renames it to `path`. Until then a file of that name
// stays as it is. What is not a regular file is refused: a rename would replace
// a device or a pipe instead of writing to it. A write beyond RLIMIT_FSIZE is
// an EFBIG, never a SIGXFSZ.
absl::StatusOr<std::unique_ptr<FileSink>> CreateFileSink(
    const std::string& path);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_FILE_SINK_H_
