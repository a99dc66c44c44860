// Parsing of /proc/meminfo and the files of control groups; see
// available_memory.h. What cannot be read sets no bound: in a sandbox without
// /proc, rings are made all the same.
#include "src/common/os/available_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "src/common/os/small_file.h"

namespace tracering::os {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The number that `text` begins with, after spaces.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  const size_t start = text.find_first_not_of(' ');
  if (start == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const auto result =
      std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The value, in KiB, of the line of /proc/meminfo that starts with `key`.
std::optional<uint64_t> MeminfoKib(std::string_view meminfo,
                                   std::string_view key) {
  const size_t at = meminfo.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  return ParseNumber(meminfo.substr(at + key.size()));
}

uint64_t MachineBound(const std::string& root) {
  const absl::StatusOr<std::string> meminfo =
      ReadSmallFile(root + "/proc/meminfo");
  if (!meminfo.ok()) return kUnknown;
  const std::optional<uint64_t> available =
      MeminfoKib(*meminfo, "MemAvailable:");
  if (!available.has_value()) return kUnknown;
  return (*available + MeminfoKib(*meminfo, "SwapFree:").value_or(0)) * 1024;
}

// The lowest memory.max from this process's group up to the root. Not what is
// left of it: page cache counts as used there, but gives way.
uint64_t ControlGroupBound(const std::string& root) {
  constexpr std::string_view kPrefix = "0::/";
  const absl::StatusOr<std::string> groups =
      ReadSmallFile(root + "/proc/self/cgroup");
  if (!groups.ok()) return kUnknown;
  const size_t at = groups->find(kPrefix);
  if (at == std::string::npos) return kUnknown;
  const size_t start = at + kPrefix.size() - 1;
  std::string group = groups->substr(start, groups->find('\n', at) - start);
  uint64_t bound = kUnknown;
  for (;;) {
    const absl::StatusOr<std::string> limit = ReadSmallFile(
        fmt::format("{}/sys/fs/cgroup{}/memory.max", root, group));
    if (limit.ok()) {  // "max" is no number and sets no bound
      bound = std::min(bound, ParseNumber(*limit).value_or(kUnknown));
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return bound;
    group.resize(slash);
  }
}

}  // namespace

uint64_t AvailableMemory(const std::string& root) {
  return std::min(MachineBound(root), ControlGroupBound(root));
}

}  // namespace tracering::os
