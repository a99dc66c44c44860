// The handshake pipes sit at fixed descriptor numbers in the child, well above
// those that programs get, and so survive exec without being announced.
#include "tests/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "tests/support/require.h"

namespace tracering::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReportFd = 998;
constexpr int kReleaseFd = 999;

void CloseFd(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

int RemainingMs(Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

}  // namespace

// Each pipe's reading and writing end, for the time between pipe and fork.
struct ChildProcess::Pipes {
  int out[2];
  int err[2];
  int report[2];
  int release[2];

  Pipes() {
    for (int* ends : {out, err, report}) {
      Require(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    }
    // Sockets, so that releasing a child that is gone raises no signal.
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, release) == 0,
            "socketpair");
  }
  void Install() const {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    dup2(report[1], kReportFd);
    dup2(release[0], kReleaseFd);
    for (const int* ends : {out, err, report, release}) {
      close(ends[0]);
      close(ends[1]);
    }
  }
};

ChildProcess ChildProcess::Start(const std::function<int()>& in_child) {
  Pipes pipes;
  std::fflush(nullptr);  // or the child would print it again
  const pid_t parent = getpid();
  const pid_t pid = fork();
  Require(pid >= 0, "fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    pipes.Install();
    _exit(in_child());
  }
  ChildProcess child;
  child.pid_ = pid;
  child.pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  Require(child.pidfd_ >= 0, "pidfd_open");
  child.stdout_fd_ = pipes.out[0];
  child.stderr_fd_ = pipes.err[0];
  child.report_fd_ = pipes.report[0];
  child.release_fd_ = pipes.release[1];
  close(pipes.out[1]);
  close(pipes.err[1]);
  close(pipes.report[1]);
  close(pipes.release[0]);
  for (int fd : {child.stdout_fd_, child.stderr_fd_, child.report_fd_}) {
    Require(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  }
  return child;
}

ChildProcess ChildProcess::Spawn(
    std::vector<std::string> args,
    std::vector<std::pair<std::string, std::string>> env) {
  return Start([&args, &env] {
    for (const auto& [name, value] : env) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
    std::vector<char*> argv;
    argv.reserve(args.size() + 1);
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    std::perror(argv[0]);
    return 127;
  });
}

ChildProcess ChildProcess::Fork(const std::function<int()>& body) {
  return Start([&body] {
    const int result = body();
    std::fflush(nullptr);
    return result;
  });
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      stderr_fd_(std::exchange(other.stderr_fd_, -1)),
      report_fd_(std::exchange(other.report_fd_, -1)),
      release_fd_(std::exchange(other.release_fd_, -1)),
      reports_(other.reports_),
      exit_(other.exit_),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !exit_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int* fd :
       {&pidfd_, &stdout_fd_, &stderr_fd_, &report_fd_, &release_fd_}) {
    CloseFd(fd);
  }
}

bool ChildProcess::Signal(int number) const {
  return !exit_.has_value() && kill(pid_, number) == 0;
}

void ChildProcess::TakeOutput(int* fd, std::string* out) {
  char buffer[4096];
  while (*fd >= 0) {
    const ssize_t got = read(*fd, buffer, sizeof buffer);
    if (got > 0) {
      out->append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      CloseFd(fd);
    } else if (errno != EINTR) {
      return;  // nothing more for now
    }
  }
}

bool ChildProcess::PollOnce(Clock::time_point deadline) {
  pollfd fds[] = {{exit_.has_value() ? -1 : pidfd_, POLLIN, 0},
                  {stdout_fd_, POLLIN, 0},
                  {stderr_fd_, POLLIN, 0},
                  {report_fd_, POLLIN, 0}};
  const int ready = poll(fds, std::size(fds), RemainingMs(deadline));
  Require(ready >= 0 || errno == EINTR, "poll");
  if (ready == 0) return false;
  std::string reports;
  TakeOutput(&stdout_fd_, &stdout_);
  TakeOutput(&stderr_fd_, &stderr_);
  TakeOutput(&report_fd_, &reports);
  reports_ += static_cast<int>(reports.size());
  int status = 0;
  if (!exit_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_ = WIFEXITED(status) ? ChildExit{WEXITSTATUS(status), 0}
                              : ChildExit{-1, WTERMSIG(status)};
  }
  return true;
}

std::optional<ChildExit> ChildProcess::Wait(Milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!exit_.has_value() && PollOnce(deadline)) {
  }
  // What it wrote last; a descendant may hold the pipe open, so no waiting.
  TakeOutput(&stdout_fd_, &stdout_);
  TakeOutput(&stderr_fd_, &stderr_);
  return exit_;
}

bool ChildProcess::WaitForOutput(const std::string& text,
                                 Milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (stdout_.find(text) == std::string::npos) {
    if (stdout_fd_ < 0 || !PollOnce(deadline)) return false;
  }
  return true;
}

std::string ChildProcess::LastLine() const {
  const size_t end = stdout_.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t newline = stdout_.rfind('\n', end);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return stdout_.substr(begin, end + 1 - begin);
}

bool ChildProcess::AwaitReport(Milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (reports_ == 0) {
    if (report_fd_ < 0 || !PollOnce(deadline)) return false;
  }
  --reports_;
  return true;
}

void ChildProcess::Release() {
  const char byte = 1;
  // A child that is gone needs no release.
  [[maybe_unused]] const ssize_t sent =
      send(release_fd_, &byte, 1, MSG_NOSIGNAL);
}

namespace handshake {

void Report() {
  const char byte = 1;
  [[maybe_unused]] const ssize_t sent = write(kReportFd, &byte, 1);
}

void AwaitRelease() {
  char byte;
  while (read(kReleaseFd, &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace handshake

}  // namespace tracering::test
