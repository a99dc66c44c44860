// Objects that are made once, when they are first needed, and never destroyed.
//
// Not function-local statics: in a child of a fork in the middle of their
// initialisation these wait for a thread that the child has not got. Here
// whoever comes at the same time makes one, too, and the first one stays.
#ifndef TRACERING_SRC_PRODUCER_IMMORTAL_H_
#define TRACERING_SRC_PRODUCER_IMMORTAL_H_

#include <atomic>
#include <memory>

namespace tracering::internal {

// `*slot` is null at first; `make` returns a std::unique_ptr<T>, and is called
// if there is none yet. Lock-free.
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

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_IMMORTAL_H_
