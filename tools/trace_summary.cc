// Counting and the tables; see trace_summary.h.
#include "tools/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/command_line.h"
#include "tools/field_reader.h"
#include "tracering/data_loss.h"
#include "tracering/trace_fields.h"

namespace tracering::tools {
namespace {

constexpr size_t kMaxTracks = 65536;
constexpr size_t kMaxNames = 16384;
constexpr size_t kMaxNameSize = 255;
constexpr size_t kMaxOpenSlices = 1024;
constexpr int kMaxParents = 64;
// Lines of a table, for each process and for slices.
constexpr size_t kMaxRows = 20;
constexpr size_t kTrackWidth = 30;

// As much of a text as is shown, and no more.
std::string Shown(std::string_view text, size_t width) {
  std::string shown = Printable(text);
  const auto characters = std::count_if(
      shown.begin(), shown.end(), [](char c) { return (c & 0xc0) != 0x80; });
  if (static_cast<size_t>(characters) <= width) return shown;
  return fmt::format("{:.{}}...", shown, width - 3);
}

std::string ReadableNs(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string NumberOrDash(uint64_t number) {
  return number == 0 ? "-" : fmt::to_string(number);
}

// The names of the bits of a loss mark.
std::string DescribeMarks(uint32_t marks) {
  constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {perfetto_loss::kReadGap, "read gap"},
      {perfetto_loss::kChunkCorrupted, "chunk corrupted"},
      {perfetto_loss::kOrphanContinuation, "orphan continuation"},
      {perfetto_loss::kReassemblyGap, "reassembly gap"},
      {perfetto_loss::kReassemblyBrokenChain, "broken chain"},
      {perfetto_loss::kOverwritten, "overwritten"},
      {perfetto_loss::kWriterAbort, "writer abort"},
      {perfetto_loss::kSharedMemoryFull, "shared memory full"}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((marks & bit) == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ", ",
                   name);
  }
  return text.empty() ? "of unknown cause" : text;
}

void AppendCount(uint64_t count, std::string_view what, std::string* text) {
  if (count == 0) return;
  fmt::format_to(std::back_inserter(*text), "{}{} {}",
                 text->empty() ? "" : ", ", count, what);
}

}  // namespace

struct TraceSummary::Packet {
  bool has_timestamp = false;
  uint64_t timestamp = 0;
  bool is_boottime = true;
  bool is_of_service = false;
  bool is_descriptor = false;
  int64_t pid = 0;
  uint32_t loss = 0;
  bool has_event = false;
  std::string_view event;
  bool has_sample = false;
  std::string_view sample;
  std::string_view track_descriptor;
  bool has_stats = false;
  std::string_view stats;
};

bool TraceSummary::Counts::IsZero() const {
  return (slices | instants | values | samples | other | gaps) == 0;
}

TraceSummary::Counts& TraceSummary::Counts::operator+=(const Counts& more) {
  slices += more.slices;
  instants += more.instants;
  values += more.values;
  samples += more.samples;
  other += more.other;
  gaps += more.gaps;
  return *this;
}

TraceSummary::Packet TraceSummary::Parse(std::string_view rest) {
  Packet packet;
  Field field;
  while (ReadField(&rest, &field)) {
    const bool is_message = field.type == WireType::kLengthDelimited;
    switch (field.number) {
      case trace_packet::kTimestamp:
        packet.has_timestamp = true;
        packet.timestamp = field.value;
        break;
      case trace_packet::kTimestampClockId:
        packet.is_boottime = field.value == clock::kBoottime;
        break;
      case trace_packet::kTrustedPid:
        packet.pid = static_cast<int32_t>(field.value);
        break;
      case trace_packet::kPreviousPacketDropped:
        packet.loss = static_cast<uint32_t>(field.value);
        break;
      case trace_packet::kTrackEvent:
        packet.has_event = is_message;
        packet.event = field.bytes;
        break;
      case trace_packet::kPerfSample:
        packet.has_sample = is_message;
        packet.sample = field.bytes;
        break;
      case trace_packet::kTrackDescriptor:
        packet.is_descriptor = true;
        packet.track_descriptor = field.bytes;
        break;
      case trace_packet::kProcessDescriptor:
      case trace_packet::kThreadDescriptor:
        packet.is_descriptor = true;
        break;
      case trace_packet::kTraceStats:
        packet.is_of_service = true;
        packet.has_stats = is_message;
        packet.stats = field.bytes;
        break;
      case trace_packet::kClockSnapshot:
      case trace_packet::kTraceConfig:
      case trace_packet::kTraceUuid:
      case trace_packet::kSynchronizationMarker:
      case trace_packet::kServiceEvent:
        packet.is_of_service = true;
        break;
      default:
        break;
    }
  }
  return packet;
}

void TraceSummary::Add(std::string_view bytes) {
  const Packet packet = Parse(bytes);
  if (packet.has_stats) AddStats(packet.stats);
  if (packet.is_of_service) return;
  if (packet.is_descriptor) return AddDescriptor(packet.track_descriptor);
  ++packets_;
  if (packet.has_timestamp && packet.is_boottime) {
    if (!time_.has_value()) time_.emplace(packet.timestamp, packet.timestamp);
    time_->first = std::min(time_->first, packet.timestamp);
    time_->second = std::max(time_->second, packet.timestamp);
  }
  if (packet.loss != 0) {
    ++gaps_;
    loss_marks_ |= packet.loss;
  }
  if (packet.has_event) return AddEvent(packet);
  if (packet.has_sample) return AddSample(packet);
  Counts& counts = WithoutTrack(packet.pid);
  ++counts.other;
  counts.gaps += packet.loss != 0 ? 1 : 0;
}

void TraceSummary::AddDescriptor(std::string_view descriptor) {
  uint64_t uuid = 0;
  Track described;
  std::string_view name;
  bool is_counter = false;
  Field field;
  while (ReadField(&descriptor, &field)) {
    switch (field.number) {
      case track_descriptor::kUuid:
        uuid = field.value;
        break;
      case track_descriptor::kParentUuid:
        described.parent = field.value;
        break;
      case track_descriptor::kName:
        name = field.bytes;
        break;
      case track_descriptor::kCounter:
        is_counter = true;
        break;
      case track_descriptor::kProcess: {
        described.kind = TrackKind::kProcess;
        Field inner;
        while (ReadField(&field.bytes, &inner)) {
          if (inner.number == process_descriptor::kPid) {
            described.pid = static_cast<int32_t>(inner.value);
          } else if (inner.number == process_descriptor::kProcessName) {
            name = inner.bytes;
          }
        }
        break;
      }
      case track_descriptor::kThread: {
        described.kind = TrackKind::kThread;
        Field inner;
        while (ReadField(&field.bytes, &inner)) {
          if (inner.number == thread_descriptor::kPid) {
            described.pid = static_cast<int32_t>(inner.value);
          } else if (inner.number == thread_descriptor::kTid) {
            described.tid = static_cast<int32_t>(inner.value);
          } else if (inner.number == thread_descriptor::kThreadName) {
            name = inner.bytes;
          }
        }
        break;
      }
      default:
        break;
    }
  }
  Track* const track = FindOrAddTrack(uuid);
  if (track == nullptr) return;
  if (described.kind == TrackKind::kUnknown) {
    described.kind = is_counter ? TrackKind::kCounter : TrackKind::kOther;
  }
  track->kind = described.kind;
  track->parent = described.parent;
  track->pid = described.pid;
  track->tid = described.tid;
  track->name = name.substr(0, kMaxNameSize);
}

void TraceSummary::AddEvent(const Packet& packet) {
  uint64_t type = 0;
  uint64_t uuid = 0;
  std::string_view name;
  std::string_view rest = packet.event;
  Field field;
  while (ReadField(&rest, &field)) {
    if (field.number == track_event::kType) type = field.value;
    if (field.number == track_event::kTrackUuid) uuid = field.value;
    if (field.number == track_event::kName) name = field.bytes;
  }
  Track* const track = uuid == 0 ? nullptr : FindOrAddTrack(uuid);
  Counts& counts = track == nullptr ? WithoutTrack(packet.pid) : track->counts;
  counts.gaps += packet.loss != 0 ? 1 : 0;
  const bool is_timed = track != nullptr && track->kind == TrackKind::kThread &&
                        packet.has_timestamp;
  switch (type) {
    case track_event::kTypeSliceBegin:
      ++counts.slices;
      if (is_timed && track->open.size() < kMaxOpenSlices) {
        track->open.push_back({FindOrAddName(name), packet.timestamp});
      }
      break;
    case track_event::kTypeSliceEnd:
      if (is_timed && !track->open.empty()) {
        const OpenSlice slice = track->open.back();
        track->open.pop_back();
        const uint64_t ns =
            packet.timestamp - std::min(slice.begin_ns, packet.timestamp);
        ++slice.times->count;
        slice.times->total_ns += ns;
        slice.times->longest_ns = std::max(slice.times->longest_ns, ns);
      }
      break;
    case track_event::kTypeInstant:
      ++counts.instants;
      break;
    case track_event::kTypeCounter:
      ++counts.values;
      break;
    default:
      ++counts.other;
  }
}

void TraceSummary::AddSample(const Packet& packet) {
  int64_t pid = packet.pid;
  int64_t tid = 0;
  uint64_t lost = 0;
  std::string_view rest = packet.sample;
  Field field;
  while (ReadField(&rest, &field)) {
    if (field.number == perf_sample::kPid) {
      pid = static_cast<int32_t>(field.value);
    } else if (field.number == perf_sample::kTid) {
      tid = static_cast<int32_t>(field.value);
    } else if (field.number == perf_sample::kKernelRecordsLost) {
      lost = field.value;
    }
  }
  if (packet.loss != 0) ++WithoutTrack(pid).gaps;
  if (lost != 0) {
    samples_lost_ += lost;
    ++WithoutTrack(pid).other;
  } else if (samples_.size() < kMaxTracks || samples_.count({pid, tid}) != 0) {
    ++samples_[{pid, tid}];
  } else {
    ++WithoutTrack(pid).samples;
  }
}

void TraceSummary::AddStats(std::string_view stats) {
  has_stats_ = true;
  lost_ = Lost();
  std::vector<std::string_view> buffers;
  Field field;
  while (ReadField(&stats, &field)) {
    if (field.number == trace_stats::kBufferStats) {
      buffers.push_back(field.bytes);
    } else if (field.number == trace_stats::kInvalidPackets) {
      lost_.invalid = field.value;
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    AddBufferStats(buffers[i], i + 1 == buffers.size());
  }
}

// The last one is for descriptors, of which newer ones replace older ones as a
// matter of course; what has no buffer of its own to be counted in is there,
// too.
void TraceSummary::AddBufferStats(std::string_view stats, bool is_last) {
  Field field;
  while (ReadField(&stats, &field)) {
    if (field.number == buffer_stats::kTraceWriterPacketLoss) {
      lost_.packets += field.value;
    } else if (is_last) {
      continue;
    } else if (field.number == buffer_stats::kChunksDiscarded) {
      lost_.refused += field.value;
    } else if (field.number == buffer_stats::kChunksOverwritten) {
      lost_.overwritten_records += field.value;
    }
  }
}

TraceSummary::Track* TraceSummary::FindOrAddTrack(uint64_t uuid) {
  const auto found = track_index_.find(uuid);
  if (found != track_index_.end()) return &tracks_[found->second];
  if (tracks_.size() == kMaxTracks) return nullptr;
  track_index_[uuid] = tracks_.size();
  return &tracks_.emplace_back();
}

TraceSummary::Counts& TraceSummary::WithoutTrack(int64_t pid) {
  if (without_track_.size() == kMaxTracks && without_track_.count(pid) == 0) {
    pid = 0;
  }
  return without_track_[pid];
}

TraceSummary::SliceTimes* TraceSummary::FindOrAddName(std::string_view name) {
  std::string key(name.substr(0, kMaxNameSize));
  if (slice_times_.size() >= kMaxNames && slice_times_.count(key) == 0) {
    key = "(others)";
  }
  return &slice_times_[key];
}

int64_t TraceSummary::ProcessOf(const Track& track) const {
  const Track* at = &track;
  for (int i = 0; i < kMaxParents && at->pid == 0; ++i) {
    const auto parent = track_index_.find(at->parent);
    if (parent == track_index_.end()) break;
    at = &tracks_[parent->second];
  }
  return at->pid;
}

std::map<int64_t, TraceSummary::Process> TraceSummary::Processes() const {
  std::map<int64_t, Process> processes;
  auto samples = samples_;
  for (const Track& track : tracks_) {
    Process& process = processes[ProcessOf(track)];
    Row row;
    row.kind = track.kind;
    row.name = track.name;
    row.id = track.tid;
    row.counts = track.counts;
    if (track.kind == TrackKind::kProcess) {
      process.name = track.name;
      row.name = "(process)";
      if (row.counts.IsZero()) continue;
    } else if (track.kind == TrackKind::kThread) {
      const auto sampled = samples.find({track.pid, track.tid});
      if (sampled != samples.end()) {
        row.counts.samples = sampled->second;
        samples.erase(sampled);
      }
    }
    if (row.name.empty()) row.name = "(no name)";
    process.rows.push_back(std::move(row));
  }
  for (const auto& [thread, count] : samples) {
    Row row;
    row.kind = TrackKind::kThread;
    row.name = "(thread)";
    row.id = thread.second;
    row.counts.samples = count;
    processes[thread.first].rows.push_back(std::move(row));
  }
  for (const auto& [pid, counts] : without_track_) {
    Row row;
    row.name = "(no track)";
    row.counts = counts;
    processes[pid].rows.push_back(std::move(row));
  }
  for (auto& [pid, process] : processes) {
    for (const Row& row : process.rows) process.counts += row.counts;
    std::stable_sort(
        process.rows.begin(), process.rows.end(),
        [](const Row& a, const Row& b) { return a.kind < b.kind; });
  }
  return processes;
}

std::string TraceSummary::Describe(std::string_view path,
                                   uint64_t bytes) const {
  const std::map<int64_t, Process> processes = Processes();
  std::string text = DescribeFile(path, bytes, processes.size());
  const auto out = std::back_inserter(text);
  const auto line = [&out](std::string_view indent, std::string_view name,
                           int64_t id, const Counts& counts) {
    const size_t width = kTrackWidth - indent.size();
    fmt::format_to(out, "{}{:<{}} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
                   indent, Shown(name, width), width,
                   id == 0 ? "" : fmt::to_string(id),
                   NumberOrDash(counts.slices), NumberOrDash(counts.instants),
                   NumberOrDash(counts.values), NumberOrDash(counts.samples),
                   NumberOrDash(counts.other), NumberOrDash(counts.gaps));
  };
  if (!processes.empty()) {
    fmt::format_to(out, "\n{:<{}} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
                   "process, track", kTrackWidth, "id", "slices", "instants",
                   "values", "samples", "other", "gaps");
  }
  for (const auto& [pid, process] : processes) {
    line("", process.name.empty() ? "(no name)" : process.name, pid,
         process.counts);
    const size_t shown = std::min(process.rows.size(), kMaxRows);
    for (size_t i = 0; i < shown; ++i) {
      const Row& row = process.rows[i];
      line("  ", row.name, row.id, row.counts);
    }
    if (shown != process.rows.size()) {
      fmt::format_to(out, "  ... and {} more\n", process.rows.size() - shown);
    }
  }
  return text + DescribeSlices() + DescribeLosses();
}

std::string TraceSummary::DescribeFile(std::string_view path, uint64_t bytes,
                                       size_t programs) const {
  std::string text =
      fmt::format("{}: {}, {} packet{} of {} program{}", Printable(path),
                  ReadableBytes(static_cast<double>(bytes)), packets_,
                  packets_ == 1 ? "" : "s", programs, programs == 1 ? "" : "s");
  if (time_.has_value() && time_->second != time_->first) {
    const uint64_t ns = time_->second - time_->first;
    const double seconds = static_cast<double>(ns) / 1e9;
    fmt::format_to(std::back_inserter(text), " in {} ({}/s, {}/s)",
                   ReadableNs(ns),
                   ReadableCount(static_cast<double>(packets_) / seconds),
                   ReadableBytes(static_cast<double>(bytes) / seconds));
  }
  return text + "\n";
}

std::string TraceSummary::DescribeSlices() const {
  std::vector<std::pair<std::string, SliceTimes>> names;
  for (const auto& entry : slice_times_) {
    if (entry.second.count != 0) names.emplace_back(entry);
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    return a.second.total_ns != b.second.total_ns
               ? a.second.total_ns > b.second.total_ns
               : a.first < b.first;
  });
  std::string text =
      fmt::format("\n{:<{}} {:>8} {:>12} {:>12} {:>12}\n", "slices of threads",
                  kTrackWidth, "count", "total", "mean", "longest");
  const auto out = std::back_inserter(text);
  const size_t shown = std::min(names.size(), kMaxRows);
  for (size_t i = 0; i < shown; ++i) {
    const SliceTimes& times = names[i].second;
    fmt::format_to(out, "{:<{}} {:>8} {:>12} {:>12} {:>12}\n",
                   Shown(names[i].first, kTrackWidth), kTrackWidth, times.count,
                   ReadableNs(times.total_ns),
                   ReadableNs(times.total_ns / times.count),
                   ReadableNs(times.longest_ns));
  }
  if (shown != names.size()) {
    fmt::format_to(out, "... and {} more\n", names.size() - shown);
  }
  return text;
}

std::string TraceSummary::DescribeLosses() const {
  std::string lost;
  AppendCount(samples_lost_, "samples of the CPU profiler", &lost);
  if (has_stats_) {
    AppendCount(lost_.packets, "packets before they came to a buffer", &lost);
    AppendCount(lost_.refused, "that a full buffer refused", &lost);
    AppendCount(lost_.invalid, "that were invalid", &lost);
    AppendCount(lost_.overwritten_records,
                "records of one or more packets that a ring buffer overwrote",
                &lost);
  }
  std::string text = "\n";
  const auto out = std::back_inserter(text);
  if (!lost.empty()) fmt::format_to(out, "Lost: {}.\n", lost);
  if (gaps_ != 0) {
    fmt::format_to(out, "{} packet{} marked to come after a loss: {}.\n", gaps_,
                   gaps_ == 1 ? " is" : "s are", DescribeMarks(loss_marks_));
  }
  if (!has_stats_) {
    text +=
        "There are no statistics at the end: the file was cut off, or is still "
        "being written.\n";
  } else if (lost.empty() && gaps_ == 0) {
    text += "Nothing was lost.\n";
  }
  return text;
}

}  // namespace tracering::tools
