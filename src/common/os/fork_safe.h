// Making and keeping objects so that a fork finds them whole at any instant.
//
// In the child of a fork in the middle of it a function-local static waits for
// a thread that the child has not got, and so does a lock. What is here waits
// for nobody: an object that is made once, and a list that only grows. Nothing
// is ever freed.
#ifndef TRACERING_SRC_COMMON_OS_FORK_SAFE_H_
#define TRACERING_SRC_COMMON_OS_FORK_SAFE_H_

#include <atomic>
#include <memory>

namespace tracering::os {

// `*slot` is null at first; `make` returns a std::unique_ptr<T>, and is called
// if there is none yet. Whoever comes at the same time makes one, too, and the
// first one stays. Lock-free.
template <typename T, typename Make>
T& GetOrMake(std::atomic<T*>* slot, const Make& make) {
  T* there = slot->load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  std::unique_ptr<T> made = make();
  if (slot->compare_exchange_strong(there, made.get(),
                                    std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
    return *made.release();
  }
  return *there;
}

// Puts `node` in front of the list, which others may walk meanwhile: by an
// acquire load of `head` and the nodes' `next`, which stays as it is.
// Lock-free, async-signal-safe.
template <typename Node>
void PushFront(std::atomic<Node*>* head, Node* node) {
  node->next = head->load(std::memory_order_relaxed);
  while (!head->compare_exchange_weak(
      node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_FORK_SAFE_H_
