// Dropped events that no record tells of yet: how many, and when the first
// came.
//
//    63              32 31              0
//   +------------------+-----------------+
//   | generation       | dropped events  |   and the time in a second word
//   +------------------+-----------------+
//
// The generation goes up whenever the count leaves 0 or returns to it, so that
// a compare-exchange never mistakes a new count for the one it had seen. The
// count stays at its maximum.
//
// Increment is the writer's; TakeIfStill is for whoever has room for the
// record, the writer or the reader, and tells each drop to one of them.
// Lock-free, async-signal-safe. All accesses are sequentially consistent.
#ifndef TRACERING_SRC_COMMON_PROFILE_PENDING_OVERFLOW_H_
#define TRACERING_SRC_COMMON_PROFILE_PENDING_OVERFLOW_H_

#include <cstdint>

#include "src/common/sync/shared_word.h"

namespace tracering::internal {

class PendingOverflow {
 public:
  struct Taken {
    uint32_t count = 0;  // 0: it was no longer what was seen
    uint64_t time = 0;
  };

  // What is pending now: a state that never comes back.
  class Seen {
   public:
    bool any() const { return CountOf(word_) != 0; }

   private:
    friend PendingOverflow;
    explicit Seen(uint64_t word) : word_(word) {}
    uint64_t word_;
  };

  Seen Look() const { return Seen(word_.Load(kOrder)); }

  void Increment(uint64_t time) {
    uint64_t word = word_.Load(kOrder);
    for (;;) {
      if (CountOf(word) == 0) {
        // Only the writer leaves 0, so nobody looks at the time meanwhile, and
        // who sees the count sees the time.
        time_.Store(time, kOrder);
        word_.Store(NextGeneration(word) + 1, kOrder);
        return;
      }
      if (CountOf(word) == UINT32_MAX) return;
      if (word_.CompareExchange(word, word + 1, kOrder, kOrder)) return;
    }
  }

  // Takes what was seen, if nothing has happened to it since.
  Taken TakeIfStill(Seen seen) {
    // May be of a later one already: then the compare-exchange fails.
    const uint64_t time = time_.Load(kOrder);
    uint64_t word = seen.word_;
    if (!word_.CompareExchange(word, NextGeneration(word), kOrder, kOrder)) {
      return {};
    }
    return {CountOf(seen.word_), time};
  }

 private:
  static constexpr auto kOrder = std::memory_order_seq_cst;

  static uint32_t CountOf(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint64_t NextGeneration(uint64_t word) {
    return ((word >> 32) + 1) << 32;
  }

  SharedWord<uint64_t> word_;
  SharedWord<uint64_t> time_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_PROFILE_PENDING_OVERFLOW_H_
