// How many descriptors the process has open, for tests that nothing leaks.
//
// Knows nothing of the product. Other threads that open and close meanwhile
// make the number meaningless.
#ifndef TRACERING_TESTS_SUPPORT_OPEN_FDS_H_
#define TRACERING_TESTS_SUPPORT_OPEN_FDS_H_

#include <cstddef>
#include <filesystem>

namespace tracering::test {

// One of them is needed for looking.
inline size_t CountOpenFds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_OPEN_FDS_H_
