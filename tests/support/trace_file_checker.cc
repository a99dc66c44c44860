// One class per kind of rule, each fed with every packet in file order.
#include "tests/support/trace_file_checker.h"

#include <fmt/format.h>
#ifdef TRACERING_WITH_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tracering::test {
namespace {

constexpr uint32_t kLossPresent = 1;
constexpr uint32_t kKnownLossBits = 511;
constexpr uint32_t kBoottime = 6;
constexpr uint32_t kRealtime = 1;
constexpr uint64_t kHourInNs = 3'600'000'000'000;

// Collects sentences.
class Complaints {
 public:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  std::vector<std::string> Take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

bool IsService(const TracePacket& packet) {
  return packet.has_clock_snapshot() || packet.has_trace_stats() ||
         packet.has_trace_config() || packet.has_trace_uuid() ||
         packet.has_synchronization_marker();
}

bool IsDescriptor(const TracePacket& packet) {
  return packet.has_track_descriptor() || packet.has_process_descriptor() ||
         packet.has_thread_descriptor();
}

bool IsTimed(const TracePacket& packet) {
  return packet.has_track_event() || packet.has_perf_sample();
}

class SequenceRules {
 public:
  SequenceRules(const TraceCheckOptions& options, Complaints* complaints)
      : options_(options), complaints_(complaints) {}

  void Visit(size_t index, const TracePacket& packet) {
    const uint32_t id = packet.trusted_packet_sequence_id();
    if (id == 0) complaints_->Add("packet {} has no sequence id", index);
    if (options_.require_pid && !IsService(packet) &&
        !packet.has_trusted_pid()) {
      complaints_->Add("packet {} has no trusted pid", index);
    }
    const auto [found, is_first] = sequences_.try_emplace(id);
    Sequence& sequence = found->second;
    if (is_first) {
      sequence.uid = packet.trusted_uid();
      sequence.pid = packet.trusted_pid();
    } else {
      if (sequence.pid != packet.trusted_pid() ||
          sequence.uid != packet.trusted_uid()) {
        complaints_->Add("packet {}: sequence {} belongs to pid {} and to {}",
                         index, id, sequence.pid, packet.trusted_pid());
      }
      if (packet.first_packet_on_sequence()) {
        complaints_->Add("packet {} is not the first of sequence {}", index,
                         id);
      }
    }
    VisitLoss(index, packet, &sequence);
    const uint32_t flags = packet.sequence_flags();
    if ((flags & 1) != 0) sequence.state_cleared = true;
    if ((flags & 2) != 0 && !sequence.state_cleared && !sequence.lossy) {
      complaints_->Add("packet {} needs incremental state that nothing set up",
                       index);
    }
  }

 private:
  struct Sequence {
    int32_t uid = 0;
    int32_t pid = 0;
    bool state_cleared = false;
    bool lossy = false;
  };

  void VisitLoss(size_t index, const TracePacket& packet, Sequence* sequence) {
    if (!packet.has_previous_packet_dropped()) return;
    const uint32_t mark = packet.previous_packet_dropped();
    sequence->lossy = true;
    sequence->state_cleared = false;
    if (options_.forbid_loss) {
      complaints_->Add("packet {} says {:#x} was lost before it", index, mark);
    }
    if ((mark & kLossPresent) == 0) {
      complaints_->Add("packet {}: loss {:#x} without its present bit", index,
                       mark);
    }
    if ((mark & ~kKnownLossBits) != 0) {
      complaints_->Add("packet {}: loss {:#x} has unknown bits", index, mark);
    }
    if (IsService(packet)) {
      complaints_->Add("packet {}: loss before a packet of the service", index);
    }
  }

  const TraceCheckOptions& options_;
  Complaints* const complaints_;
  std::map<uint32_t, Sequence> sequences_;
};

class ClockRules {
 public:
  ClockRules(const TraceCheckOptions& options, Complaints* complaints)
      : options_(options), complaints_(complaints) {}

