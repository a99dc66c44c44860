// The epoll syscalls; see epoll.h.
#include "src/common/os/epoll.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace tracering::os {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

absl::StatusOr<Epoll> Epoll::Create() {
  UniqueFd fd(epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "epoll_create1");
  return Epoll(std::move(fd));
}

absl::Status Epoll::Add(int fd, uint32_t events, uint64_t tag) {
  return Control(EPOLL_CTL_ADD, "add", fd, events, tag);
}

absl::Status Epoll::Modify(int fd, uint32_t events, uint64_t tag) {
  return Control(EPOLL_CTL_MOD, "modify", fd, events, tag);
}

absl::Status Epoll::Remove(int fd) {
  return Control(EPOLL_CTL_DEL, "remove", fd, 0, 0);
}

absl::Status Epoll::Control(int operation, const char* verb, int fd,
                            uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(fd_.get(), operation, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             fmt::format("cannot {} fd {} in epoll", verb, fd));
}

absl::StatusOr<size_t> Epoll::Wait(epoll_event* events, size_t capacity,
                                   milliseconds timeout) {
  const auto start = steady_clock::now();
  const int max_events =
      static_cast<int>(std::min<size_t>(capacity, INT_MAX / sizeof(*events)));
  milliseconds left = timeout;
  for (;;) {
    const int timeout_ms =
        left.count() < 0
            ? -1
            : static_cast<int>(std::min<int64_t>(left.count(), INT_MAX));
    const int ready = epoll_wait(fd_.get(), events, max_events, timeout_ms);
    if (ready >= 0) return static_cast<size_t>(ready);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "epoll_wait");
    if (timeout.count() < 0) continue;
    // Rounded up, so that a storm of signals cannot end the wait early.
    const auto spent =
        std::chrono::floor<milliseconds>(steady_clock::now() - start);
    left = std::max(timeout - spent, milliseconds::zero());
  }
}

}  // namespace tracering::os
