// How often an eventfd has been written since the last call; it must be
// non-blocking. Knows nothing of the product; one thread at a time looks at one
// eventfd.
#ifndef TRACERING_TESTS_SUPPORT_TAKE_SIGNALS_H_
#define TRACERING_TESTS_SUPPORT_TAKE_SIGNALS_H_

#include <unistd.h>

#include <cstdint>

namespace tracering::test {

inline uint64_t TakeSignals(int event_fd) {
  uint64_t count = 0;
  const ssize_t size = read(event_fd, &count, sizeof(count));
  return size == sizeof(count) ? count : 0;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_TAKE_SIGNALS_H_