  void Visit(size_t index, const TracePacket& packet) {
    if (packet.has_clock_snapshot()) {
      VisitSnapshot(index, packet);
    } else if (latest_.empty() && !complained_ && !IsService(packet) &&
               !IsDescriptor(packet)) {
      complained_ = true;
      complaints_->Add("packet {} comes before any clock snapshot", index);
    }
    if (!IsTimed(packet)) return;
    if (packet.timestamp() == 0) {
      complaints_->Add("packet {} has no timestamp", index);
      return;
    }
    const uint32_t clock = packet.has_timestamp_clock_id()
                               ? packet.timestamp_clock_id()
                               : primary_.value_or(kBoottime);
    // Clocks from 64 to 127 belong to one sequence.
    const bool is_custom = clock >= 64 && clock <= 127;
    timed_.push_back({index,
                      is_custom ? packet.trusted_packet_sequence_id() : 0,
                      clock, packet.timestamp()});
    if (options_.require_order && packet.has_track_event()) {
      uint64_t& last =
          last_of_sequence_[{packet.trusted_packet_sequence_id(), clock}];
      if (packet.timestamp() < last) {
        complaints_->Add("packet {}: timestamp {} is before {} on its sequence",
                         index, packet.timestamp(), last);
      }
      last = packet.timestamp();
    }
  }

  // A snapshot behind an event defines its clock too, so this waits.
  void Finish() {
    for (const Timed& timed : timed_) {
      const auto found = latest_.find({timed.scope, timed.clock});
      if (found == latest_.end()) {
        complaints_->Add("packet {}: no snapshot has clock {}", timed.index,
                         timed.clock);
      } else if (timed.timestamp > found->second + kHourInNs) {
        complaints_->Add("packet {}: timestamp {} lies in the future",
                         timed.index, timed.timestamp);
      }
    }
  }

 private:
  struct Timed {
    size_t index;
    uint32_t scope;
    uint32_t clock;
    uint64_t timestamp;
  };

  void VisitSnapshot(size_t index, const TracePacket& packet) {
    const ClockSnapshot& snapshot = packet.clock_snapshot();
    std::set<uint32_t> ids;
    for (const ClockSnapshot::Clock& clock : snapshot.clocks()) {
      const uint32_t id = clock.clock_id();
      if (!ids.insert(id).second) {
        complaints_->Add("packet {}: clock {} twice", index, id);
      }
      const bool is_custom = id >= 64 && id <= 127;
      const uint32_t scope =
          is_custom ? packet.trusted_packet_sequence_id() : 0;
      uint64_t& latest = latest_[{scope, id}];
      if (clock.timestamp() < latest && id != kRealtime) {
        complaints_->Add("packet {}: clock {} runs backwards", index, id);
      }
      latest = clock.timestamp();
    }
    if (ids.empty()) {
      complaints_->Add("packet {}: snapshot without a clock", index);
    }
    if (snapshot.has_primary_trace_clock()) {
      primary_ = snapshot.primary_trace_clock();
      if (ids.count(*primary_) == 0) {
        complaints_->Add(
            "packet {}: the primary clock {} is not in the "
            "snapshot",
            index, *primary_);
      }
    }
  }

  const TraceCheckOptions& options_;
  Complaints* const complaints_;
  // By sequence and clock id, of events.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> last_of_sequence_;
  // By scope (sequence, or 0 for all) and clock id.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> latest_;
  std::optional<uint32_t> primary_;
  std::vector<Timed> timed_;
  bool complained_ = false;
};

class TrackRules {
 public:
  TrackRules(const TraceCheckOptions& options, Complaints* complaints)
      : options_(options), complaints_(complaints) {}

  void Visit(size_t index, const TracePacket& packet) {
    const uint32_t sequence = packet.trusted_packet_sequence_id();
    if (packet.has_previous_packet_dropped()) {
      lossy_pids_.insert(packet.trusted_pid());
      first_loss_.try_emplace(sequence, index);
    }
    if (packet.has_track_descriptor()) {
      VisitDescriptor(index, packet.track_descriptor());
    }
    if (packet.has_track_event()) VisitEvent(index, packet);
  }

  void Finish() {
    for (const auto& [uuid, descriptor] : descriptors_) {
      if (descriptor.has_parent_uuid() && descriptor.parent_uuid() != 0 &&
          descriptors_.count(descriptor.parent_uuid()) == 0) {
        complaints_->Add("track {} has the parent {}, which nothing describes",
                         uuid, descriptor.parent_uuid());
      }
    }
    for (auto& [key, events] : tracks_) FinishTrack(key, &events);
  }

 private:
  struct Event {
    size_t index;
    uint64_t timestamp;
    uint32_t sequence;
    int32_t pid;
    TrackEvent::Type type;
  };
  // Track uuid, or 0 and the sequence whose default track it is.
  using TrackKey = std::pair<uint64_t, uint32_t>;

