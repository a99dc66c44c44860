// The owner of a descriptor that stays open inside somebody else's program.
//
// Such a program may close numbers that it never opened (closefrom, daemon),
// and the kernel then gives them to files of its own. So the number is one that
// programs rarely come to, never one of the standard streams, and IsOurs says
// before each use what it stands for. A look costs a system call: cold paths
// only. Two looks apart the answer may change, which nothing can prevent.
//
// Not thread-safe, but for const methods.
#ifndef TRACERING_SRC_COMMON_OS_GUARDED_FD_H_
#define TRACERING_SRC_COMMON_OS_GUARDED_FD_H_

#include <sys/types.h>

#include <utility>

#include "src/common/os/unique_fd.h"

namespace tracering::os {

// Numbers below are the program's, as far as limits allow.
inline constexpr int kMinGuardedFd = 512;

class GuardedFd {
 public:
  GuardedFd() noexcept = default;
  // Moves `fd` to a high number, close-on-exec, or at least off the standard
  // streams. If there is none it stays where it is. Keeps errno.
  explicit GuardedFd(UniqueFd fd) noexcept;
  ~GuardedFd() { reset(); }

  GuardedFd(GuardedFd&& other) noexcept { *this = std::move(other); }
  GuardedFd& operator=(GuardedFd&& other) noexcept;

  int get() const noexcept { return fd_.get(); }
  bool valid() const noexcept { return fd_.valid(); }

  // Whether the number still stands for the file that it was made with. One
  // anonymous kernel object (an eventfd, timer or epoll instance) cannot be
  // told from another; that the program has one at the same high number is
  // left to chance. Keeps errno. Async-signal-safe.
  bool IsOurs() const noexcept;

  // Of a file that is not anonymous.
  ino_t inode() const noexcept { return inode_; }

  // Closes what is ours and forgets what is not. Keeps errno.
  void reset() noexcept;

 private:
  UniqueFd fd_;
  // As fstat said at first.
  dev_t device_ = 0;
  ino_t inode_ = 0;
  mode_t type_ = 0;
};

// Whether `fd` is open and stands for a file, pipe, socket or device, and not
// for an anonymous kernel object. Keeps errno. Async-signal-safe.
bool IsNamedFile(int fd) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_GUARDED_FD_H_
