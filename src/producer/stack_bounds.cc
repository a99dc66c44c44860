// The lookup and its thread-local result; see stack_bounds.h.
#include "src/producer/stack_bounds.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "src/common/os/errno_saver.h"
#include "src/producer/fork_guard.h"

namespace tracering::internal {
namespace {

// Initial-exec: the other models may allocate at a thread's first access, which
// would be in the signal handler. `end` is written last, and 0 until then.
struct Bounds {
  std::atomic<uintptr_t> low;
  std::atomic<uintptr_t> end;
};
thread_local Bounds bounds __attribute__((tls_model("initial-exec"))){};

}  // namespace

void NoteStackBounds() {
  if (bounds.end.load(std::memory_order_relaxed) != 0 ||
      ForkGuard::Generation() != 0) {
    return;
  }
  const os::ErrnoSaver saver;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    const auto start = reinterpret_cast<uintptr_t>(low);
    bounds.low.store(start, std::memory_order_relaxed);
    // Release: for the handler, which interrupts this very thread.
    bounds.end.store(start + size, std::memory_order_release);
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
