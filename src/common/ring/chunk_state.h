// Every transition of a chunk's state word, one method each.
//
//                    TryClaim                 TryPublish
//   FreeForWrap(k) ------------> Acquired(w,n) ---------> Complete(w,n+m)
//     |  ^   ^  ^                |       ^                 |  |
//     +--+   |  |                |       +-----------------+  |
//  TryAdvance|  |                |            TryReuse        |
//    Free    |  |                | TryRequestRewrite          |
//            |  |                v                            |
//            |  |     RewriteRequested(w,n)                   |
//            |  |                | TryAcknowledge             |
//            |  |                v                            |
//            |  +-------- Acknowledged                        |
//            |   TryReclaimAcknowledged                       |
//            +------------------------------------------------+
//                          TryReclaimComplete
//
// Claim, publish, reuse and acknowledge belong to the writer; only the reader
// makes a chunk free. Each method takes the exact word that its caller
// observed and stores nothing if another stands there. The orders are those of
// the source's table; docs/memory-model.md has a row for each. Which word may
// be expected is the caller's knowledge: nothing here is retried or judged.
// Any thread of either process; async-signal-safe.
#ifndef TRACERING_SRC_COMMON_RING_CHUNK_STATE_H_
#define TRACERING_SRC_COMMON_RING_CHUNK_STATE_H_

#include <atomic>
#include <cstdint>

#include "src/common/abi/state_word.h"
#include "src/common/sync/shared_word.h"

namespace tracering::internal {

class ChunkState {
 public:
  explicit ChunkState(SharedWord<uint32_t>& word) : word_(&word) {}

  // Pairs with every release transition: makes the published payload and size
  // entries visible before they are copied.
  uint32_t LoadAcquire() const {
    return word_->Load(std::memory_order_acquire);
  }

  // --- Writer ---

  // FreeForWrap(wrap) -> acquired. Acquire pairs with the reader's release in
  // TryAdvanceFree and TryReclaim*: the payload is not overwritten before the
  // reader has finished with it. A failed claim is final for its reservation.
  [[nodiscard]] bool TryClaim(abi::WrapCount wrap, uint32_t acquired) {
    uint32_t expected = abi::FreeForWrap(wrap);
    return word_->CompareExchange(expected, acquired, std::memory_order_acquire,
                                  std::memory_order_relaxed);
  }

  // Acquired -> complete. Release pairs with LoadAcquire; acquire on failure
  // pairs with TryRequestRewrite, before the suffix is relocated. On failure
  // `observed` holds the word found.
  [[nodiscard]] bool TryPublish(uint32_t& observed, uint32_t complete) {
    return word_->CompareExchange(observed, complete, std::memory_order_release,
                                  std::memory_order_acquire);
  }

  // Complete -> Acquired with the same low bits. Relaxed: a read-modify-write
  // continues the release sequence of the publication before it.
  [[nodiscard]] bool TryReuse(uint32_t complete) {
    return word_->CompareExchange(
        complete, abi::WithState(complete, abi::State::kAcquired),
        std::memory_order_relaxed, std::memory_order_relaxed);
  }

  // RewriteRequested -> Acknowledged. Release pairs with
  // TryReclaimAcknowledged: the writer has finished every access.
  [[nodiscard]] bool TryAcknowledge(uint32_t rewrite_requested) {
    return word_->CompareExchange(rewrite_requested, abi::kAcknowledgedWord,
                                  std::memory_order_release,
                                  std::memory_order_relaxed);
  }

  // --- Reader ---
  // On failure `observed` holds the word found, on which the reader may
  // dispatch again: acquire on failure pairs with the writer's publication.

  // FreeForWrap(current) -> FreeForWrap(next): the position was a hole.
  [[nodiscard]] bool TryAdvanceFree(uint32_t& observed, abi::WrapCount next) {
    return word_->CompareExchange(observed, abi::FreeForWrap(next),
                                  std::memory_order_release,
                                  std::memory_order_acquire);
  }

  // Acquired -> RewriteRequested with the same low bits. Release orders the
  // reader's copy of the prefix before the writer's relocation.
  [[nodiscard]] bool TryRequestRewrite(uint32_t& observed) {
    return word_->CompareExchange(
        observed, abi::WithState(observed, abi::State::kRewriteRequested),
        std::memory_order_release, std::memory_order_acquire);
  }

  // Complete -> FreeForWrap(next). Release orders the reader's copy before
  // the chunk's next use.
  [[nodiscard]] bool TryReclaimComplete(uint32_t& observed,
                                        abi::WrapCount next) {
    return word_->CompareExchange(observed, abi::FreeForWrap(next),
                                  std::memory_order_release,
                                  std::memory_order_acquire);
  }

  // Acknowledged -> FreeForWrap(next). Consumes the old writer's last release
  // and hands the chunk to the next. Nobody else may leave Acknowledged, so a
  // failure is a protocol error.
  [[nodiscard]] bool TryReclaimAcknowledged(abi::WrapCount next) {
    uint32_t expected = abi::kAcknowledgedWord;
    return word_->CompareExchange(expected, abi::FreeForWrap(next),
                                  std::memory_order_acq_rel,
                                  std::memory_order_relaxed);
  }

 private:
  SharedWord<uint32_t>* word_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_CHUNK_STATE_H_
