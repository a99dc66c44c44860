// Reading and searching; see module_map.h.
#include "src/producer/module_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "src/common/os/guarded_fd.h"

namespace tracering::internal {
namespace {

bool ParseLine(const std::string& line, CodeMapping* mapping) {
  char permissions[5] = {};
  int path = 0;
  if (std::sscanf(line.c_str(),
                  "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64
                  " %n",
                  &mapping->start, &mapping->end, permissions,
                  &mapping->file_offset, &mapping->inode, &path) != 5) {
    return false;
  }
  if (permissions[2] != 'x') return false;
  mapping->path = line.substr(static_cast<size_t>(path));
  if (mapping->path.empty()) mapping->path = "[anon]";
  return true;
}

}  // namespace

bool ModuleMap::Read() {
  const os::GuardedFd fd(
      os::UniqueFd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)));
  if (!fd.valid()) return false;
  std::string text;
  std::array<char, 16384> block;
  ssize_t size;
  while ((size = read(fd.get(), block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<size_t>(size));
  }
  if (size < 0) return false;
  Parse(text);
  return true;
}

void ModuleMap::Parse(std::string_view maps) {
  mappings_.clear();
  while (!maps.empty()) {
    const size_t end = std::min(maps.find('\n'), maps.size());
    CodeMapping mapping;
    if (ParseLine(std::string(maps.substr(0, end)), &mapping)) {
      mappings_.push_back(std::move(mapping));
    }
    maps.remove_prefix(std::min(end + 1, maps.size()));
  }
  std::sort(mappings_.begin(), mappings_.end(),
            [](const CodeMapping& a, const CodeMapping& b) {
              return a.start < b.start;
            });
}

const CodeMapping* ModuleMap::Find(uint64_t pc) const {
  auto after = std::upper_bound(mappings_.begin(), mappings_.end(), pc,
                                [](uint64_t value, const CodeMapping& mapping) {
                                  return value < mapping.start;
                                });
  if (after == mappings_.begin() || pc >= (--after)->end) return nullptr;
  return &*after;
}

}  // namespace tracering::internal
