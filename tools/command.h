// The program that is run under a recording.
//
// One thread. The child is not reaped by the destructor: a recording ends after
// its command, one way or the other.
#ifndef TRACERING_TOOLS_COMMAND_H_
#define TRACERING_TOOLS_COMMAND_H_

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracering::tools {

class Command {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // Starts arguments[0], looked up as a shell does, with `more` in its
  // environment and `signals` blocked. Nothing, with errno set, if it cannot.
  static std::optional<Command> Start(const std::vector<std::string>& arguments,
                                      const Environment& more,
                                      const sigset_t& signals);

  // Whether it has ended by now.
  bool HasEnded();
  // No effect once it has ended.
  void Signal(int number);

  // Its exit status, or 128 and the number of the signal that ended it. Once it
  // has ended.
  int exit_status() const { return exit_status_; }

 private:
  explicit Command(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool ended_ = false;
  int exit_status_ = 0;
};

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_COMMAND_H_
