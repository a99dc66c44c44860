// From the buffers to files: a snapshot that consumes nothing, and a stream
// that moves packets out while recording goes on.
//
// Packets are copied out of the buffers in slices of at most a megabyte under
// the loop mutex; rewriting and writing happen outside of it. A disk that
// stalls holds up its file and nothing else. A file of a snapshot may lack what
// was overwritten while it was written: it says so, as for any other packet
// that is missing.
#ifndef TRACERING_SRC_CONSUMER_TRACE_SAVER_H_
#define TRACERING_SRC_CONSUMER_TRACE_SAVER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/os/background_thread.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/loop_mutex.h"
#include "src/consumer/session_registry.h"
#include "src/consumer/trace_file_writer.h"
#include "tracering/consumer_stats.h"

namespace tracering::internal {

// Flushes so far, for the trace stats of a file.
struct FlushCounts {
  uint64_t requested = 0;
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  TraceStatsValues::FinalFlush last =
      TraceStatsValues::FinalFlush::kUnspecified;
};

// What is saved. All outlive whoever saves.
struct TraceSource {
  LoopMutex* mutex = nullptr;
  BufferSet* buffers = nullptr;
  SessionRegistry* registry = nullptr;
  const FlushCounts* flushes = nullptr;  // under the mutex
  TraceFileOptions file_options;
};

// A file, or the files of a stream, in the making. One thread at a time.
class TraceSaver {
 public:
  enum class Mode { kSnapshot, kStream };

  // Creates the file and writes its head. A stream has its name from now on;
  // of one with a limit (source.file_options.max_file_bytes) `max_files` are
  // kept, see file_series.h.
  static absl::StatusOr<std::unique_ptr<TraceSaver>> Begin(
      const TraceSource& source, const std::string& path, Mode mode,
      uint32_t max_files = 1);

  TraceSaver(const TraceSaver&) = delete;
  TraceSaver& operator=(const TraceSaver&) = delete;

  // Writes what a stream has to take by now, and nothing that comes meanwhile.
  absl::Status Pump();

  // Writes the rest, as of now, and the trace stats, and closes the file.
  absl::StatusOr<TraceFileInfo> Finish();

 private:
  TraceSaver(const TraceSource& source, std::string path, Mode mode,
             uint32_t max_files, std::unique_ptr<TraceFileWriter> writer);

  absl::Status WriteHead();
  // Ends the file of a stream and begins the next one.
  absl::Status NextFile();
  // Fixes what belongs to the file, and how much that is.
  void TakeTotals();
  // Under the mutex.
  void LimitRound();
  absl::Status WriteRound();
  absl::Status WritePackets();
  absl::Status WriteDescriptors(const std::vector<MetadataPacket>& descriptors,
                                bool head);
  absl::Status WriteSlice(uint32_t target, const RecordSlice& slice);
  TraceStatsValues MakeStats() const;
  // Of all buffers. Under the mutex.
  uint64_t PacketsRejected() const;

  const TraceSource source_;
  const std::string path_;
  const Mode mode_;
  const uint32_t max_files_;
  const std::unique_ptr<TraceFileWriter> writer_;

  std::vector<ReadCursor> cursors_;  // one per target buffer
  SequenceProgress progress_;
  uint64_t metadata_generation_ = 0;
  uint64_t rejected_ = 0;

  PacketCounts totals_;
  TraceStatsValues stats_;
};

// Saves the buffers to `path` and consumes nothing.
absl::StatusOr<TraceFileInfo> WriteSnapshot(const TraceSource& source,
                                            const std::string& path);

// A stream with a thread of its own, from construction to Finish().
class TraceStream {
 public:
  static absl::StatusOr<std::unique_ptr<TraceStream>> Start(
      const TraceSource& source, const std::string& path,
      std::chrono::milliseconds period, uint32_t max_files = 1);

  // Finishes, and forgets the outcome.
  ~TraceStream();
  TraceStream(const TraceStream&) = delete;
  TraceStream& operator=(const TraceStream&) = delete;

  // Makes it take what there is without waiting for its period. Thread-safe.
  void WakeUp();

  // The first error since Start. Thread-safe.
  absl::Status status();

  // Writes the rest and ends. The first error since Start, if any. Once.
  absl::StatusOr<TraceFileInfo> Finish();

 private:
  TraceStream(const TraceSource& source, std::unique_ptr<TraceSaver> saver,
              std::chrono::milliseconds period);

  void Run();

  const TraceSource source_;
  const std::unique_ptr<TraceSaver> saver_;  // of the thread while it runs
  const std::chrono::milliseconds period_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool awake_ = false;
  bool stopping_ = false;
  absl::Status status_;

  bool finished_ = false;
  os::BackgroundThread thread_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_TRACE_SAVER_H_