  void VisitDescriptor(size_t index, const TrackDescriptor& descriptor) {
    if (descriptor.uuid() == 0) {
      complaints_->Add("packet {} describes a track without uuid", index);
      return;
    }
    const auto [found, is_new] =
        descriptors_.try_emplace(descriptor.uuid(), descriptor);
    if (is_new) return;
    const TrackDescriptor& before = found->second;
    if (before.has_counter() != descriptor.has_counter() ||
        before.thread().tid() != descriptor.thread().tid() ||
        before.process().pid() != descriptor.process().pid() ||
        before.parent_uuid() != descriptor.parent_uuid()) {
      complaints_->Add("packet {} describes track {} as another thing", index,
                       descriptor.uuid());
    }
    found->second = descriptor;  // the newest name wins
  }

  void VisitEvent(size_t index, const TracePacket& packet) {
    const TrackEvent& event = packet.track_event();
    if (event.type() == TrackEvent::TYPE_UNSPECIFIED) {
      complaints_->Add("packet {}: an event without a type", index);
    }
    const uint32_t sequence = packet.trusted_packet_sequence_id();
    const TrackKey key = event.has_track_uuid() && event.track_uuid() != 0
                             ? TrackKey{event.track_uuid(), 0}
                             : TrackKey{0, sequence};
    tracks_[key].push_back({index, packet.timestamp(), sequence,
                            packet.trusted_pid(), event.type()});
  }

  // Whether an end at `event` may lack its begin: something was lost on this
  // sequence before it, or the track can be written from elsewhere in a
  // process that lost something anywhere.
  bool LossExplains(const Event& event, bool is_exclusive) const {
    if (!is_exclusive) return lossy_pids_.count(event.pid) != 0;
    const auto found = first_loss_.find(event.sequence);
    return found != first_loss_.end() && found->second <= event.index;
  }

  void FinishTrack(const TrackKey& key, std::vector<Event>* events) {
    const auto found = descriptors_.find(key.first);
    const bool described = found != descriptors_.end();
    if (key.first != 0 && !described) {
      complaints_->Add("packet {}: track {} is not described",
                       events->front().index, key.first);
    }
    const bool is_counter = described && found->second.has_counter();
    // A thread's own track, or the default one, has a single sequence.
    const bool is_exclusive =
        key.first == 0 || (described && found->second.has_thread());
    std::stable_sort(events->begin(), events->end(),
                     [](const Event& a, const Event& b) {
                       return a.timestamp < b.timestamp;
                     });
    int64_t depth = 0;
    for (const Event& event : *events) {
      const bool counts = event.type == TrackEvent::TYPE_COUNTER;
      if (described && counts != is_counter) {
        complaints_->Add("packet {}: track {} is {} counter track", event.index,
                         key.first, is_counter ? "a" : "no");
      }
      if (event.type == TrackEvent::TYPE_SLICE_BEGIN) ++depth;
      if (event.type != TrackEvent::TYPE_SLICE_END) continue;
      if (depth > 0) {
        --depth;
      } else if (!LossExplains(event, is_exclusive)) {
        complaints_->Add("packet {}: a slice on track {} ends that never began",
                         event.index, key.first);
      }
    }
    if (options_.forbid_open_slices && depth > 0 &&
        lossy_pids_.count(events->back().pid) == 0) {
      complaints_->Add("track {}: {} slices never end", key.first, depth);
    }
  }

