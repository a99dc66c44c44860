// Names, ids and the environment of this process; see process.h.
#include "src/common/os/process.h"

#include <errno.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "src/common/os/unique_fd.h"

namespace tracering::os {
namespace {

// Like getenv, but also empty for a variable that is set to nothing.
std::string_view Environment(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

std::string ProcessName() {
  // Longer than the 15 bytes of /proc/self/comm, and needs no /proc. Empty
  // only if the program was started without an argv[0].
  const std::string_view name = program_invocation_short_name;
  return name.empty() ? "unknown" : std::string(name);
}

std::string CurrentThreadName() {
  char name[16] = {};
  if (prctl(PR_GET_NAME, name) != 0) return "";
  return name;
}

pid_t CurrentThreadId() noexcept {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

std::string ResolveSocketPath(std::string_view configured) {
  if (!configured.empty()) return std::string(configured);
  if (std::string_view path = Environment("TRACERING_SOCKET"); !path.empty()) {
    return std::string(path);
  }
  if (std::string_view dir = Environment("XDG_RUNTIME_DIR"); !dir.empty()) {
    return fmt::format("{}/tracering.sock", dir);
  }
  return fmt::format("/tmp/tracering-{}.sock", getuid());
}

bool NextFdIsReserved(size_t reserve) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  // The kernel gives the lowest number that is free.
  const UniqueFd next(eventfd(0, EFD_CLOEXEC));
  return next.valid() && limit.rlim_cur - static_cast<rlim_t>(next.get()) <=
                             std::min<rlim_t>(reserve, limit.rlim_cur / 2);
}

}  // namespace tracering::os
