// The owner of one file descriptor. Every descriptor in this code base is held
// by one of these from the moment the kernel hands it out.
//
// Not thread-safe, like any value type.
#ifndef TRACERING_SRC_COMMON_OS_UNIQUE_FD_H_
#define TRACERING_SRC_COMMON_OS_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

#include "src/common/os/errno_saver.h"

namespace tracering::os {

class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  // Takes ownership of `fd`; negative means none.
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  ~UniqueFd() { reset(); }

  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }

  // Gives the descriptor up without closing it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  // Closes what is held, if anything, and takes `fd`. errno stays as it was:
  // the error that the caller is about to report matters more. EINTR is not
  // retried, because Linux has closed the descriptor by then and its number
  // may already belong to another thread.
  void reset(int fd = -1) noexcept {
    const int old = std::exchange(fd_, fd);
    if (old < 0) return;
    ErrnoSaver saver;
    close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_UNIQUE_FD_H_