  const TraceCheckOptions& options_;
  Complaints* const complaints_;
  std::map<uint64_t, TrackDescriptor> descriptors_;
  std::map<TrackKey, std::vector<Event>> tracks_;
  std::set<int32_t> lossy_pids_;
  // Index of the first packet of each sequence that bears a loss mark.
  std::map<uint32_t, size_t> first_loss_;
};

// Reads a varint; false where the input ends within it or it is too long.
bool ReadVarint(std::string_view* rest, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < 10 && i < rest->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*rest)[i]);
    *value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      rest->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// What `deflated` was made of; empty, with a complaint, where it is broken.
std::string Inflate(const std::string& deflated, TraceFile* file) {
  std::string inflated;
#ifdef TRACERING_WITH_ZLIB
  z_stream stream{};
  inflateInit(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(deflated.data()));
  stream.avail_in = static_cast<uInt>(deflated.size());
  int result = Z_OK;
  while (result == Z_OK) {
    Bytef piece[4096];
    stream.next_out = piece;
    stream.avail_out = sizeof(piece);
    result = inflate(&stream, Z_NO_FLUSH);
    inflated.append(reinterpret_cast<const char*>(piece),
                    sizeof(piece) - stream.avail_out);
  }
  if (result != Z_STREAM_END || stream.avail_in != 0) {
    file->complaints.push_back("compressed packets that are no zlib stream");
    inflated.clear();
  }
  inflateEnd(&stream);
#else
  file->complaints.push_back("compressed packets, and no zlib to read them");
#endif
  return inflated;
}

// Puts the packets that `packet`, at `offset`, holds in its place.
void AddCompressed(const TracePacket& packet, size_t offset, TraceFile* file) {
  ++file->compressed_packets;
  TracePacket rest = packet;
  rest.clear_compressed_packets();
  if (rest.ByteSizeLong() != 0) {
    file->complaints.push_back(
        fmt::format("the packet at byte {} holds others and more", offset));
  }
  TraceFile held = ReadTraceBytes(Inflate(packet.compressed_packets(), file));
  if (held.compressed_packets != 0 || held.cut_bytes != 0) {
    held.complaints.push_back("it holds such a packet itself, or half of one");
  }
  for (const std::string& complaint : held.complaints) {
    file->complaints.push_back(fmt::format(
        "in the compressed packet at byte {}: {}", offset, complaint));
  }
  for (TracePacket& inner : held.packets) {
    file->packets.push_back(std::move(inner));
    file->offsets.push_back(offset);
  }
}

}  // namespace

TraceFile ReadTraceBytes(std::string_view bytes) {
  TraceFile file;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const size_t offset = bytes.size() - rest.size();
    if (rest.front() != '\x0a') {
      file.complaints.push_back(
          fmt::format("byte {} is {:#04x} where a packet should begin", offset,
                      static_cast<uint8_t>(rest.front())));
      return file;
    }
    rest.remove_prefix(1);
    uint64_t size;
    if (!ReadVarint(&rest, &size) || size > rest.size()) {
      file.cut_bytes = bytes.size() - offset;
      return file;
    }
    TracePacket packet;
    // Parsing of a sub-range: the size is at most that of the whole input.
    if (!packet.ParseFromArray(rest.data(), static_cast<int>(size))) {
      file.complaints.push_back(
          fmt::format("the packet at byte {} does not parse", offset));
    } else if (packet.has_compressed_packets()) {
      AddCompressed(packet, offset, &file);
    } else {
      file.packets.push_back(std::move(packet));
      file.offsets.push_back(offset);
    }
    rest.remove_prefix(size);
  }
  return file;
}

TraceFile ReadTraceFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    TraceFile file;
    file.complaints.push_back(fmt::format("cannot open {}", path));
    return file;
  }
  const std::string bytes((std::istreambuf_iterator<char>(stream)),
                          std::istreambuf_iterator<char>());
  return ReadTraceBytes(bytes);
}

std::vector<std::string> CheckTrace(const TraceFile& file,
                                    const TraceCheckOptions& options) {
  Complaints complaints;
  for (const std::string& complaint : file.complaints) {
    complaints.Add("{}", complaint);
  }
  if (options.complete && file.cut_bytes != 0) {
    complaints.Add("the last packet is cut off after {} bytes", file.cut_bytes);
  }
  SequenceRules sequences(options, &complaints);
  ClockRules clocks(options, &complaints);
  TrackRules tracks(options, &complaints);
  for (size_t i = 0; i < file.packets.size(); ++i) {
    const TracePacket& packet = file.packets[i];
    for (int k = 0; k < packet.unknown_fields().field_count(); ++k) {
      complaints.Add("packet {} has the unknown field {}", i,
                     packet.unknown_fields().field(k).number());
    }
    sequences.Visit(i, packet);
    clocks.Visit(i, packet);
    tracks.Visit(i, packet);
  }
  clocks.Finish();
  tracks.Finish();
  if (options.complete &&
      (file.packets.empty() || !file.packets.back().has_trace_stats())) {
    complaints.Add("the last packet holds no trace stats");
  }
  return complaints.Take();
}

std::vector<std::string> CheckTraceFile(const std::string& path,
                                        const TraceCheckOptions& options) {
  return CheckTrace(ReadTraceFile(path), options);
}

}  // namespace tracering::test
