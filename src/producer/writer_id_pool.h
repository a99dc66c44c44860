// Hands out the writer ids of one ring, and takes them back.
//
// The reader keeps state per (ring, writer id): the parts of a packet that has
// not ended. So an id must not name a second writer while chunks of the first
// may still be in the ring, and what the first one owed (a loss that no chunk
// has told of yet, a split packet that will never end) is owed by the next.
//
// Cold path: writers come and go with threads. Not thread-safe; the owner of
// the ring's writers locks. Knows positions, and trusts read_pos for nothing
// but the moment of reuse.
#ifndef TRACERING_SRC_PRODUCER_WRITER_ID_POOL_H_
#define TRACERING_SRC_PRODUCER_WRITER_ID_POOL_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "src/common/abi/position.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/ids.h"

namespace tracering::internal {

class WriterIdPool {
 public:
  // For a ring of `num_chunks`; ids are 1..max_id.
  explicit WriterIdPool(uint32_t num_chunks,
                        uint16_t max_id = std::numeric_limits<uint16_t>::max())
      : num_chunks_(num_chunks), max_id_(max_id) {}

  // An id that is not busy at `read_pos`: the one released first if the reader
  // has passed all its chunks, else one that was never used, else one of the
  // next few released. O(1).
  // Id 0: none is left.
  WriterLease Acquire(abi::Position read_pos);

  // Takes back an id that Acquire returned. O(1).
  void Release(WriterId id, const ReleasedWriter& writer);

  struct Released {
    WriterId id;
    ReleasedWriter writer;
  };
  // Ids without an owner, and what their last ones left behind.
  const std::deque<Released>& released() const { return released_; }

 private:
  // A position is outstanding for less than num_chunks positions. One that was
  // passed 2^32 positions ago looks busy again for a moment, which costs an id
  // and no more.
  bool IsBusy(const Released& released, abi::Position read_pos) const {
    const std::optional<abi::Position>& last = released.writer.last_position;
    return last.has_value() && abi::Distance(read_pos, *last) < num_chunks_;
  }

  const uint32_t num_chunks_;
  const uint16_t max_id_;
  uint32_t next_unused_ = 1;
  std::deque<Released> released_;  // the first released in front
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_WRITER_ID_POOL_H_
