// Keeps errno as it was, for calls that interrupted or unrelated code must not
// notice.
//
// Async-signal-safe; no threading rules, since errno is per thread.
#ifndef TRACERING_SRC_COMMON_OS_ERRNO_SAVER_H_
#define TRACERING_SRC_COMMON_OS_ERRNO_SAVER_H_

#include <cerrno>

namespace tracering::os {

// Restores errno at the end of its scope. Async-signal-safe.
class ErrnoSaver {
 public:
  ErrnoSaver() noexcept : saved_(errno) {}
  ~ErrnoSaver() { errno = saved_; }
  ErrnoSaver(const ErrnoSaver&) = delete;
  ErrnoSaver& operator=(const ErrnoSaver&) = delete;

 private:
  const int saved_;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_ERRNO_SAVER_H_
