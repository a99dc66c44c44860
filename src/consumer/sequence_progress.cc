// Holes in ordinals become marks; see sequence_progress.h.
#include "src/consumer/sequence_progress.h"

namespace tracering::internal {

void SequenceProgress::Learn(const RecordSlice& slice,
                             const SequenceTable& table) {
  RecordView record;
  for (RecordSlice::Reader reader(slice); reader.Next(&record);) {
    Entry& entry = entries_.At(record.header.sequence);
    if (entry.info.sequence_id != 0) continue;
    const SequenceInfo* const info = table.Find(record.header.sequence);
    if (info != nullptr) entry.info = *info;
  }
}

LossMask SequenceProgress::OnRecord(const RecordHeader& record, Entry* entry) {
  LossMask loss = record.loss | entry->pending;
  if (record.first_ordinal != entry->next_ordinal) {
    loss |= MarkOf(LossCause::kOverwritten);
  }
  entry->next_ordinal = record.first_ordinal + record.num_packets;
  entry->pending = 0;
  return loss;
}

}  // namespace tracering::internal
