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
  RewriterOptions rewriter;
};

// A packet that was left out because it is not valid.
struct RejectedPacket {
  SequenceIndex sequence = 0;
  uint64_t ordinal = 0;
  RewriteOutcome reason = RewriteOutcome::kOk;
};

struct TraceFileStats {
  uint64_t bytes = 0;             // of whole packets that reached the file
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

  // Writes the head. Call it first. `rejected`, here and below, may be null; it
  // receives what was left out (descriptors by their generation).
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

  // Appends the stats, flushes, syncs, and publishes if that was not done. Call
  // it last.
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
  absl::Status FlushIfFull();
  // Latches an error of the sink after it took `taken` bytes of the buffer.
  absl::Status Fail(std::string_view action, int error, size_t taken = 0);

  const TraceFileOptions options_;
  const std::unique_ptr<FileSink> sink_;
  Rewriter rewriter_;
  const SequenceStamp service_stamp_;
  // Whole packets that are not written yet, and the one being made.
  ByteBuffer buffer_;
  ByteBuffer scratch_;
  uint64_t last_clocks_ns_ = 0;  // boottime
  bool finished_ = false;
  absl::Status status_;
  TraceFileStats stats_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_TRACE_FILE_WRITER_H_
