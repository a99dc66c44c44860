// Writes a trace file: rewrites packets to canonical protobuf, stamps what only
// the service may say about them, and keeps the file a sequence of whole
// packets whatever happens to the disk.
//
//   file   := head { packets | clock snapshot | descriptors } [ trace stats ]
//   head   := clock snapshot, descriptors
//   packet := 0x0a, length as a varint, TracePacket
//
// The file has a temporary name until Publish() or Finish(). A snapshot is
// published by Finish(), so that nobody ever sees half of it; a stream calls
// Publish() after its head, so that it can be found, also after a crash, while
// it grows. Finish() syncs before it renames, unless told otherwise: a name
// never stands for less than the whole file, even after a power cut. The
// directory is not synced. Streams are not synced in between.
//
// With a limit the writer ends a file before it exceeds it and asks for the
// next one, which has a head of its own; see set_on_full. Compressed, what is
// flushed at once is one packet.
//
// After an error the file ends with the last whole packet that reached it, it
// keeps its name, which the status gives, and every later call returns that
// status. Memory is bounded by the buffer plus one packet.
//
// One thread at a time; never the draining one, since writing may block.
#ifndef TRACERING_SRC_CONSUMER_TRACE_FILE_WRITER_H_
#define TRACERING_SRC_CONSUMER_TRACE_FILE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/consumer/byte_buffer.h"
#include "src/consumer/file_sink.h"
#include "src/consumer/metadata_buffer.h"
#include "src/consumer/record_slice.h"
#include "src/consumer/rewriter.h"
#include "src/consumer/sequence_progress.h"
#include "src/consumer/trace_packets.h"

namespace tracering::internal {

struct TraceFileOptions {
  // Bytes that are collected before they are written.
  size_t buffer_size = 256 * 1024;
  // By boottime, checked whenever something is appended.
  uint64_t clock_snapshot_period_ns = uint64_t{10} * 1'000'000'000;
  std::function<ClockReadings()> read_clocks = ReadClocks;
  // Of this process: who wrote clock snapshots and trace stats.
  int32_t service_uid = 0;
  int32_t service_pid = 0;
  bool sync_on_finish = true;
  // Only where CanCompressPackets(), else without effect.
  bool compress = false;
  // Of one file; 0 for no limit. Exceeded for a head of more than half of it,
  // and for a packet that is larger: behind its head each file has room for
  // half the limit, or for one packet.
  uint64_t max_file_bytes = 0;
  // Of that, what is kept free for the trace stats.
  size_t max_stats_bytes = 0;
  RewriterOptions rewriter;
};

// A packet that was left out because it is not valid.
struct RejectedPacket {
  SequenceIndex sequence = 0;
  uint64_t ordinal = 0;
  RewriteOutcome reason = RewriteOutcome::kOk;
};

// Of all files that one writer wrote.
struct TraceFileStats {
  uint64_t files = 1;
  uint64_t bytes = 0;             // of whole packets that reached a file
  uint64_t packets = 0;           // of producers, descriptors left out
  uint64_t metadata_packets = 0;  // descriptors
  uint64_t service_packets = 0;   // clock snapshots, trace stats
  // Packets that were rewritten or rejected, by RewriteOutcome.
  std::array<uint64_t, kNumRewriteOutcomes> by_outcome{};
};

class TraceFileWriter {
 public:
  // Creates the temporary file for `path`.
  static absl::StatusOr<std::unique_ptr<TraceFileWriter>> Create(
      const std::string& path, const TraceFileOptions& options);

  TraceFileWriter(std::unique_ptr<FileSink> sink,
                  const TraceFileOptions& options);
  // Without Finish() or an error before it, an unpublished file is removed.
  ~TraceFileWriter();
  TraceFileWriter(const TraceFileWriter&) = delete;
  TraceFileWriter& operator=(const TraceFileWriter&) = delete;

  // Called when the file can take no more: has to call EndFile, StartFile and
  // Begin. Needed with a limit.
  void set_on_full(std::function<absl::Status()> on_full) {
    on_full_ = std::move(on_full);
  }

  // Writes the head. Call it first in each file. `rejected`, here and below,
  // may be null; it receives what was left out (descriptors by their
  // generation).
  absl::Status Begin(const std::vector<MetadataPacket>& descriptors,
                     std::vector<uint64_t>* rejected);

  // Appends descriptors that came since.
  absl::Status AppendMetadata(const std::vector<MetadataPacket>& descriptors,
                              std::vector<uint64_t>* rejected);

  // Appends the packets of `slice`, whose sequences `progress` has learnt.
  absl::Status Append(const RecordSlice& slice, SequenceProgress* progress,
                      std::vector<RejectedPacket>* rejected);

  // Hands everything to the kernel: the file ends with a whole packet.
  absl::Status Flush();

  // Flushes and gives the file its final name now.
  absl::Status Publish();

  // Appends the stats and flushes: the file is complete, under the name that it
  // has.
  absl::Status EndFile(const TraceStatsValues& stats);

  // What follows goes to `sink`. After EndFile.
  void StartFile(std::unique_ptr<FileSink> sink);

  // EndFile, then syncs, and publishes if that was not done. Call it last.
  absl::Status Finish(const TraceStatsValues& stats);

  // The first error, or OK.
  const absl::Status& status() const { return status_; }
  // The name that the file has now.
  const std::string& path() const { return sink_->path(); }
  const TraceFileStats& stats() const { return stats_; }

 private:
  void AppendServicePacket(const ByteBuffer& fields);
  void AppendClocks(const ClockReadings& clocks);
  void AppendClocksIfDue();
  // Frames, rewrites and stamps one packet into the buffer.
  RewriteOutcome AppendPacket(const uint8_t* packet, size_t size,
                              const SequenceStamp& stamp, LossMask loss);
  // To be called with a packet, or none, behind the first `frame` bytes of the
  // buffer: keeps the limits of the buffer and of the file.
  absl::Status OnPacket(size_t frame);
  bool Fits() const;
  // Writes what precedes that packet, and ends the file if that is not enough.
  absl::Status MakeRoom(size_t frame);
  // Latches an error of the sink after it took `whole` bytes of whole packets.
  absl::Status Fail(std::string_view action, int error, size_t whole = 0);

  const TraceFileOptions options_;
  std::function<absl::Status()> on_full_;
  std::unique_ptr<FileSink> sink_;
  Rewriter rewriter_;
  const SequenceStamp service_stamp_;
  // Whole packets that are not written yet, and the one being made.
  ByteBuffer buffer_;
  ByteBuffer scratch_;
  ByteBuffer compressed_;
  uint64_t last_clocks_ns_ = 0;  // boottime

  // Of the present file.
  uint64_t file_bytes_ = 0;  // that reached it
  uint64_t head_bytes_ = 0;
  bool in_head_ = false;
  bool has_packets_ = false;  // besides the head

  bool finished_ = false;
  absl::Status status_;
  TraceFileStats stats_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_TRACE_FILE_WRITER_H_
