// The protobuf bytes that the service itself adds to a trace: stamps on the
// packets of producers, clock snapshots, trace stats.
//
// Pure encoding into a buffer: no I/O, no clocks, no state.
#ifndef TRACERING_SRC_CONSUMER_TRACE_PACKETS_H_
#define TRACERING_SRC_CONSUMER_TRACE_PACKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/consumer/byte_buffer.h"
#include "src/consumer/sequence_table.h"
#include "tracering/data_loss.h"

namespace tracering::internal {

// One reading of the four clocks, in nanoseconds.
struct ClockReadings {
  uint64_t boottime = 0;
  uint64_t realtime = 0;
  uint64_t monotonic = 0;
  uint64_t monotonic_raw = 0;
};

// Reads the clocks of this machine, right after one another.
ClockReadings ReadClocks();

// Trace.packet's tag, which precedes the length and the bytes of each packet.
inline constexpr uint8_t kTracePacketTag = 0x0a;

// trusted_uid, trusted_packet_sequence_id and, where known, trusted_pid: what
// every packet of a sequence ends with.
class SequenceStamp {
 public:
  // Tags of 1, 1 and 2 bytes, values of up to 10, 5 and 5.
  static constexpr size_t kMaxSize = 24;

  SequenceStamp() = default;
  explicit SequenceStamp(const SequenceInfo& info);

  const uint8_t* data() const { return bytes_.data(); }
  size_t size() const { return size_; }

 private:
  std::array<uint8_t, kMaxSize> bytes_{};
  uint8_t size_ = 0;
};

// Bytes that AppendLossMark appends at most.
inline constexpr size_t kMaxLossMarkSize = 4;

// Appends previous_packet_dropped for a non-zero mark.
void AppendLossMark(LossMask loss, ByteBuffer* packet);

// Appends the field clock_snapshot of a packet. Boottime is the primary clock.
void AppendClockSnapshot(const ClockReadings& clocks, ByteBuffer* packet);

// TraceStats.BufferStats, as far as there are numbers for it. The chunks of a
// target buffer are its records.
struct BufferStatsValues {
  uint64_t buffer_size = 0;
  uint64_t bytes_written = 0;
  uint64_t bytes_overwritten = 0;
  uint64_t bytes_read = 0;
  uint64_t chunks_written = 0;
  uint64_t chunks_overwritten = 0;
  uint64_t chunks_read = 0;
  uint64_t chunks_discarded = 0;
  uint64_t write_wrap_count = 0;
  uint64_t abi_violations = 0;
  uint64_t trace_writer_packet_loss = 0;
};

struct TraceStatsValues {
  std::vector<BufferStatsValues> buffers;
  uint32_t producers_connected = 0;
  uint64_t producers_seen = 0;
  uint64_t chunks_discarded = 0;
  uint64_t invalid_packets = 0;
  uint64_t flushes_requested = 0;
  uint64_t flushes_succeeded = 0;
  uint64_t flushes_failed = 0;
  enum class FinalFlush : uint8_t { kUnspecified = 0, kSucceeded, kFailed };
  FinalFlush final_flush = FinalFlush::kUnspecified;
};

// Appends the field trace_stats of a packet. Zero values are written too, so
// that "none" and "not known" differ, except for an unspecified final flush.
void AppendTraceStats(const TraceStatsValues& stats, ByteBuffer* packet);

// A bound on what AppendTraceStats makes for so many buffers, with some room
// for the rest of its packet.
constexpr size_t MaxTraceStatsSize(size_t num_buffers) {
  return 256 + num_buffers * 192;
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_TRACE_PACKETS_H_
