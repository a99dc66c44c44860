// See foreign_fds.h.
#include "tests/fuzz/foreign_fds.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/support/require.h"

namespace tracering::test {
namespace {

constexpr int kRingSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int Memory(size_t size, int seals, bool allocated = true) {
  const int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Require(fd >= 0, "memfd_create");
  Require(ftruncate(fd, static_cast<off_t>(size)) == 0, "ftruncate");
  if (allocated && size != 0) {
    Require(fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0, "fallocate");
  }
  Require(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS");
  return fd;
}

int OrdinaryFile() {
  char path[] = "/tmp/tracering-test-XXXXXX";
  const int fd = mkostemp(path, O_CLOEXEC);
  Require(fd >= 0 && unlink(path) == 0, "an ordinary file");
  Require(ftruncate(fd, kForeignRingSize) == 0, "ftruncate");
  return fd;
}

std::vector<int> MakeForeignFds() {
  std::vector<int> fds = {
      Memory(kForeignRingSize, 0),
      Memory(kForeignRingSize, F_SEAL_SHRINK | F_SEAL_GROW),
      Memory(kForeignRingSize, F_SEAL_SHRINK | F_SEAL_SEAL),
      Memory(kForeignRingSize, kRingSeals | F_SEAL_WRITE),
      Memory(kForeignRingSize, kRingSeals, /*allocated=*/false),
      Memory(kForeignRingSize - 1, kRingSeals),
      Memory(kForeignRingSize + 4096, kRingSeals),
      Memory(0, kRingSeals),
      Memory(size_t{1} << 40, kRingSeals, /*allocated=*/false),
  };
  const int ring = Memory(kForeignRingSize, kRingSeals);
  const std::string path = fmt::format("/proc/self/fd/{}", ring);
  for (const int flags : {O_RDONLY, O_WRONLY, O_PATH}) {
    fds.push_back(open(path.c_str(), flags | O_CLOEXEC));
  }
  int pair[2];
  Require(pipe2(pair, O_CLOEXEC) == 0, "pipe2");
  fds.insert(fds.end(), pair, pair + 2);
  Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0,
          "socketpair");
  fds.insert(fds.end(), pair, pair + 2);
  sigset_t signals;
  sigemptyset(&signals);
  fds.insert(fds.end(),
             {open("/dev/null", O_RDWR | O_CLOEXEC),
              open("/dev/zero", O_RDWR | O_CLOEXEC),
              open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
              open("/proc/self/maps", O_RDONLY | O_CLOEXEC), OrdinaryFile(),
              eventfd(1, EFD_CLOEXEC), epoll_create1(EPOLL_CLOEXEC),
              timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
              inotify_init1(IN_CLOEXEC), signalfd(-1, &signals, SFD_CLOEXEC),
              static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)), ring});
  for (const int fd : fds) Require(fd >= 0, "a descriptor of every kind");
  return fds;
}

}  // namespace

const std::vector<int>& ForeignFds() {
  static const auto* const fds = new std::vector<int>(MakeForeignFds());
  return *fds;
}

}  // namespace tracering::test
