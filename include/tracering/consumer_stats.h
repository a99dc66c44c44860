// What the consumer counted: by producer, by ring, by buffer and in all.
//
// Values copied out of the consumer; no threading rules. For everything here
//
//     attempted == delivered + lost
//
// where a packet is attempted when its writer finishes it, delivered when it
// is stored in a target buffer, and otherwise lost with a cause. What a
// producer holds back (an open packet, an open batch) is not attempted yet.
//
// Descriptors are counted apart, as metadata: packets for the metadata buffer,
// and whatever a ring that carries only them has lost. What writers lost while
// an earlier consumer was attached is that one's. Losses of the writer side are
// read from words that the producer owns: a producer that forges them spoils
// its own numbers, and no decision.
#ifndef TRACERING_CONSUMER_STATS_H_
#define TRACERING_CONSUMER_STATS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tracering/buffer_config.h"
#include "tracering/data_loss.h"

namespace tracering {

// Packets lost, by cause.
struct LossCounts {
  std::array<uint64_t, kNumLossCauses> by_cause{};

  uint64_t& operator[](LossCause cause) {
    return by_cause[static_cast<size_t>(cause)];
  }
  uint64_t operator[](LossCause cause) const {
    return by_cause[static_cast<size_t>(cause)];
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : by_cause) sum += count;
    return sum;
  }
  LossCounts& operator+=(const LossCounts& other) {
    for (size_t i = 0; i < by_cause.size(); ++i) {
      by_cause[i] += other.by_cause[i];
    }
    return *this;
  }
};

// Packets of one ring, one producer, or all of them.
struct PacketCounts {
  uint64_t delivered = 0;  // stored in a buffer; overwritten since or not
  uint64_t delivered_bytes = 0;
  LossCounts lost;

  uint64_t attempted() const { return delivered + lost.total(); }
  PacketCounts& operator+=(const PacketCounts& other) {
    delivered += other.delivered;
    delivered_bytes += other.delivered_bytes;
    lost += other.lost;
    return *this;
  }
};

struct RingStats {
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
  // Positions reserved and not yet resolved, at most num_chunks.
  uint32_t outstanding = 0;
  // It broke the protocol, and nothing is read from it any more. The reason
  // is empty otherwise.
  bool stopped = false;
  std::string stop_reason;
  // Positions that a reader before this one had resolved already. What it
  // took and did not store is gone, and not part of the counts.
  uint64_t resolved_by_predecessor = 0;
  PacketCounts packets;
  PacketCounts metadata_packets;
};

// A producer that is connected, or a ring that was attached by hand.
struct ProducerStats {
  uint64_t id = 0;  // unique in this consumer, never reused
  std::string name;
  pid_t pid = 0;  // 0 if it cannot be trusted
  uid_t uid = 0;
  PacketCounts packets;  // the sum over its rings
  PacketCounts metadata_packets;
  std::vector<RingStats> rings;
};

struct BufferStats {
  std::string name;
  size_t size = 0;
  FillPolicy policy = FillPolicy::kRing;
  size_t used_bytes = 0;
  uint64_t packets = 0;  // in it now
  uint64_t written_packets = 0;
  uint64_t written_bytes = 0;
  uint64_t streamed_packets = 0;     // moved out by Consumer::StreamTo
  uint64_t overwritten_packets = 0;  // before any stream had read them
  uint64_t overwritten_bytes = 0;
  uint64_t refused_packets = 0;   // no room, or larger than the buffer
  uint64_t rejected_packets = 0;  // found invalid when a file was written
};

struct ConsumerStats {
  // Of all producers since the start, also those that are gone.
  // kOverwritten and kRejected are not in here: they are known only when a
  // file is written (TraceFileInfo), or from the buffers.
  PacketCounts packets;
  PacketCounts metadata_packets;
  uint64_t producers_connected = 0;
  uint64_t producers_seen = 0;
  uint64_t producers_refused = 0;  // connections turned away
  uint64_t rings_stopped = 0;      // for breaking the protocol, ever
  uint64_t flushes_requested = 0;
  uint64_t flushes_succeeded = 0;
  uint64_t flushes_failed = 0;
  std::vector<ProducerStats> producers;  // that are connected now
  std::vector<BufferStats> buffers;  // in order of configuration, metadata last
};

// What one saved file, or all files of a stream that was cut into several,
// hold, and what is missing: packets + streamed_before +
// lost.total() is the number of packets that were attempted when the last
// buffer was read.
struct TraceFileInfo {
  std::string path;    // of the newest file
  uint64_t files = 1;  // that were written; they need not all be there still
  uint64_t bytes = 0;
  uint64_t packets = 0;           // of producers, descriptors left out
  uint64_t metadata_packets = 0;  // descriptors
  // A stream had moved them to its file, and they are in no buffer any more.
  uint64_t streamed_before = 0;
  LossCounts lost;  // here also kOverwritten and kRejected
};

}  // namespace tracering

#endif  // TRACERING_CONSUMER_STATS_H_
