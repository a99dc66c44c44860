// open, read, close; see small_file.h.
#include "src/common/os/small_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot open '{}'", path));
  }
  char buffer[8192];
  ssize_t size = 0;
  do {
    size = read(fd.get(), buffer, sizeof(buffer));
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot read '{}'", path));
  }
  return std::string(buffer, static_cast<size_t>(size));
}

}  // namespace tracering::os
