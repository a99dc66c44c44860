// See buffer_set.h.
#include "src/consumer/buffer_set.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracering::internal {
namespace {

// The stream is called when this part of a buffer was written since its last
// round: early enough that a disk which keeps up loses nothing.
constexpr uint64_t kPressureDivisor = 4;

// Sweeping fewer sequences than this is not worth the walk.
constexpr size_t kMinRetiredForSweep = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<BufferSet>> BufferSet::Create(
    const std::vector<BufferConfig>& configs, size_t metadata_size) {
  std::vector<Entry> entries;
  for (const BufferConfig& config : configs) {
    absl::StatusOr<std::unique_ptr<TargetBuffer>> buffer =
        TargetBuffer::Create(config.size, config.policy);
    if (!buffer.ok()) {
      return absl::Status(
          buffer.status().code(),
          fmt::format("buffer '{}': {}", config.name,
                      std::string_view(buffer.status().message().data(),
                                       buffer.status().message().size())));
    }
    entries.push_back({config, *std::move(buffer)});
  }
  return std::unique_ptr<BufferSet>(
      new BufferSet(std::move(entries), metadata_size));
}

BufferSet::BufferSet(std::vector<Entry> buffers, size_t metadata_size)
    : buffers_(std::move(buffers)), metadata_(metadata_size) {
  for (uint32_t target = 0; target < size(); ++target) {
    targets_.emplace(buffers_[target].config.name, target);
  }
  targets_.emplace(kMetadataBufferName, metadata_target());
}

std::optional<uint32_t> BufferSet::Find(std::string_view name) const {
  const auto found = targets_.find(name);
  if (found == targets_.end()) return std::nullopt;
  return found->second;
}

StoreResult BufferSet::Store(const PacketRun& run) {
  if (run.route.target == metadata_target()) return StoreDescriptors(run);
  Entry& entry = buffers_[run.route.target];
  const StoreResult result = entry.buffer->Store(run);
  CountForStream(run.payload_size, entry.buffer->capacity(),
                 &entry.stored_in_round);
  return result;
}

void BufferSet::CountForStream(uint64_t bytes, uint64_t capacity,
                               uint64_t* stored_in_round) {
  if (!streaming_) return;
  const uint64_t limit = capacity / kPressureDivisor;
  const uint64_t before = *stored_in_round;
  *stored_in_round += bytes;
  if (before < limit && *stored_in_round >= limit) pressed_ = true;
}

StoreResult BufferSet::StoreDescriptors(const PacketRun& run) {
  StoreResult result;
  const SequenceInfo* info = sequences_.Find(run.route.sequence);
  const uint8_t* packet = run.payload;
  metadata_.set_keeps_oldest(std::all_of(
      buffers_.begin(), buffers_.end(),
      [](const Entry& entry) { return entry.buffer->is_closed(); }));
  for (uint32_t i = 0; i < run.num_packets; ++i) {
    const uint32_t size = run.SizeOf(i);
    switch (metadata_.Store(*info, packet, size)) {
      case MetadataOutcome::kStored:
        CountForStream(size + MetadataBuffer::kEntryOverhead, metadata_.size(),
                       &descriptors_in_round_);
        [[fallthrough]];
      case MetadataOutcome::kUnchanged:
        ++result.stored;
        break;
      case MetadataOutcome::kTooLarge:
        ++result.too_large;
        break;
      case MetadataOutcome::kNotDescriptor:
      case MetadataOutcome::kFull:
        ++result.refused;
        break;
    }
    packet += size;
  }
  return result;
}

void BufferSet::RetireProducer(uint64_t producer, size_t num_sequences) {
  sequences_.RetireProducer(producer);
  retired_since_sweep_ += num_sequences;
  SweepIfWorthwhile();
}

// A sweep walks all sequences of retired producers. Waiting until they have
// doubled since the last one keeps the cost of each retirement constant, and
// what is kept too long within a factor of two.
void BufferSet::SweepIfWorthwhile() {
  if (retired_since_sweep_ < kMinRetiredForSweep + kept_by_last_sweep_) return;
  retired_since_sweep_ = 0;
  kept_by_last_sweep_ = 0;
  sequences_.Sweep(
      [this](SequenceIndex sequence) {
        const bool in_use = std::any_of(buffers_.begin(), buffers_.end(),
                                        [sequence](const Entry& entry) {
                                          return entry.buffer->Holds(sequence);
                                        });
        if (in_use) ++kept_by_last_sweep_;
        return in_use;
      },
      [this](SequenceIndex sequence) {
        for (Entry& entry : buffers_) entry.buffer->Forget(sequence);
        if (streaming_) forgotten_.push_back(sequence);
      },
      [this](uint64_t producer) { metadata_.Forget(producer); });
}

void BufferSet::SetStreaming(bool streaming) {
  streaming_ = streaming;
  pressed_ = false;
  forgotten_ = {};
  for (Entry& entry : buffers_) entry.stored_in_round = 0;
  descriptors_in_round_ = 0;
}

std::vector<SequenceIndex> BufferSet::BeginStreamRound() {
  pressed_ = false;
  for (Entry& entry : buffers_) entry.stored_in_round = 0;
  descriptors_in_round_ = 0;
  return std::exchange(forgotten_, {});
}

std::vector<BufferStats> BufferSet::Stats() const {
  std::vector<BufferStats> all;
  for (const Entry& entry : buffers_) {
    const TargetBufferStats& counts = entry.buffer->stats();
    BufferStats stats;
    stats.name = entry.config.name;
    stats.size = entry.buffer->capacity();
    stats.policy = entry.config.policy;
    stats.used_bytes = entry.buffer->bytes_used();
    stats.packets = counts.packets_stored - counts.packets_evicted;
    stats.written_packets = counts.packets_stored;
    stats.written_bytes = counts.bytes_stored;
    stats.streamed_packets = counts.packets_consumed;
    stats.overwritten_packets = counts.packets_overwritten;
    stats.overwritten_bytes = counts.bytes_overwritten;
    stats.refused_packets = counts.packets_refused + counts.packets_too_large;
    stats.rejected_packets = counts.packets_rejected;
    all.push_back(std::move(stats));
  }
  const internal::MetadataStats& counts = metadata_.stats();
  BufferStats stats;
  stats.name = kMetadataBufferName;
  stats.size = metadata_.size();
  stats.policy = FillPolicy::kRing;
  stats.used_bytes = metadata_.bytes_used();
  stats.packets = metadata_.num_packets();
  stats.written_packets = counts.packets_stored;
  stats.overwritten_packets = counts.packets_evicted + counts.packets_displaced;
  stats.refused_packets = counts.packets_refused + counts.packets_too_large +
                          counts.packets_not_descriptor;
  stats.rejected_packets = counts.packets_rejected;
  all.push_back(std::move(stats));
  return all;
}

}  // namespace tracering::internal
