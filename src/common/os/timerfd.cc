// The timerfd syscalls; see timerfd.h.
#include "src/common/os/timerfd.h"

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/common/os/errno_saver.h"

namespace tracering::os {
namespace {

using std::chrono::nanoseconds;

timespec ToTimespec(nanoseconds duration) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(duration);
  timespec result{};
  result.tv_sec = static_cast<time_t>(seconds.count());
  result.tv_nsec = static_cast<long>((duration - seconds).count());
  return result;
}

}  // namespace

absl::StatusOr<TimerFd> TimerFd::Create() {
  UniqueFd fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "timerfd_create");
  return TimerFd(std::move(fd));
}

absl::Status TimerFd::SetPeriodic(nanoseconds period) {
  if (period <= nanoseconds::zero()) {
    return absl::InvalidArgumentError(fmt::format(
        "timer period of {} ns: it must be above 0", period.count()));
  }
  return Set(period, period);
}

absl::Status TimerFd::SetOneShot(nanoseconds delay) {
  // 0 would disarm it.
  return Set(std::max(delay, nanoseconds(1)), nanoseconds::zero());
}

absl::Status TimerFd::Disarm() {
  return Set(nanoseconds::zero(), nanoseconds::zero());
}

absl::Status TimerFd::Set(nanoseconds first, nanoseconds period) {
  itimerspec spec{};
  spec.it_value = ToTimespec(first);
  spec.it_interval = ToTimespec(period);
  if (timerfd_settime(fd_.get(), 0, &spec, nullptr) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "timerfd_settime");
}

uint64_t TimerFd::TakeExpirations() noexcept {
  ErrnoSaver saver;
  if (!fd_.IsOurs()) return 0;
  uint64_t expirations = 0;
  if (read(fd_.get(), &expirations, sizeof(expirations)) !=
      static_cast<ssize_t>(sizeof(expirations))) {
    return 0;
  }
  return expirations;
}

}  // namespace tracering::os
