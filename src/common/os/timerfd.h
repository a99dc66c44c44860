// The owner of one timer descriptor on CLOCK_MONOTONIC, non-blocking and
// close-on-exec. It is readable once it has expired.
//
// One thread sets it; another may poll it.
#ifndef TRACERING_SRC_COMMON_OS_TIMERFD_H_
#define TRACERING_SRC_COMMON_OS_TIMERFD_H_

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

class TimerFd {
 public:
  // A timer that is not armed.
  static absl::StatusOr<TimerFd> Create();

  // Expires every `period` (above 0) from now on, in place of what was set.
  absl::Status SetPeriodic(std::chrono::nanoseconds period);

  // Expires once, `delay` from now (0 or less: at once), in place of what was
  // set.
  absl::Status SetOneShot(std::chrono::nanoseconds delay);

  // Expires no more; also takes back an expiration that nobody has taken.
  absl::Status Disarm();

  // How often it has expired since it was set or last asked; makes it
  // unreadable. 0 if it has not. Keeps errno.
  uint64_t TakeExpirations() noexcept;

  int fd() const noexcept { return fd_.get(); }

 private:
  explicit TimerFd(UniqueFd fd) : fd_(std::move(fd)) {}
  absl::Status Set(std::chrono::nanoseconds first,
                   std::chrono::nanoseconds period);

  GuardedFd fd_;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_TIMERFD_H_
