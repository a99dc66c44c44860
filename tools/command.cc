// Spawning and reaping; see command.h.
#include "tools/command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace tracering::tools {
namespace {

std::vector<std::string> MergeEnvironment(const Command::Environment& more) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : more) {
      replaced |= text.substr(0, text.find('=')) == name;
    }
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : more) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) {
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::optional<Command> Command::Start(const std::vector<std::string>& arguments,
                                      const Environment& more,
                                      const sigset_t& signals) {
  const std::vector<std::string> environment = MergeEnvironment(more);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &signals);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, arguments[0].c_str(), nullptr, &attributes,
                   Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return std::nullopt;
  }
  return Command(pid);
}

bool Command::HasEnded() {
  int status = 0;
  if (ended_ || waitpid(pid_, &status, WNOHANG) != pid_) return ended_;
  ended_ = true;
  exit_status_ =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

void Command::Signal(int number) {
  // Until it is reaped its id is nobody else's.
  if (!ended_) kill(pid_, number);
}

}  // namespace tracering::tools
