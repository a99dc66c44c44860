// Two-process tests without a bare sleep: starts a program, or a function in a
// forked child, and waits for its exit, its output or its word, always with a
// deadline.
//
// The handshake is a pair of pipes: the child says that it has come to a point
// (handshake::Report), the parent lets it go on (Release). A child that dies
// ends every wait at once. Destroying a ChildProcess kills and reaps its child;
// a child also dies with the thread that started it.
#ifndef TRACERING_TESTS_SUPPORT_CHILD_PROCESS_H_
#define TRACERING_TESTS_SUPPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracering::test {

using Milliseconds = std::chrono::milliseconds;

// Generous: reached only where something hangs.
inline constexpr Milliseconds kChildDeadline{30'000};

struct ChildExit {
  int code = -1;   // exit status, or -1 where a signal ended it
  int signal = 0;  // that signal, or 0
};

class ChildProcess {
 public:
  // args[0] is the path of the program. `env` is added to the environment.
  static ChildProcess Spawn(
      std::vector<std::string> args,
      std::vector<std::pair<std::string, std::string>> env = {});
  // Runs `body` in a forked child, which exits with its result. The child has
  // only the calling thread: `body` must not take locks that others may hold,
  // and under ThreadSanitizer it must not start threads.
  static ChildProcess Fork(const std::function<int()>& body);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // False where the child is gone.
  bool Signal(int number) const;

  // The child's exit, or nothing where it is still running at the deadline.
  // Takes in its output meanwhile, so that a full pipe never blocks it.
  std::optional<ChildExit> Wait(Milliseconds timeout = kChildDeadline);
  // Whether standard output comes to contain `text`; gives up at the deadline
  // and when the child closes its output.
  bool WaitForOutput(const std::string& text,
                     Milliseconds timeout = kChildDeadline);
  // Standard output and standard error up to now.
  const std::string& output() const { return stdout_; }
  const std::string& error_output() const { return stderr_; }
  // The last line of standard output that is not empty.
  std::string LastLine() const;

  // Waits for one handshake::Report of the child.
  bool AwaitReport(Milliseconds timeout = kChildDeadline);
  // Ends one handshake::AwaitRelease of the child.
  void Release();

 private:
  struct Pipes;

  ChildProcess() = default;
  static ChildProcess Start(const std::function<int()>& in_child);

  // Moves what is there from the output pipes; waits for it, for the exit or
  // for a report. Returns false at the deadline.
  bool PollOnce(std::chrono::steady_clock::time_point deadline);
  void TakeOutput(int* fd, std::string* out);

  pid_t pid_ = -1;
  int pidfd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  int report_fd_ = -1;
  int release_fd_ = -1;
  int reports_ = 0;
  std::optional<ChildExit> exit_;
  std::string stdout_;
  std::string stderr_;
};

// For the child. Both do nothing in a process that no test started.
namespace handshake {

// Tells the parent that this point is reached.
void Report();
// Returns when the parent calls Release, or has died.
void AwaitRelease();

}  // namespace handshake

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_CHILD_PROCESS_H_
