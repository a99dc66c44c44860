// Adding and forgetting of sequences; see sequence_table.h.
#include "src/consumer/sequence_table.h"

namespace tracering::internal {

SequenceIndex SequenceTable::Add(uint64_t producer, int32_t uid, int32_t pid) {
  // Ids follow the indices, behind the service's own.
  constexpr SequenceIndex kEnd = UINT32_MAX - 15;
  constexpr uint32_t kFirstId = kServiceSequenceId + 1;
  if (next_ == kEnd) return kNone;
  const SequenceIndex sequence = next_++;
  infos_.At(sequence) = {sequence + kFirstId, uid, pid, producer};
  live_[producer].push_back(sequence);
  return sequence;
}

void SequenceTable::RetireProducer(uint64_t producer) {
  auto node = live_.extract(producer);
  if (!node.empty()) retired_.insert(std::move(node));
}

}  // namespace tracering::internal
