// The one wrapper for every atomic access to a word that two processes share.
//
// A SharedWord lies in a mapping; it is never constructed, only looked at
// through a reference into memory that started as zeroes. Which word may be
// touched when, and with which order, is decided in src/common/ring; this room
// knows nothing of the protocol.
//
// Built with TRACERING_SHARED_WORD_HOOK, each access first calls a hook, so
// that a test can decide at every shared access which side runs next, and
// another one afterwards, so that it can judge what the access did. Without it
// both are empty inline functions: nothing of them is in the library.
#ifndef TRACERING_SRC_COMMON_SYNC_SHARED_WORD_H_
#define TRACERING_SRC_COMMON_SYNC_SHARED_WORD_H_

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace tracering::internal {

enum class SharedAccess {
  kLoad,
  kStore,
  kExchange,
  kCompareExchange,
  kFetchAdd,
  kFence,
  kFutexWait,
  kFutexWake,
};

#ifdef TRACERING_SHARED_WORD_HOOK
// Called on the accessing thread, before the access. It may block. `word` is
// null for a fence.
using SharedWordHook = void (*)(SharedAccess access, const void* word);
inline std::atomic<SharedWordHook> shared_word_hook{nullptr};
// Called on the accessing thread right after the access to a word. Must not
// block.
inline std::atomic<SharedWordHook> shared_word_done_hook{nullptr};

inline void OnSharedAccess(SharedAccess access, const void* word) {
  if (SharedWordHook hook = shared_word_hook.load(std::memory_order_acquire)) {
    hook(access, word);
  }
}

class SharedAccessScope {
 public:
  SharedAccessScope(SharedAccess access, const void* word)
      : access_(access), word_(word) {
    OnSharedAccess(access, word);
  }
  ~SharedAccessScope() {
    if (SharedWordHook hook =
            shared_word_done_hook.load(std::memory_order_acquire)) {
      hook(access_, word_);
    }
  }
  SharedAccessScope(const SharedAccessScope&) = delete;
  SharedAccessScope& operator=(const SharedAccessScope&) = delete;

 private:
  const SharedAccess access_;
  const void* const word_;
};
#else
inline void OnSharedAccess(SharedAccess, const void*) {}

struct SharedAccessScope {
  SharedAccessScope(SharedAccess, const void*) {}
};
#endif

// Thread-safe and async-signal-safe; wait-free where the hardware's operation
// is. T is uint32_t or uint64_t.
template <typename T>
class SharedWord {
 public:
  static_assert(std::is_unsigned_v<T>);
  static_assert(std::atomic<T>::is_always_lock_free);
  static_assert(sizeof(std::atomic<T>) == sizeof(T));

  SharedWord() = delete;
  SharedWord(const SharedWord&) = delete;
  SharedWord& operator=(const SharedWord&) = delete;

  T Load(std::memory_order order) const {
    const SharedAccessScope scope(SharedAccess::kLoad, this);
    return value_.load(order);
  }
  void Store(T value, std::memory_order order) {
    const SharedAccessScope scope(SharedAccess::kStore, this);
    value_.store(value, order);
  }
  T Exchange(T value, std::memory_order order) {
    const SharedAccessScope scope(SharedAccess::kExchange, this);
    return value_.exchange(value, order);
  }
  T FetchAdd(T value, std::memory_order order) {
    const SharedAccessScope scope(SharedAccess::kFetchAdd, this);
    return value_.fetch_add(value, order);
  }
  T FetchSub(T value, std::memory_order order) {
    return FetchAdd(T{0} - value, order);
  }
  // Never fails spuriously. On failure `expected` holds the word found.
  [[nodiscard]] bool CompareExchange(T& expected, T desired,
                                     std::memory_order success,
                                     std::memory_order failure) {
    const SharedAccessScope scope(SharedAccess::kCompareExchange, this);
    return value_.compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  std::atomic<T> value_;
};

inline void SharedFenceSeqCst() {
  OnSharedAccess(SharedAccess::kFence, nullptr);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_SYNC_SHARED_WORD_H_
