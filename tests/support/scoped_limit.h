// One resource limit of the whole process, lowered for a scope: tests with one
// run one after the other. Aborts where the limit cannot be set.
//
// Any thread.
#ifndef TRACERING_TESTS_SUPPORT_SCOPED_LIMIT_H_
#define TRACERING_TESTS_SUPPORT_SCOPED_LIMIT_H_

#include <sys/resource.h>

#include "tests/support/require.h"

namespace tracering::test {

class ScopedLimit {
 public:
  ScopedLimit(int resource, rlim_t value)
      : resource_(static_cast<__rlimit_resource>(resource)) {
    Require(getrlimit(resource_, &before_) == 0, "getrlimit");
    rlimit lowered = before_;
    lowered.rlim_cur = value;
    Require(setrlimit(resource_, &lowered) == 0, "setrlimit");
  }
  ~ScopedLimit() { setrlimit(resource_, &before_); }
  ScopedLimit(const ScopedLimit&) = delete;
  ScopedLimit& operator=(const ScopedLimit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_SCOPED_LIMIT_H_
