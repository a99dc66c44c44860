// Inner messages first, then what is around them; see trace_packets.h.
#include "src/consumer/trace_packets.h"

#include <time.h>

#include "src/common/os/clock.h"
#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

uint8_t* WriteVarintField(uint8_t* out, uint32_t field, uint64_t value) {
  return WriteVarint(WriteVarint(out, MakeTag(field, WireType::kVarint)),
                     value);
}

void AppendVarintField(uint32_t field, uint64_t value, ByteBuffer* out) {
  uint8_t* const begin = out->EnsureRoom(kMaxTagSize + kMaxVarintSize);
  const uint8_t* const end = WriteVarintField(begin, field, value);
  out->SetSize(out->size() + static_cast<size_t>(end - begin));
}

void AppendMessage(uint32_t field, const ByteBuffer& message, ByteBuffer* out) {
  uint8_t* const begin = out->EnsureRoom(kMaxTagSize + kMaxVarintSize);
  const uint8_t* const end = WriteVarint(
      WriteVarint(begin, MakeTag(field, WireType::kLengthDelimited)),
      message.size());
  out->SetSize(out->size() + static_cast<size_t>(end - begin));
  out->Append(message.data(), message.size());
}

// int32 fields are sign-extended on the wire.
constexpr uint64_t Int32Value(int32_t value) {
  return static_cast<uint64_t>(int64_t{value});
}

void AppendClock(uint64_t id, uint64_t timestamp, ByteBuffer* snapshot) {
  ByteBuffer clock;
  AppendVarintField(clock::kClockId, id, &clock);
  AppendVarintField(clock::kTimestamp, timestamp, &clock);
  AppendMessage(clock_snapshot::kClocks, clock, snapshot);
}

void AppendBufferStats(const BufferStatsValues& values, ByteBuffer* stats) {
  ByteBuffer out;
  AppendVarintField(buffer_stats::kBytesWritten, values.bytes_written, &out);
  AppendVarintField(buffer_stats::kChunksWritten, values.chunks_written, &out);
  AppendVarintField(buffer_stats::kChunksOverwritten, values.chunks_overwritten,
                    &out);
  AppendVarintField(buffer_stats::kWriteWrapCount, values.write_wrap_count,
                    &out);
  AppendVarintField(buffer_stats::kAbiViolations, values.abi_violations, &out);
  AppendVarintField(buffer_stats::kBufferSize, values.buffer_size, &out);
  AppendVarintField(buffer_stats::kBytesOverwritten, values.bytes_overwritten,
                    &out);
  AppendVarintField(buffer_stats::kBytesRead, values.bytes_read, &out);
  AppendVarintField(buffer_stats::kChunksRead, values.chunks_read, &out);
  AppendVarintField(buffer_stats::kChunksDiscarded, values.chunks_discarded,
                    &out);
  AppendVarintField(buffer_stats::kTraceWriterPacketLoss,
                    values.trace_writer_packet_loss, &out);
  AppendMessage(trace_stats::kBufferStats, out, stats);
}

}  // namespace

ClockReadings ReadClocks() {
  ClockReadings clocks;
  clocks.boottime = static_cast<uint64_t>(os::NowNs(CLOCK_BOOTTIME));
  clocks.realtime = static_cast<uint64_t>(os::NowNs(CLOCK_REALTIME));
  clocks.monotonic = static_cast<uint64_t>(os::NowNs(CLOCK_MONOTONIC));
  clocks.monotonic_raw = static_cast<uint64_t>(os::NowNs(CLOCK_MONOTONIC_RAW));
  return clocks;
}

SequenceStamp::SequenceStamp(const SequenceInfo& info) {
  uint8_t* out = WriteVarintField(bytes_.data(), trace_packet::kTrustedUid,
                                  Int32Value(info.uid));
  out = WriteVarintField(out, trace_packet::kTrustedPacketSequenceId,
                         info.sequence_id);
  if (info.pid > 0) {
    out =
        WriteVarintField(out, trace_packet::kTrustedPid, Int32Value(info.pid));
  }
  size_ = static_cast<uint8_t>(out - bytes_.data());
}

void AppendLossMark(LossMask loss, ByteBuffer* packet) {
  AppendVarintField(trace_packet::kPreviousPacketDropped,
                    PerfettoDataLoss(loss), packet);
}

void AppendClockSnapshot(const ClockReadings& clocks, ByteBuffer* packet) {
  ByteBuffer snapshot;
  AppendClock(clock::kBoottime, clocks.boottime, &snapshot);
  AppendClock(clock::kRealtime, clocks.realtime, &snapshot);
  AppendClock(clock::kMonotonic, clocks.monotonic, &snapshot);
  AppendClock(clock::kMonotonicRaw, clocks.monotonic_raw, &snapshot);
  AppendVarintField(clock_snapshot::kPrimaryTraceClock, clock::kBoottime,
                    &snapshot);
  AppendMessage(trace_packet::kClockSnapshot, snapshot, packet);
}

void AppendTraceStats(const TraceStatsValues& values, ByteBuffer* packet) {
  ByteBuffer stats;
  for (const BufferStatsValues& buffer : values.buffers) {
    AppendBufferStats(buffer, &stats);
  }
  AppendVarintField(trace_stats::kProducersConnected,
                    values.producers_connected, &stats);
  AppendVarintField(trace_stats::kProducersSeen, values.producers_seen, &stats);
  AppendVarintField(trace_stats::kTotalBuffers, values.buffers.size(), &stats);
  AppendVarintField(trace_stats::kChunksDiscarded, values.chunks_discarded,
                    &stats);
  AppendVarintField(trace_stats::kInvalidPackets, values.invalid_packets,
                    &stats);
  AppendVarintField(trace_stats::kFlushesRequested, values.flushes_requested,
                    &stats);
  AppendVarintField(trace_stats::kFlushesSucceeded, values.flushes_succeeded,
                    &stats);
  AppendVarintField(trace_stats::kFlushesFailed, values.flushes_failed, &stats);
  if (values.final_flush != TraceStatsValues::FinalFlush::kUnspecified) {
    AppendVarintField(trace_stats::kFinalFlushOutcome,
                      static_cast<uint64_t>(values.final_flush), &stats);
  }
  AppendMessage(trace_packet::kTraceStats, stats, packet);
}

}  // namespace tracering::internal
