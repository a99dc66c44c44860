// What one output, a file or the files of one stream, has seen of each
// sequence: it turns holes into marks, and keeps who stands behind a sequence
// so that the table of the consumer need not be guarded while a file is
// written.
//
// Belongs to one output. Learn() reads the consumer's table and is called under
// its guard; everything else is the output's own.
#ifndef TRACERING_SRC_CONSUMER_SEQUENCE_PROGRESS_H_
#define TRACERING_SRC_CONSUMER_SEQUENCE_PROGRESS_H_

#include <cstdint>

#include "src/consumer/record_slice.h"
#include "src/consumer/sequence_table.h"
#include "src/consumer/sparse_array.h"
#include "tracering/data_loss.h"

namespace tracering::internal {

class SequenceProgress {
 public:
  struct Entry {
    SequenceInfo info;
    uint64_t next_ordinal = 0;
    LossMask pending = 0;  // mark of the next packet that is written
  };

  // Copies what `table` says about the sequences in `slice` that are new here.
  // Call it for each slice, under the same guard as the CopyRecords before it.
  void Learn(const RecordSlice& slice, const SequenceTable& table);

  // The entry of a sequence; its info is that of nobody if it was not learnt.
  Entry& At(SequenceIndex sequence) { return entries_.At(sequence); }

  // Takes note of a record and returns the mark of its first packet: what the
  // record says, what is pending, and kOverwritten if packets before it are
  // missing.
  LossMask OnRecord(const RecordHeader& record, Entry* entry);

  // Drops a sequence of which nothing more will come.
  void Forget(SequenceIndex sequence) { entries_.Erase(sequence); }

 private:
  SparseArray<Entry> entries_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_SEQUENCE_PROGRESS_H_
