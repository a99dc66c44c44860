// First in, first out, with a short look behind a busy front; see
// writer_id_pool.h.
#include "src/producer/writer_id_pool.h"

#include <algorithm>
#include <cstddef>

#include "src/producer/containment.h"

namespace tracering::internal {
namespace {

// Ids come back in the order in which their writers end, not in that of their
// last positions. Looking at a few more than the front keeps one late writer
// from hiding those behind it, at a bounded price.
constexpr size_t kMaxProbes = 8;

}  // namespace

WriterLease WriterIdPool::Acquire(abi::Position read_pos) {
  const bool unused_left = next_unused_ <= max_id_;
  const size_t probes =
      std::min(released_.size(), unused_left ? size_t{1} : kMaxProbes);
  for (size_t i = 0; i < probes; ++i) {
    const Released front = released_.front();
    if (!IsBusy(front, read_pos)) {
      released_.pop_front();
      return {front.id, front.writer.owes_loss, front.writer.left_partial};
    }
    if (unused_left) break;
    released_.pop_front();
    released_.push_back(front);
  }
  if (!unused_left) return {};
  return {WriterId(static_cast<uint16_t>(next_unused_++))};
}

void WriterIdPool::Release(WriterId id, const ReleasedWriter& writer) {
  // Without memory it costs the id: a thread that ends cannot do better.
  Contain([&] { released_.push_back({id, writer}); }, [] {});
}

}  // namespace tracering::internal
