// The lookup and its thread-local result; see stack_bounds.h.
#include "src/producer/stack_bounds.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "src/common/os/errno_saver.h"
#include "src/common/os/process.h"
#include "src/producer/fork_guard.h"

namespace tracering::internal {
namespace {

// Initial-exec: the other models may allocate at a thread's first access, which
// would be in the signal handler. `end` is written last, and 0 until then.
struct Bounds {
  std::atomic<uintptr_t> low;
  std::atomic<uintptr_t> end;
  bool tried;
};
thread_local Bounds bounds __attribute__((tls_model("initial-exec"))){};

}  // namespace

void NoteStackBounds() {
  if (bounds.tried || ForkGuard::Generation() != 0) return;
  bounds.tried = true;
  const os::ErrnoSaver saver;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* low = nullptr;
  size_t size = 0;
  size_t guard = 0;
  // No guard: memory of the program's, which may have cut it up.
  const bool is_main = os::CurrentThreadId() == getpid();
  if (pthread_attr_getstack(&attributes, &low, &size) == 0 &&
      (is_main ||
       (pthread_attr_getguardsize(&attributes, &guard) == 0 && guard != 0))) {
    const uintptr_t end = reinterpret_cast<uintptr_t>(low) + size;
    // Where the main thread's stack has no limit it is said to reach down to
    // the next mapping that there was: other stacks may lie in there by now.
    // Release: for the handler, which interrupts this very thread.
    bounds.low.store(end - std::min<uintptr_t>(size, kMaxStackBytes),
                     std::memory_order_relaxed);
    bounds.end.store(end, std::memory_order_release);
  }
  pthread_attr_destroy(&attributes);
}

StackBounds CurrentStackBounds() {
  StackBounds result;
  result.end = bounds.end.load(std::memory_order_acquire);
  result.low = bounds.low.load(std::memory_order_relaxed);
  return result;
}

}  // namespace tracering::internal
