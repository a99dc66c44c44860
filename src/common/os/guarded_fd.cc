// fstat and F_DUPFD; see guarded_fd.h.
#include "src/common/os/guarded_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "src/common/os/errno_saver.h"

namespace tracering::os {

GuardedFd::GuardedFd(UniqueFd fd) noexcept : fd_(std::move(fd)) {
  if (!fd_.valid()) return;
  ErrnoSaver saver;
  for (const int minimum : {kMinGuardedFd, STDERR_FILENO + 1}) {
    if (fd_.get() >= minimum) break;
    UniqueFd moved(fcntl(fd_.get(), F_DUPFD_CLOEXEC, minimum));
    if (!moved.valid()) continue;
    fd_ = std::move(moved);
    break;
  }
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  type_ = info.st_mode & S_IFMT;
}

GuardedFd& GuardedFd::operator=(GuardedFd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::move(other.fd_);
  device_ = other.device_;
  inode_ = other.inode_;
  type_ = other.type_;
  return *this;
}

bool GuardedFd::IsOurs() const noexcept {
  if (!fd_.valid()) return false;
  ErrnoSaver saver;
  struct stat info {};
  // In a sandbox without fstat there is nothing to go by.
  if (fstat(fd_.get(), &info) != 0) return errno != EBADF;
  // An eventfd that was exchanged for another one may have another inode.
  return info.st_dev == device_ && (info.st_mode & S_IFMT) == type_ &&
         (type_ == 0 || info.st_ino == inode_);
}

void GuardedFd::reset() noexcept {
  if (!fd_.valid()) return;
  if (IsOurs()) {
    fd_.reset();
  } else {
    (void)fd_.release();
  }
}

bool IsNamedFile(int fd) noexcept {
  ErrnoSaver saver;
  struct stat info {};
  return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) != 0;
}

}  // namespace tracering::os
