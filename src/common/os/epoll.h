// The owner of one epoll instance. Thin: the loop and its policy live in the
// producer's control client and the consumer's drain loop.
//
// Thread-safe as epoll is: Add, Modify and Remove may run beside Wait.
#ifndef TRACERING_SRC_COMMON_OS_EPOLL_H_
#define TRACERING_SRC_COMMON_OS_EPOLL_H_

#include <sys/epoll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/unique_fd.h"

namespace tracering::os {

class Epoll {
 public:
  static absl::StatusOr<Epoll> Create();

  // Watches `fd` for `events` (EPOLLIN, EPOLLET, ...); Wait then reports it
  // with `tag`.
  absl::Status Add(int fd, uint32_t events, uint64_t tag);
  absl::Status Modify(int fd, uint32_t events, uint64_t tag);

  // Call it before closing `fd`: epoll watches the open file, not the number,
  // and one that another process holds too (a socket in a forked child, an
  // eventfd of a producer) would be reported for ever.
  absl::Status Remove(int fd);

  // Waits until something is ready, at most `timeout` (negative: for ever; 0:
  // only look). Fills events[0..n) and returns n, 0 after the time-out. Goes
  // on waiting after EINTR, for what is left of the time.
  absl::StatusOr<size_t> Wait(epoll_event* events, size_t capacity,
                              std::chrono::milliseconds timeout);

  // Readable when Wait would return something; may be nested in an event loop
  // of somebody else.
  int fd() const noexcept { return fd_.get(); }

 private:
  explicit Epoll(UniqueFd fd) : fd_(std::move(fd)) {}
  absl::Status Control(int operation, const char* verb, int fd, uint32_t events,
                       uint64_t tag);

  GuardedFd fd_;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_EPOLL_H_
