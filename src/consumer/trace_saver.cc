// See trace_saver.h for what runs under the loop mutex.
#include "src/consumer/trace_saver.h"

#include <algorithm>
#include <utility>

#include "src/consumer/file_series.h"

namespace tracering::internal {
namespace {

// What is copied under the mutex at a time.
constexpr size_t kSliceBytes = size_t{1} << 20;

void SetStreaming(const TraceSource& source, bool streaming) {
  std::lock_guard<LoopMutex> guard(*source.mutex);
  source.buffers->SetStreaming(streaming);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSaver>> TraceSaver::Begin(
    const TraceSource& source, const std::string& path, Mode mode,
    uint32_t max_files) {
  TraceFileOptions options = source.file_options;
  options.max_stats_bytes = MaxTraceStatsSize(source.buffers->size() + 1);
  absl::StatusOr<std::unique_ptr<TraceFileWriter>> writer =
      TraceFileWriter::Create(path, options);
  if (!writer.ok()) return writer.status();
  std::unique_ptr<TraceSaver> saver(
      new TraceSaver(source, path, mode, max_files, *std::move(writer)));
  if (absl::Status status = saver->WriteHead(); !status.ok()) return status;
  return saver;
}

TraceSaver::TraceSaver(const TraceSource& source, std::string path, Mode mode,
                       uint32_t max_files,
                       std::unique_ptr<TraceFileWriter> writer)
    : source_(source),
      path_(std::move(path)),
      mode_(mode),
      max_files_(max_files),
      writer_(std::move(writer)) {
  writer_->set_on_full([this] { return NextFile(); });
}

absl::Status TraceSaver::WriteHead() {
  std::vector<MetadataPacket> descriptors;
  {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    metadata_generation_ = source_.buffers->metadata().CopySince(
        metadata_generation_, &descriptors);
    for (uint32_t target = 0; target < source_.buffers->size(); ++target) {
      const TargetBuffer& buffer = source_.buffers->buffer(target);
      cursors_.push_back(mode_ == Mode::kStream ? buffer.BeginStream()
                                                : buffer.BeginSnapshot());
    }
    if (mode_ == Mode::kSnapshot) TakeTotals();
  }
  if (absl::Status status = WriteDescriptors(descriptors, true); !status.ok()) {
    return status;
  }
  if (mode_ == Mode::kSnapshot) return absl::OkStatus();
  // What an earlier stream left under this name is not written over.
  if (source_.file_options.max_file_bytes != 0) {
    if (absl::Status status = ShiftFiles(path_, max_files_); !status.ok()) {
      return status;
    }
  }
  return writer_->Publish();
}

absl::Status TraceSaver::NextFile() {
  absl::StatusOr<std::unique_ptr<FileSink>> sink = CreateFileSink(path_);
  if (!sink.ok()) return sink.status();
  TraceStatsValues stats;
  std::vector<MetadataPacket> descriptors;
  {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    stats = MakeStats();
    stats.invalid_packets += PacketsRejected();
    metadata_generation_ =
        source_.buffers->metadata().CopySince(0, &descriptors);
  }
  absl::Status status = writer_->EndFile(stats);
  if (status.ok()) status = ShiftFiles(path_, max_files_);
  if (!status.ok()) {
    (*sink)->Remove();
    return status;
  }
  writer_->StartFile(*std::move(sink));
  status = WriteDescriptors(descriptors, true);
  return status.ok() ? writer_->Publish() : status;
}

uint64_t TraceSaver::PacketsRejected() const {
  uint64_t packets = 0;
  for (uint32_t target = 0; target < source_.buffers->size(); ++target) {
    packets += source_.buffers->buffer(target).stats().packets_rejected;
  }
  return packets;
}

void TraceSaver::TakeTotals() {
  totals_ = source_.registry->Totals().packets;
  stats_ = MakeStats();
}

absl::Status TraceSaver::WriteDescriptors(
    const std::vector<MetadataPacket>& descriptors, bool head) {
  std::vector<uint64_t> rejected;
  absl::Status status = head ? writer_->Begin(descriptors, &rejected)
                             : writer_->AppendMetadata(descriptors, &rejected);
  if (!rejected.empty()) {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    source_.buffers->metadata().Reject(rejected);
  }
  return status;
}

absl::Status TraceSaver::WriteSlice(uint32_t target, const RecordSlice& slice) {
  std::vector<RejectedPacket> rejected;
  absl::Status status = writer_->Append(slice, &progress_, &rejected);
  rejected_ += rejected.size();
  if (!rejected.empty()) {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    TargetBuffer& buffer = source_.buffers->buffer(target);
    for (const RejectedPacket& packet : rejected) {
      buffer.CountRejected(packet.sequence, packet.ordinal);
    }
  }
  return status;
}

// A slice of each buffer in turn, so that a busy one does not let another one
// overflow.
absl::Status TraceSaver::WritePackets() {
  RecordSlice slice;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t target = 0; target < cursors_.size(); ++target) {
      {
        std::lock_guard<LoopMutex> guard(*source_.mutex);
        if (!source_.buffers->buffer(target).CopyRecords(&cursors_[target],
                                                         kSliceBytes, &slice)) {
          continue;
        }
        progress_.Learn(slice, source_.buffers->sequences());
      }
      more = true;
      if (absl::Status status = WriteSlice(target, slice); !status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

// A round has an end, or one beside a producer that never rests would go on
// for ever.
void TraceSaver::LimitRound() {
  for (uint32_t target = 0; target < cursors_.size(); ++target) {
    source_.buffers->buffer(target).LimitToPresent(&cursors_[target]);
  }
}

absl::Status TraceSaver::Pump() {
  {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    LimitRound();
  }
  return WriteRound();
}

absl::Status TraceSaver::WriteRound() {
  std::vector<MetadataPacket> descriptors;
  {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    for (const SequenceIndex sequence : source_.buffers->BeginStreamRound()) {
      progress_.Forget(sequence);
    }
    metadata_generation_ = source_.buffers->metadata().CopySince(
        metadata_generation_, &descriptors);
  }
  if (absl::Status status = WriteDescriptors(descriptors, false);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = WritePackets(); !status.ok()) return status;
  return writer_->Flush();
}

absl::StatusOr<TraceFileInfo> TraceSaver::Finish() {
  if (mode_ == Mode::kStream) {
    // Totals and the end of the last round belong together.
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    LimitRound();
    TakeTotals();
  }
  if (absl::Status status =
          mode_ == Mode::kStream ? WriteRound() : WritePackets();
      !status.ok()) {
    return status;
  }

  TraceFileInfo info;
  info.packets = writer_->stats().packets;
  info.metadata_packets = writer_->stats().metadata_packets;
  info.lost = totals_.lost;
  info.lost[LossCause::kRejected] += rejected_;
  uint64_t overwritten = 0;
  {
    std::lock_guard<LoopMutex> guard(*source_.mutex);
    for (uint32_t target = 0; target < cursors_.size(); ++target) {
      overwritten +=
          source_.buffers->buffer(target).stats().packets_overwritten;
    }
    stats_.invalid_packets += PacketsRejected();
  }
  // Every packet that reached a buffer is in the file, was found invalid, was
  // overwritten, or had been moved to an earlier stream's file.
  const uint64_t missing = totals_.delivered - info.packets - rejected_;
  info.lost[LossCause::kOverwritten] += std::min(missing, overwritten);
  info.streamed_before = missing - std::min(missing, overwritten);

  if (absl::Status status = writer_->Finish(stats_); !status.ok()) {
    return status;
  }
  info.path = writer_->path();
  info.files = writer_->stats().files;
  info.bytes = writer_->stats().bytes;
  return info;
}

TraceStatsValues TraceSaver::MakeStats() const {
  TraceStatsValues values;
  BufferSet& buffers = *source_.buffers;
  const std::vector<SessionRegistry::TargetLosses> losses =
      source_.registry->LossesByTarget();
  for (uint32_t target = 0; target < buffers.size(); ++target) {
    const TargetBuffer& buffer = buffers.buffer(target);
    const TargetBufferStats& counts = buffer.stats();
    BufferStatsValues out;
    out.buffer_size = buffer.capacity();
    out.bytes_written = counts.bytes_stored;
    out.bytes_overwritten = counts.bytes_overwritten;
    out.bytes_read = counts.bytes_read;
    out.chunks_written = counts.records_stored;
    out.chunks_overwritten = counts.records_overwritten;
    out.chunks_read = counts.records_read;
    out.chunks_discarded = counts.packets_refused + counts.packets_too_large;
    out.write_wrap_count = counts.wraps;
    out.abi_violations = losses[target].chunks;
    out.trace_writer_packet_loss = losses[target].packets;
    values.buffers.push_back(out);
  }
  MetadataBuffer& metadata = buffers.metadata();
  BufferStatsValues out;
  out.buffer_size = metadata.size();
  out.chunks_written = metadata.stats().packets_stored;
  out.chunks_overwritten =
      metadata.stats().packets_evicted + metadata.stats().packets_displaced;
  out.chunks_discarded = metadata.stats().packets_refused;
  out.abi_violations = losses[buffers.metadata_target()].chunks;
  out.trace_writer_packet_loss = losses[buffers.metadata_target()].packets;
  values.buffers.push_back(out);
  for (const SessionRegistry::TargetLosses& loss : losses) {
    values.chunks_discarded += loss.chunks;
  }
  values.producers_connected =
      static_cast<uint32_t>(source_.registry->producers_connected());
  values.producers_seen = source_.registry->producers_seen();
  values.invalid_packets = metadata.stats().packets_rejected;
  values.flushes_requested = source_.flushes->requested;
  values.flushes_succeeded = source_.flushes->succeeded;
  values.flushes_failed = source_.flushes->failed;
  values.final_flush = source_.flushes->last;
  return values;
}

absl::StatusOr<TraceFileInfo> WriteSnapshot(const TraceSource& source,
                                            const std::string& path) {
  absl::StatusOr<std::unique_ptr<TraceSaver>> saver =
      TraceSaver::Begin(source, path, TraceSaver::Mode::kSnapshot);
  if (!saver.ok()) return saver.status();
  return (*saver)->Finish();
}

absl::StatusOr<std::unique_ptr<TraceStream>> TraceStream::Start(
    const TraceSource& source, const std::string& path,
    std::chrono::milliseconds period, uint32_t max_files) {
  SetStreaming(source, true);
  absl::StatusOr<std::unique_ptr<TraceSaver>> saver =
      TraceSaver::Begin(source, path, TraceSaver::Mode::kStream, max_files);
  if (!saver.ok()) {
    SetStreaming(source, false);
    return saver.status();
  }
  std::unique_ptr<TraceStream> stream(
      new TraceStream(source, *std::move(saver), period));
  absl::StatusOr<os::BackgroundThread> thread = os::BackgroundThread::Start(
      "tracering-save", [raw = stream.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  stream->thread_ = *std::move(thread);
  return stream;
}

TraceStream::TraceStream(const TraceSource& source,
                         std::unique_ptr<TraceSaver> saver,
                         std::chrono::milliseconds period)
    : source_(source), saver_(std::move(saver)), period_(period) {}

TraceStream::~TraceStream() {
  if (!finished_) Finish().status().IgnoreError();
}

void TraceStream::WakeUp() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    awake_ = true;
  }
  changed_.notify_one();
}

absl::Status TraceStream::status() {
  std::lock_guard<std::mutex> guard(mutex_);
  return status_;
}

void TraceStream::Run() {
  std::unique_lock<std::mutex> guard(mutex_);
  while (status_.ok()) {
    changed_.wait_for(guard, period_, [this] { return awake_ || stopping_; });
    if (stopping_) return;
    awake_ = false;
    guard.unlock();
    absl::Status status = saver_->Pump();
    guard.lock();
    status_ = std::move(status);
  }
}

absl::StatusOr<TraceFileInfo> TraceStream::Finish() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.Join();
  finished_ = true;
  absl::StatusOr<TraceFileInfo> info =
      status_.ok() ? saver_->Finish() : absl::StatusOr<TraceFileInfo>(status_);
  SetStreaming(source_, false);
  return info;
}

}  // namespace tracering::internal
