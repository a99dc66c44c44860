// Framing, errors and renames; see trace_file_writer.h for what a file is, and
// when.
#include "src/consumer/trace_file_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/consumer/packet_compressor.h"
#include "tracering/internal/wire_format.h"

namespace tracering::internal {
namespace {

// Bytes of whole packets in the first `size` bytes of frames that we wrote.
size_t WholePackets(const uint8_t* frames, size_t size) {
  const uint8_t* const end = frames + size;
  const uint8_t* whole = frames;
  while (whole != end) {
    const uint8_t* next = whole + 1;  // the tag
    uint64_t length = 0;
    if (!ReadVarint(&next, end, &length)) break;
    if (length > static_cast<size_t>(end - next)) break;
    whole = next + length;
  }
  return static_cast<size_t>(whole - frames);
}

SequenceStamp ServiceStamp(const TraceFileOptions& options) {
  SequenceInfo info;
  info.sequence_id = kServiceSequenceId;
  info.uid = options.service_uid;
  info.pid = options.service_pid;
  return SequenceStamp(info);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFileWriter>> TraceFileWriter::Create(
    const std::string& path, const TraceFileOptions& options) {
  auto sink = CreateFileSink(path);
  if (!sink.ok()) return sink.status();
  return std::make_unique<TraceFileWriter>(*std::move(sink), options);
}

TraceFileWriter::TraceFileWriter(std::unique_ptr<FileSink> sink,
                                 const TraceFileOptions& options)
    : options_(options),
      sink_(std::move(sink)),
      rewriter_(options.rewriter),
      service_stamp_(ServiceStamp(options)) {}

TraceFileWriter::~TraceFileWriter() {
  if (!finished_ && status_.ok()) sink_->Remove();
}

absl::Status TraceFileWriter::Begin(
    const std::vector<MetadataPacket>& descriptors,
    std::vector<uint64_t>* rejected) {
  if (!status_.ok()) return status_;
  in_head_ = true;
  AppendClocks(options_.read_clocks());
  absl::Status status = AppendMetadata(descriptors, rejected);
  in_head_ = false;
  has_packets_ = false;
  head_bytes_ = file_bytes_ + buffer_.size();
  return status;
}

absl::Status TraceFileWriter::AppendMetadata(
    const std::vector<MetadataPacket>& descriptors,
    std::vector<uint64_t>* rejected) {
  if (!status_.ok()) return status_;
  AppendClocksIfDue();
  for (const MetadataPacket& descriptor : descriptors) {
    const size_t frame = buffer_.size();
    const RewriteOutcome outcome = AppendPacket(
        reinterpret_cast<const uint8_t*>(descriptor.bytes.data()),
        descriptor.bytes.size(), SequenceStamp(descriptor.sequence), 0);
    if (outcome == RewriteOutcome::kOk) {
      ++stats_.metadata_packets;
    } else if (rejected != nullptr) {
      rejected->push_back(descriptor.generation);
    }
    if (absl::Status status = OnPacket(frame); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TraceFileWriter::Append(const RecordSlice& slice,
                                     SequenceProgress* progress,
                                     std::vector<RejectedPacket>* rejected) {
  if (!status_.ok()) return status_;
  AppendClocksIfDue();
  RecordView record;
  for (RecordSlice::Reader reader(slice); reader.Next(&record);) {
    const SequenceIndex sequence = record.header.sequence;
    SequenceProgress::Entry& entry = progress->At(sequence);
    if (entry.info.sequence_id == 0) {
      status_ = absl::InternalError(fmt::format(
          "trace file {}: sequence {} was not learnt", path(), sequence));
      return status_;
    }
    const SequenceStamp stamp(entry.info);
    LossMask loss = progress->OnRecord(record.header, &entry);
    const uint8_t* packet = record.payload;
    for (uint32_t i = 0; i < record.header.num_packets; ++i) {
      const uint32_t size = record.SizeOf(i);
      const size_t frame = buffer_.size();
      const RewriteOutcome outcome = AppendPacket(packet, size, stamp, loss);
      packet += size;
      if (outcome == RewriteOutcome::kOk) {
        ++stats_.packets;
        loss = 0;
      } else {
        loss |= MarkOf(LossCause::kRejected);
        if (rejected != nullptr) {
          rejected->push_back(
              {sequence, record.header.first_ordinal + i, outcome});
        }
      }
      if (absl::Status status = OnPacket(frame); !status.ok()) return status;
    }
    // What was lost at the end of the record precedes the next one.
    entry.pending = loss;
  }
  return absl::OkStatus();
}

void TraceFileWriter::AppendClocks(const ClockReadings& clocks) {
  last_clocks_ns_ = clocks.boottime;
  scratch_.clear();
  AppendClockSnapshot(clocks, &scratch_);
  AppendServicePacket(scratch_);
}

void TraceFileWriter::AppendClocksIfDue() {
  const ClockReadings clocks = options_.read_clocks();
  if (clocks.boottime - last_clocks_ns_ >= options_.clock_snapshot_period_ns) {
    AppendClocks(clocks);
  }
}

void TraceFileWriter::AppendServicePacket(const ByteBuffer& fields) {
  const size_t size = fields.size() + service_stamp_.size();
  uint8_t* const begin = buffer_.EnsureRoom(1 + kMaxVarintSize);
  *begin = kTracePacketTag;
  const uint8_t* const end = WriteVarint(begin + 1, size);
  buffer_.SetSize(buffer_.size() + static_cast<size_t>(end - begin));
  buffer_.Append(fields.data(), fields.size());
  buffer_.Append(service_stamp_.data(), service_stamp_.size());
  ++stats_.service_packets;
}

RewriteOutcome TraceFileWriter::AppendPacket(const uint8_t* packet, size_t size,
                                             const SequenceStamp& stamp,
                                             LossMask loss) {
  // The length comes first and is known last. It is nearly always as long as
  // that of the input, which leaves the bytes where they are.
  const size_t frame = buffer_.size();
  const size_t expected =
      1 + VarintSize(size + stamp.size() + (loss != 0 ? kMaxLossMarkSize : 0));
  buffer_.EnsureRoom(expected);
  buffer_.SetSize(frame + expected);
  const RewriteOutcome outcome = rewriter_.Rewrite(packet, size, &buffer_);
  ++stats_.by_outcome[static_cast<size_t>(outcome)];
  if (outcome != RewriteOutcome::kOk) {
    buffer_.SetSize(frame);
    return outcome;
  }
  if (loss != 0) AppendLossMark(loss, &buffer_);
  buffer_.Append(stamp.data(), stamp.size());
  const size_t body = buffer_.size() - frame - expected;
  const size_t header = 1 + VarintSize(body);
  if (header != expected) {
    buffer_.EnsureRoom(header);
    std::memmove(buffer_.data() + frame + header,
                 buffer_.data() + frame + expected, body);
    buffer_.SetSize(frame + header + body);
  }
  buffer_.data()[frame] = kTracePacketTag;
  WriteVarint(buffer_.data() + frame + 1, body);
  return outcome;
}

bool TraceFileWriter::Fits() const {
  // What is pending may get shorter, never longer.
  const uint64_t bytes =
      file_bytes_ + buffer_.size() + options_.max_stats_bytes;
  const uint64_t limit = options_.max_file_bytes;
  return limit == 0 || bytes <= limit || bytes <= head_bytes_ + limit / 2;
}

absl::Status TraceFileWriter::OnPacket(size_t frame) {
  const bool appended = buffer_.size() != frame && !in_head_;
  if (appended && !Fits()) {
    if (absl::Status status = MakeRoom(frame); !status.ok()) return status;
  }
  has_packets_ |= appended;
  return buffer_.size() < options_.buffer_size ? absl::OkStatus() : Flush();
}

absl::Status TraceFileWriter::MakeRoom(size_t frame) {
  ByteBuffer last;
  last.Append(buffer_.data() + frame, buffer_.size() - frame);
  buffer_.SetSize(frame);
  // Compression may be enough.
  if (absl::Status status = Flush(); !status.ok()) return status;
  buffer_.Append(last.data(), last.size());
  if (Fits() || !has_packets_) return absl::OkStatus();
  buffer_.clear();
  absl::Status status = on_full_();
  if (status_.ok()) status_ = std::move(status);
  if (!status_.ok()) return status_;
  buffer_.Append(last.data(), last.size());
  return absl::OkStatus();
}

absl::Status TraceFileWriter::Flush() {
  if (!status_.ok()) return status_;
  const ByteBuffer* out = &buffer_;
  compressed_.clear();
  if (options_.compress &&
      CompressPackets(buffer_.data(), buffer_.size(), &compressed_)) {
    out = &compressed_;
  }
  size_t taken = 0;
  while (taken != out->size()) {
    const ssize_t written =
        sink_->Write(out->data() + taken, out->size() - taken);
    if (written == -EINTR) continue;
    // No progress without an error would go on for ever.
    if (written <= 0) {
      return Fail("write", written == 0 ? EIO : static_cast<int>(-written),
                  WholePackets(out->data(), taken));
    }
    taken += static_cast<size_t>(written);
  }
  file_bytes_ += taken;
  stats_.bytes += taken;
  // One large packet does not keep its memory.
  buffer_.clear();
  if (buffer_.capacity() > 2 * options_.buffer_size) buffer_.Free();
  if (compressed_.capacity() > 2 * options_.buffer_size) compressed_.Free();
  return absl::OkStatus();
}

absl::Status TraceFileWriter::Publish() {
  if (absl::Status status = Flush(); !status.ok()) return status;
  const int error = sink_->Publish();
  return error != 0 ? Fail("rename", error) : absl::OkStatus();
}

absl::Status TraceFileWriter::EndFile(const TraceStatsValues& stats) {
  if (!status_.ok()) return status_;
  scratch_.clear();
  AppendTraceStats(stats, &scratch_);
  AppendServicePacket(scratch_);
  return Flush();
}

void TraceFileWriter::StartFile(std::unique_ptr<FileSink> sink) {
  sink_ = std::move(sink);
  file_bytes_ = 0;
  ++stats_.files;
}

absl::Status TraceFileWriter::Finish(const TraceStatsValues& stats) {
  if (absl::Status status = EndFile(stats); !status.ok()) return status;
  if (options_.sync_on_finish) {
    int error = 0;
    do {
      error = sink_->Sync();
    } while (error == EINTR);
    if (error != 0) return Fail("sync", error);
  }
  finished_ = true;
  return Publish();
}

absl::Status TraceFileWriter::Fail(std::string_view action, int error,
                                   size_t whole) {
  file_bytes_ += whole;
  stats_.bytes += whole;
  std::string kept;
  if (const int cut = sink_->Truncate(file_bytes_); cut != 0) {
    kept = fmt::format(
        "its first {} bytes are whole packets; what follows them could not be "
        "cut off: {}",
        file_bytes_, std::strerror(cut));
  } else if (file_bytes_ == 0) {
    sink_->Remove();
    kept = "nothing was kept";
  } else {
    kept = fmt::format("{} bytes of whole packets were kept", file_bytes_);
  }
  buffer_.Free();
  status_ =
      absl::ErrnoToStatus(error, fmt::format("trace file {}: cannot {} ({})",
                                             sink_->path(), action, kept));
  return status_;
}

}  // namespace tracering::internal
