// Who stands behind each sequence of the file, and for how long that has to be
// remembered.
//
// A sequence is one (ring, writer id, target buffer). It gets a dense index of
// the consumer's own when its first packet comes, which is never used again,
// and an id for the file. It is forgotten when its producer is gone and no
// buffer holds a packet of it any more.
//
// A plain data structure; the consumer serialises access.
#ifndef TRACERING_SRC_CONSUMER_SEQUENCE_TABLE_H_
#define TRACERING_SRC_CONSUMER_SEQUENCE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/consumer/packet_run.h"
#include "src/consumer/sparse_array.h"

namespace tracering::internal {

// trusted_packet_sequence_id of the packets that the service itself writes.
inline constexpr uint32_t kServiceSequenceId = 1;

struct SequenceInfo {
  uint32_t sequence_id = 0;  // in the file; above kServiceSequenceId
  int32_t uid = 0;           // of the socket's peer
  int32_t pid = 0;           // of the socket's peer; 0 if unknown
  uint64_t producer = 0;     // the consumer's own number of the producer
};

class SequenceTable {
 public:
  // What Add returns when no index is left, after 2^32 - 16 sequences.
  static constexpr SequenceIndex kNone = UINT32_MAX;

  // Starts a sequence of `producer`, a number that is never used for another
  // producer. On kNone nothing was added and the packets have to be refused.
  [[nodiscard]] SequenceIndex Add(uint64_t producer, int32_t uid, int32_t pid);

  // Null once the sequence was forgotten. The pointer is valid until then.
  const SequenceInfo* Find(SequenceIndex sequence) const {
    return infos_.Find(sequence);
  }

  // Says that nothing more can come from `producer`: its rings are drained and
  // its assemblers are finished. Its sequences may be forgotten from now on.
  void RetireProducer(uint64_t producer);

  // Forgets sequences of retired producers for which in_use(sequence), a bool,
  // is false, and calls on_forgotten(sequence) for each so that the buffers
  // and streams drop what they keep of it. Then calls on_producer_forgotten
  // for each producer that has none left. Costs time in proportion to the
  // sequences of retired producers.
  template <typename InUse, typename OnForgotten, typename OnProducerForgotten>
  void Sweep(InUse&& in_use, OnForgotten&& on_forgotten,
             OnProducerForgotten&& on_producer_forgotten) {
    for (auto producer = retired_.begin(); producer != retired_.end();) {
      std::vector<SequenceIndex>& sequences = producer->second;
      size_t kept = 0;
      for (const SequenceIndex sequence : sequences) {
        if (in_use(sequence)) {
          sequences[kept++] = sequence;
        } else {
          on_forgotten(sequence);
          infos_.Erase(sequence);
        }
      }
      sequences.resize(kept);
      if (kept == 0) {
        on_producer_forgotten(producer->first);
        producer = retired_.erase(producer);
      } else {
        ++producer;
      }
    }
  }

 private:
  using Producers = std::unordered_map<uint64_t, std::vector<SequenceIndex>>;

  SparseArray<SequenceInfo> infos_;
  Producers live_;
  Producers retired_;
  SequenceIndex next_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_SEQUENCE_TABLE_H_
