// The consumer's target buffers by number and name, the built-in one for
// descriptors behind them, and the table of the sequences whose packets they
// hold.
//
// Buffers are numbered as configured; metadata_target() comes after them. A
// plain data structure; guarded by the loop mutex.
#ifndef TRACERING_SRC_CONSUMER_BUFFER_SET_H_
#define TRACERING_SRC_CONSUMER_BUFFER_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/consumer/metadata_buffer.h"
#include "src/consumer/packet_run.h"
#include "src/consumer/sequence_table.h"
#include "src/consumer/target_buffer.h"
#include "tracering/buffer_config.h"
#include "tracering/consumer_stats.h"

namespace tracering::internal {

class BufferSet {
 public:
  // Allocates the buffers. Names were checked by the caller; a size that is
  // out of range, or memory that is missing, is an error that names the buffer.
  static absl::StatusOr<std::unique_ptr<BufferSet>> Create(
      const std::vector<BufferConfig>& configs, size_t metadata_size);

  BufferSet(const BufferSet&) = delete;
  BufferSet& operator=(const BufferSet&) = delete;

  // The number of the buffer of that name, metadata included.
  std::optional<uint32_t> Find(std::string_view name) const;

  // Target buffers, without metadata.
  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }
  uint32_t metadata_target() const { return size(); }
  TargetBuffer& buffer(uint32_t target) { return *buffers_[target].buffer; }
  MetadataBuffer& metadata() { return metadata_; }
  const SequenceTable& sequences() const { return sequences_; }

  // Starts a sequence of `producer`; SequenceTable::kNone if there is no
  // number left.
  [[nodiscard]] SequenceIndex AddSequence(uint64_t producer, int32_t uid,
                                          int32_t pid) {
    return sequences_.Add(producer, uid, pid);
  }

  // Stores a run in the buffer and under the sequence of its route.
  StoreResult Store(const PacketRun& run);
  // See TargetBuffer. Null for descriptors, which are judged first.
  [[nodiscard]] uint8_t* PlaceFor(const PacketRun& run,
                                  const PacketRun* joined) {
    const uint32_t target = run.route.target;
    if (target == metadata_target()) return nullptr;
    return buffers_[target].buffer->PlaceFor(run, joined);
  }

  // Nothing more comes from `producer`, which started so many sequences. They
  // are forgotten once no buffer holds packets of them.
  void RetireProducer(uint64_t producer, size_t num_sequences);

  // --- For the one stream that may be consuming the buffers ---

  // Says whether there is one.
  void SetStreaming(bool streaming);
  // The stream is about to take everything. Returns the sequences that were
  // forgotten since it did so last.
  std::vector<SequenceIndex> BeginStreamRound();
  // True, once a round, after so much was stored that the stream should not
  // wait for its period.
  [[nodiscard]] bool TakeStreamPressure() {
    return std::exchange(pressed_, false);
  }

  // In the order of numbers, metadata last.
  std::vector<BufferStats> Stats() const;

 private:
  struct Entry {
    BufferConfig config;
    std::unique_ptr<TargetBuffer> buffer;
    uint64_t stored_in_round = 0;  // payload bytes since the stream came last
  };

  BufferSet(std::vector<Entry> buffers, size_t metadata_size);

  StoreResult StoreDescriptors(const PacketRun& run);
  void CountForStream(uint64_t bytes, uint64_t capacity,
                      uint64_t* stored_in_round);
  void SweepIfWorthwhile();

  std::vector<Entry> buffers_;
  // By name; std::less<> finds a std::string_view without a copy.
  std::map<std::string, uint32_t, std::less<>> targets_;
  SequenceTable sequences_;
  MetadataBuffer metadata_;
  // Sequences of producers that are gone, counted as they retire: a sweep
  // costs that many steps, and is worth it again once they have doubled.
  size_t retired_since_sweep_ = 0;
  size_t kept_by_last_sweep_ = 0;
  bool streaming_ = false;
  bool pressed_ = false;
  uint64_t descriptors_in_round_ = 0;  // bytes and overhead
  std::vector<SequenceIndex> forgotten_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_BUFFER_SET_H_
