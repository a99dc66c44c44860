// Renames only; see file_series.h.
#include "src/consumer/file_series.h"

#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>

namespace tracering::internal {
namespace {

std::string NameOf(const std::string& path, uint32_t number) {
  return number == 0 ? path : fmt::format("{}.{}", path, number);
}

}  // namespace

absl::Status ShiftFiles(const std::string& path, uint32_t max_files) {
  // From the oldest on: each takes the place that the one before has left.
  for (uint32_t number = max_files - 1; number > 0; --number) {
    const std::string from = NameOf(path, number - 1);
    if (rename(from.c_str(), NameOf(path, number).c_str()) == 0) continue;
    if (errno == ENOENT) continue;
    return absl::ErrnoToStatus(
        errno, fmt::format("cannot rename trace file {} to {}", from,
                           NameOf(path, number)));
  }
  return absl::OkStatus();
}

}  // namespace tracering::internal
