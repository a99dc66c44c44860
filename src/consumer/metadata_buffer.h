// The built-in buffer `metadata`: the newest descriptor of each track, process
// and thread, so that traces stay readable after their target buffers wrapped.
//
// A descriptor is keyed by its producer and by what it describes. A newer one
// replaces an older one in its place; one with the same bytes changes nothing.
// When the buffer is full, descriptors of producers that are gone and have no
// packet left go first. If there are none, a producer that uses less than its
// even share takes the room of the one that uses most, so that nobody can fill
// it at the cost of others; any other one takes its own. Of a producer those go
// first that it has not told for the longest time: threads come and go, and
// those that live are told again now and then. Its first one stays: it names
// the process.
//
// Packets come from other processes and are group encoded; the walk for the key
// is bounded by their size, and all else that one costs by the logarithm of
// what is there, whatever keys peers choose and however many they are. A plain
// data structure; the consumer serialises access.
#ifndef TRACERING_SRC_CONSUMER_METADATA_BUFFER_H_
#define TRACERING_SRC_CONSUMER_METADATA_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/consumer/sequence_table.h"

namespace tracering::internal {

// What a packet describes. `id` is the track's uuid, or the pid or tid of a
// bare process or thread descriptor; 0 where the packet has none.
struct MetadataKey {
  enum class Kind : uint8_t { kNone, kTrack, kProcess, kThread };
  Kind kind = Kind::kNone;
  uint64_t id = 0;

  friend bool operator==(const MetadataKey& a, const MetadataKey& b) {
    return a.kind == b.kind && a.id == b.id;
  }
  friend bool operator<(const MetadataKey& a, const MetadataKey& b) {
    return std::tie(a.kind, a.id) < std::tie(b.kind, b.id);
  }
};

// The key of a group-encoded TracePacket; kNone if it holds no descriptor or
// cannot be walked up to it.
MetadataKey MetadataKeyOf(const uint8_t* packet, size_t size);

// A copy of one descriptor, for a file.
struct MetadataPacket {
  uint64_t generation = 0;
  SequenceInfo sequence;
  std::string bytes;  // group encoded
};

enum class MetadataOutcome {
  kStored,
  kUnchanged,      // the same bytes were there: stored as well
  kNotDescriptor,  // no key: refused
  kTooLarge,       // over kMaxPacketSize: refused
  kFull,           // refused
};

struct MetadataStats {
  uint64_t packets_stored = 0;  // unchanged ones included
  uint64_t packets_replaced = 0;
  uint64_t packets_evicted = 0;    // of producers that are gone
  uint64_t packets_displaced = 0;  // by others of the same, or of less use
  uint64_t packets_not_descriptor = 0;
  uint64_t packets_too_large = 0;
  uint64_t packets_refused = 0;  // for lack of room
  uint64_t packets_rejected = 0;
};

class MetadataBuffer {
 public:
  static constexpr size_t kDefaultSize = size_t{1} << 20;
  static constexpr size_t kMaxPacketSize = 32 * 1024;
  // What a descriptor costs besides its bytes.
  static constexpr size_t kEntryOverhead = 192;

  // `size` bounds bytes plus overhead.
  explicit MetadataBuffer(size_t size) : size_(size) {}
  MetadataBuffer(const MetadataBuffer&) = delete;
  MetadataBuffer& operator=(const MetadataBuffer&) = delete;

  // Stores one packet that came over `sequence`.
  MetadataOutcome Store(const SequenceInfo& sequence, const uint8_t* packet,
                        size_t size);

  // Whether a newcomer is refused where a producer would have to make room for
  // it by its own: where no newer packets are kept, names of older ones count.
  void set_keeps_oldest(bool keeps_oldest) { keeps_oldest_ = keeps_oldest; }

  // `producer` is gone and has no packet left in any target buffer.
  void Forget(uint64_t producer);

  // Appends copies of the descriptors that are newer than `generation` to
  // `out`, in the order in which their keys first came, and returns the
  // generation that covers them. 0 asks for all: the head of a file. A stream
  // goes on with what the last call returned.
  uint64_t CopySince(uint64_t generation,
                     std::vector<MetadataPacket>* out) const;

  // Drops and counts descriptors that turned out not to be valid. Those that
  // were replaced or dropped meanwhile are ignored.
  void Reject(const std::vector<uint64_t>& generations);

  size_t size() const { return size_; }
  size_t bytes_used() const { return bytes_used_; }
  size_t num_packets() const { return entries_.size(); }
  const MetadataStats& stats() const { return stats_; }

 private:
  struct Entry {
    MetadataKey key;
    MetadataPacket packet;
    std::list<std::list<Entry>::iterator>::iterator in_producer;
  };
  using Entries = std::list<Entry>;
  struct Producer {
    // Ordered: a peer picks its keys, and could make those of a hash collide.
    std::map<MetadataKey, Entries::iterator> by_key;
    // The first one, then the others by when they were told last.
    std::list<Entries::iterator> order;
    size_t bytes = 0;
  };

  bool HasRoom(size_t bytes) const { return bytes <= size_ - bytes_used_; }
  // `keep` is an entry of `producer` that has been told just now, or null.
  bool MakeRoom(uint64_t producer, size_t bytes, const Entry* keep);
  // Makes room at the cost of forgotten producers.
  void EvictForgotten(uint64_t producer, size_t bytes);
  // Makes room at the cost of the producer's own, or of none.
  bool DisplaceOwn(const Producer& producer, size_t bytes, const Entry* keep);
  // Drops the descriptor that can be spared the most.
  void DisplaceOldest(const Producer& producer);
  static void NoteTold(Producer* producer, const Entry& entry);
  Entry* Find(uint64_t producer, const MetadataKey& key);
  MetadataOutcome Replace(const SequenceInfo& sequence, std::string_view bytes,
                          Entry* entry);
  void Erase(Entries::iterator entry);
  // Adds to what `producer` uses.
  void Charge(uint64_t producer, Producer* account, ptrdiff_t bytes);

  const size_t size_;
  bool keeps_oldest_ = false;
  Entries entries_;  // in the order in which their keys first came
  std::map<uint64_t, Producer> producers_;
  // Of those producers: what each uses, so that the one that uses most is found
  // at once, and which are forgotten.
  std::set<std::pair<size_t, uint64_t>> by_bytes_;
  std::set<uint64_t> forgotten_;
  size_t bytes_used_ = 0;
  uint64_t generation_ = 0;
  MetadataStats stats_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_METADATA_BUFFER_H_
