// One stack of its own for a function that is run a piece at a time, on the
// thread of whoever switches to it.
//
// A switch costs a few nanoseconds and no system call. A fiber that is not run
// to its end is abandoned: nothing on its stack is destroyed. On machines other
// than x86-64 it is a ucontext. No sanitizer knows of the switches.
#ifndef TRACERING_TESTS_EXPLORE_FIBER_H_
#define TRACERING_TESTS_EXPLORE_FIBER_H_

#include <ucontext.h>

#include <cstddef>

namespace tracering::test {

// Where a thread or a fiber stands while another one runs.
class ExecutionContext {
 public:
  ExecutionContext() = default;
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  // Leaves this context, which is running, for `next`. Returns when somebody
  // switches back.
  void SwitchTo(ExecutionContext& next);

 private:
  friend class Fiber;
  void* stack_pointer_ = nullptr;
  ucontext_t context_{};
};

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The first switch to context() calls `entry`, which never returns. Whatever
  // the fiber was doing before is abandoned. Not to be called on the fiber.
  void Prepare(void (*entry)());
  ExecutionContext& context() { return context_; }

 private:
  void* stack_;
  ExecutionContext context_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_FIBER_H_
