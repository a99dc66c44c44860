// What is in a trace file, as a table: who traced what, how often and how
// fast, and what is missing.
//
// Fed with one packet after the other, in the order of the file. Trust: packets
// may hold anything; tracks, names and nesting are bounded, what is beyond is
// counted in their sums only. One thread.
#ifndef TRACERING_TOOLS_TRACE_SUMMARY_H_
#define TRACERING_TOOLS_TRACE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tracering::tools {

class TraceSummary {
 public:
  void Add(std::string_view packet);

  // Tables and sentences, ended by a line feed. `bytes`: of the file.
  std::string Describe(std::string_view path, uint64_t bytes) const;

 private:
  // What one track, or one process, wrote.
  struct Counts {
    uint64_t slices = 0;
    uint64_t instants = 0;
    uint64_t values = 0;  // of counters
    uint64_t samples = 0;
    uint64_t other = 0;  // packets
    uint64_t gaps = 0;   // packets that are marked to come after a loss

    bool IsZero() const;
    Counts& operator+=(const Counts& more);
  };

  // Of all slices of one name.
  struct SliceTimes {
    uint64_t count = 0;
    uint64_t total_ns = 0;
    uint64_t longest_ns = 0;
  };

  struct OpenSlice {
    SliceTimes* times;  // in slice_times_
    uint64_t begin_ns;
  };

  // In the order in which they are listed.
  enum class TrackKind { kProcess, kThread, kCounter, kOther, kUnknown };

  struct Track {
    TrackKind kind = TrackKind::kUnknown;
    uint64_t parent = 0;
    int64_t pid = 0;
    int64_t tid = 0;
    std::string name;
    Counts counts;
    // Of threads only: the events of other tracks come from several of them,
    // and so in any order.
    std::vector<OpenSlice> open;
  };

  // The fields of a packet that count here.
  struct Packet;

  // A line of the table.
  struct Row {
    TrackKind kind = TrackKind::kUnknown;
    std::string name;
    int64_t id = 0;
    Counts counts;
  };
  struct Process {
    std::string name;
    Counts counts;
    std::vector<Row> rows;
  };

  static Packet Parse(std::string_view packet);
  void AddDescriptor(std::string_view descriptor);
  void AddEvent(const Packet& packet);
  void AddSample(const Packet& packet);
  void AddStats(std::string_view stats);
  void AddBufferStats(std::string_view stats, bool is_last);
  // Null beyond the limit.
  Track* FindOrAddTrack(uint64_t uuid);
  SliceTimes* FindOrAddName(std::string_view name);
  // For what a process has written to no track.
  Counts& WithoutTrack(int64_t pid);
  int64_t ProcessOf(const Track& track) const;
  std::map<int64_t, Process> Processes() const;
  std::string DescribeFile(std::string_view path, uint64_t bytes,
                           size_t programs) const;
  std::string DescribeSlices() const;
  std::string DescribeLosses() const;

  uint64_t packets_ = 0;  // of programs, descriptors left out
  std::optional<std::pair<uint64_t, uint64_t>> time_;  // first and last
  std::vector<Track> tracks_;
  std::unordered_map<uint64_t, size_t> track_index_;         // by uuid
  std::map<int64_t, Counts> without_track_;                  // by pid
  std::map<std::pair<int64_t, int64_t>, uint64_t> samples_;  // by pid and tid
  std::unordered_map<std::string, SliceTimes> slice_times_;

  uint64_t gaps_ = 0;
  uint32_t loss_marks_ = 0;  // bits of previous_packet_dropped
  uint64_t samples_lost_ = 0;
  // By the last statistics in the file, if there are any.
  struct Lost {
    uint64_t packets = 0;  // before they came to a buffer
    uint64_t refused = 0;
    uint64_t overwritten_records = 0;
    uint64_t invalid = 0;
  };
  bool has_stats_ = false;
  Lost lost_;
};

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_TRACE_SUMMARY_H_
