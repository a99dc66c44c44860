// Where the calling thread's stack ends, if it is known.
//
// Between a thread's stack pointer and the end of its stack everything can be
// read for as long as the thread lives: what lets the profiler read frames
// without asking the kernel. pthread_getattr_np knows the end but may not be
// called in a signal handler, hence the two steps.
#ifndef TRACERING_SRC_PRODUCER_STACK_BOUNDS_H_
#define TRACERING_SRC_PRODUCER_STACK_BOUNDS_H_

#include <cstdint>

namespace tracering::internal {

// Nothing is taken for a stack that is larger.
inline constexpr uintptr_t kMaxStackBytes = uintptr_t{64} << 20;

struct StackBounds {
  uintptr_t low = 0;
  uintptr_t end = 0;

  bool Hold(uintptr_t address) const { return address >= low && address < end; }
};

// Looks where the calling thread's stack is, once for each thread. Not in a
// signal handler; may allocate, lock, and on the main thread read a file. Finds
// nothing where it cannot, and where the stack is memory that the program gave
// to the thread. A forked child looks for nothing, as it would take a lock of
// the C library; what was known before holds there, too.
void NoteStackBounds();

// Empty until NoteStackBounds on the same thread. Async-signal-safe.
StackBounds CurrentStackBounds();

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_STACK_BOUNDS_H_
