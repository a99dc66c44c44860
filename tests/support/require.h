// For what a test cannot go on without: prints what failed, with errno, and
// aborts.
//
// Only for the helpers themselves; what is under test gets EXPECT_*.
#ifndef TRACERING_TESTS_SUPPORT_REQUIRE_H_
#define TRACERING_TESTS_SUPPORT_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

namespace tracering::test {

inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_REQUIRE_H_
