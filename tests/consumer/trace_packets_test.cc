// What the service adds to a trace, as literal bytes and read back by protobuf.
#include "src/consumer/trace_packets.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/support/trace.pb.h"

namespace tracering::internal {
namespace {

using test::TracePacket;

std::string Hex(const uint8_t* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string StampHex(uint32_t sequence_id, int32_t uid, int32_t pid) {
  SequenceInfo info;
  info.sequence_id = sequence_id;
  info.uid = uid;
  info.pid = pid;
  const SequenceStamp stamp(info);
  return Hex(stamp.data(), stamp.size());
}

TracePacket Parse(const ByteBuffer& bytes) {
  TracePacket packet;
  EXPECT_TRUE(
      packet.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return packet;
}

TEST(SequenceStampTest, IsUidSequenceAndPid) {
  EXPECT_EQ(StampHex(5, 1000, 300), "18e8075005f804ac02");
  EXPECT_EQ(StampHex(5, 0, 1), "18005005f80401");
}

TEST(SequenceStampTest, UnknownPidIsLeftOut) {
  EXPECT_EQ(StampHex(2, 1000, 0), "18e8075002");
}

TEST(SequenceStampTest, LargestValuesFit) {
  // A uid above 2^31 is negative in the file and takes ten bytes.
  EXPECT_EQ(StampHex(0xffff'ffff, -2, std::numeric_limits<int32_t>::max()),
            "18feffffffffffffffff01"
            "50ffffffff0f"
            "f804ffffffff07");
}

TEST(LossMarkTest, IsTheFormatsMask) {
  ByteBuffer bytes;
  AppendLossMark(kLossMarked, &bytes);
  EXPECT_EQ(Hex(bytes.data(), bytes.size()), "d00201");
  bytes.clear();
  AppendLossMark(MarkOf(LossCause::kRingFull) | MarkOf(LossCause::kOverwritten),
                 &bytes);
  EXPECT_EQ(Hex(bytes.data(), bytes.size()), "d002c102");
  bytes.clear();
  AppendLossMark(~LossMask{0}, &bytes);
  EXPECT_LE(bytes.size(), kMaxLossMarkSize);
  EXPECT_EQ(Parse(bytes).previous_packet_dropped(), 511u);
}

TEST(ClockSnapshotTest, HoldsFourClocksAndBoottimeIsPrimary) {
  ByteBuffer bytes;
  AppendClockSnapshot({1, 300, 70'000, 1ull << 60}, &bytes);
  const TracePacket packet = Parse(bytes);
  const test::ClockSnapshot& snapshot = packet.clock_snapshot();
  ASSERT_EQ(snapshot.clocks_size(), 4);
  EXPECT_EQ(snapshot.clocks(0).clock_id(), 6u);
  EXPECT_EQ(snapshot.clocks(0).timestamp(), 1u);
  EXPECT_EQ(snapshot.clocks(1).clock_id(), 1u);
  EXPECT_EQ(snapshot.clocks(1).timestamp(), 300u);
  EXPECT_EQ(snapshot.clocks(2).clock_id(), 3u);
  EXPECT_EQ(snapshot.clocks(2).timestamp(), 70'000u);
  EXPECT_EQ(snapshot.clocks(3).clock_id(), 5u);
  EXPECT_EQ(snapshot.clocks(3).timestamp(), 1ull << 60);
  EXPECT_EQ(snapshot.primary_trace_clock(), test::BUILTIN_CLOCK_BOOTTIME);
}

TEST(ClockSnapshotTest, ClocksOfThisMachineAreRead) {
  const ClockReadings clocks = ReadClocks();
  EXPECT_GT(clocks.boottime, 0u);
  EXPECT_GT(clocks.realtime, clocks.boottime);
  EXPECT_GT(clocks.monotonic, 0u);
  EXPECT_GT(clocks.monotonic_raw, 0u);
}

TEST(TraceStatsTest, EachValueLandsInItsField) {
  TraceStatsValues values;
  values.buffers.resize(2);
  BufferStatsValues& buffer = values.buffers[1];
  buffer.buffer_size = 1;
  buffer.bytes_written = 2;
  buffer.bytes_overwritten = 3;
  buffer.bytes_read = 4;
  buffer.chunks_written = 5;
  buffer.chunks_overwritten = 6;
  buffer.chunks_read = 7;
  buffer.chunks_discarded = 8;
  buffer.write_wrap_count = 9;
  buffer.abi_violations = 10;
  buffer.trace_writer_packet_loss = 11;
  values.producers_connected = 12;
  values.producers_seen = 13;
  values.chunks_discarded = 14;
  values.invalid_packets = 15;
  values.flushes_requested = 16;
  values.flushes_succeeded = 17;
  values.flushes_failed = 18;
  values.final_flush = TraceStatsValues::FinalFlush::kFailed;
  ByteBuffer bytes;
  AppendTraceStats(values, &bytes);
  const TracePacket packet = Parse(bytes);
  const test::TraceStats& stats = packet.trace_stats();
  ASSERT_EQ(stats.buffer_stats_size(), 2);
  EXPECT_EQ(stats.buffer_stats(0).buffer_size(), 0u);
  EXPECT_TRUE(stats.buffer_stats(0).has_trace_writer_packet_loss());
  const auto& parsed = stats.buffer_stats(1);
  EXPECT_EQ(parsed.buffer_size(), 1u);
  EXPECT_EQ(parsed.bytes_written(), 2u);
  EXPECT_EQ(parsed.bytes_overwritten(), 3u);
  EXPECT_EQ(parsed.bytes_read(), 4u);
  EXPECT_EQ(parsed.chunks_written(), 5u);
  EXPECT_EQ(parsed.chunks_overwritten(), 6u);
  EXPECT_EQ(parsed.chunks_read(), 7u);
  EXPECT_EQ(parsed.chunks_discarded(), 8u);
  EXPECT_EQ(parsed.write_wrap_count(), 9u);
  EXPECT_EQ(parsed.abi_violations(), 10u);
  EXPECT_EQ(parsed.trace_writer_packet_loss(), 11u);
  EXPECT_EQ(stats.producers_connected(), 12u);
  EXPECT_EQ(stats.producers_seen(), 13u);
  EXPECT_EQ(stats.total_buffers(), 2u);
  EXPECT_EQ(stats.chunks_discarded(), 14u);
  EXPECT_EQ(stats.invalid_packets(), 15u);
  EXPECT_EQ(stats.flushes_requested(), 16u);
  EXPECT_EQ(stats.flushes_succeeded(), 17u);
  EXPECT_EQ(stats.flushes_failed(), 18u);
  EXPECT_EQ(static_cast<int>(stats.final_flush_outcome()), 2);
}

}  // namespace
}  // namespace tracering::internal
