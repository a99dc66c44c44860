// Helpers of the tests of src/common/os: files to work on, what is open, what
// is readable, and a process that can open nothing more. Limits are those of
// the whole process, so that tests run one after the other.
#ifndef TRACERING_TESTS_COMMON_OS_OS_TEST_UTIL_H_
#define TRACERING_TESTS_COMMON_OS_OS_TEST_UTIL_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "src/common/os/unique_fd.h"
#include "tests/support/open_fds.h"
#include "tests/support/require.h"
#include "tests/support/scoped_limit.h"
#include "tests/support/take_signals.h"
#include "tests/support/temp_dir.h"

namespace tracering::os {

// Generous: reached only where something hangs.
inline constexpr int kDeadlineMs = 30'000;

using test::CountOpenFds;

inline bool WaitReadable(int fd, int timeout_ms = kDeadlineMs) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, timeout_ms) == 1 && (poll_fd.revents & POLLIN) != 0;
}

inline bool IsReadable(int fd) { return WaitReadable(fd, 0); }

inline bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

inline bool IsCloseOnExec(int fd) {
  return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

inline bool IsNonBlocking(int fd) {
  return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

inline UniqueFd MakeMemory(size_t size = 4096) {
  absl::StatusOr<UniqueFd> fd = CreateSealedMemory("test", size);
  EXPECT_TRUE(fd.ok()) << fd.status();
  return *std::move(fd);
}

inline UniqueFd MakeEventFd() {
  absl::StatusOr<UniqueFd> fd = CreateEventFd();
  EXPECT_TRUE(fd.ok()) << fd.status();
  return *std::move(fd);
}

// Bytes of memory or disk that the file behind `fd` occupies.
inline uint64_t AllocatedBytes(int fd) {
  struct stat file {};
  test::Require(fstat(fd, &file) == 0, "fstat");
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

using test::ScopedLimit;
using test::TempDir;

// The lowest free descriptor number.
inline int NextFd() {
  const UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  test::Require(fd.valid(), "/dev/null");
  return fd.get();
}

// As long as it lives, only `left` more descriptors can be opened. There must
// be no gaps in the numbers in use.
class FullFdTable {
 public:
  explicit FullFdTable(int left = 0)
      : limit_(RLIMIT_NOFILE, static_cast<rlim_t>(NextFd() + left)) {}

 private:
  ScopedLimit limit_;
};

// Both ends of a SOCK_SEQPACKET connection; blocking, so that a call that does
// not ask for MSG_DONTWAIT hangs.
inline std::pair<UniqueFd, UniqueFd> SocketPair() {
  int fds[2];
  test::Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0,
                "socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

MATCHER_P(ErrorSays, text, "") {
  *result_listener << std::string(arg.message());
  return !arg.ok() &&
         std::string(arg.message()).find(text) != std::string::npos;
}

}  // namespace tracering::os

#endif  // TRACERING_TESTS_COMMON_OS_OS_TEST_UTIL_H_
