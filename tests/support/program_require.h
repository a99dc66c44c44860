// For programs that tests start: what has to hold for them to go on. Any
// thread, and a forked child, as it allocates nothing and runs no handlers of
// exit. Helpers of the tests themselves have require.h.
#ifndef TRACERING_TESTS_SUPPORT_PROGRAM_REQUIRE_H_
#define TRACERING_TESTS_SUPPORT_PROGRAM_REQUIRE_H_

#include <unistd.h>

#include <cstdio>

namespace tracering::test::program {

// The exit status of a program that found something unexpected.
inline constexpr int kUnexpected = 9;

inline void Require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "not so: %s\n", what);
  _exit(kUnexpected);
}

}  // namespace tracering::test::program

#endif  // TRACERING_TESTS_SUPPORT_PROGRAM_REQUIRE_H_
