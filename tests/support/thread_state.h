// Knowing, without a sleep, that a thread of this process has gone to sleep in
// the kernel, so that a test of a wake-up really wakes somebody. Looks at /proc
// only; call from any other thread.
#ifndef TRACERING_TESTS_SUPPORT_THREAD_STATE_H_
#define TRACERING_TESTS_SUPPORT_THREAD_STATE_H_

#include <sys/types.h>

#include <atomic>

namespace tracering::test {

// Waits until `tid` names a thread of this process (not 0) and that thread
// sleeps interruptibly in a system call.
void AwaitAsleep(const std::atomic<pid_t>& tid);

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_THREAD_STATE_H_
