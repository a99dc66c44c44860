// What a packet costs its thread, beside a floor that no writer over this ring
// can go below: two uncontended compare-exchanges on one word and, where the
// bytes are all the same, the copy.
//
// The ring is drained between timed batches, by the benchmark's own thread,
// so that neither a reader nor a full ring is in the numbers. `vs_floor` is the
// time of one iteration over that of its floor, which is measured just before.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "benchmarks/benchmark_ring.h"
#include "benchmarks/floor.h"
#include "src/common/abi/chunk_layout.h"
#include "src/producer/chunk_writer.h"
#include "src/producer/packet_account.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/packet.h"
#include "tracering/trace_fields.h"
#include "tracering/trace_writer.h"

namespace tracering {
namespace {

using internal::BenchmarkRing;
using internal::ChunkWriter;
using internal::FragmentRange;
using internal::PacketAccount;
using internal::TraceWriterImpl;

// Fits the second-level cache, like a ring whose reader keeps up.
constexpr uint32_t kRingBytes = 256 * 1024;
constexpr uint32_t kDefaultChunkSize = 4096;
// What a batch writes.
constexpr uint32_t kBatchBytes = kRingBytes / 2;

// --- Floors ---

template <typename Floor>
void BM_Floor(benchmark::State& state) {
  static Floor floor;
  for (auto _ : state) floor.Step();
}
BENCHMARK_TEMPLATE(BM_Floor, TwoCas)->Name("BM_Floor_TwoCas");
BENCHMARK_TEMPLATE(BM_Floor, CopyTwoCas<36>)->Name("BM_Floor_Copy36TwoCas");
BENCHMARK_TEMPLATE(BM_Floor, CopyTwoCas<64>)->Name("BM_Floor_Copy64TwoCas");

// --- Writers ---

// The chunk writer alone: fragments of kSize bytes, in chunks of range(0).
template <size_t kSize>
void BM_Fragment(benchmark::State& state) {
  BenchmarkRing ring(kRingBytes, static_cast<uint32_t>(state.range(0)));
  PacketAccount account(*ring.shared());
  ChunkWriter writer(*ring.shared(), account, WriterId(1), BufferId(1),
                     WriterOptions(), /*owes_loss=*/false);
  const abi::Geometry& geometry = ring.geometry();
  const auto per_chunk = static_cast<int64_t>(
      std::min<size_t>(abi::PayloadCapacity(geometry.chunk_size()) /
                           (kSize + geometry.dir_entry_size()),
                       abi::kMaxFragmentsPerChunk));
  const int64_t chunks = kBatchBytes / geometry.chunk_size();
  alignas(64) uint8_t source[kSize] = {};
  const double floor = MeasureFloor<CopyTwoCas<kSize>>();
  Batches batches(state);
  while (state.KeepRunningBatch(chunks * per_chunk)) {
    batches.Time(chunks * per_chunk, [&] {
      for (int64_t i = 0, room = 0; i < chunks * per_chunk; ++i, --room) {
        FragmentRange range;
        if (room == 0 || !writer.TryOpen(&range)) {
          if (writer.OpenInFreshChunk(&range) != internal::ChunkOutcome::kOk) {
            std::abort();
          }
          room = per_chunk;
        }
        std::memcpy(range.cur, source, kSize);
        writer.Publish(range.cur + kSize);
      }
    });
    writer.GiveBack();
    ring.Drain();
  }
  ReportVsFloor(state, batches.seconds(), floor);
}
BENCHMARK_TEMPLATE(BM_Fragment, 16)
    ->Name("BM_Fragment/16")
    ->RangeMultiplier(2)
    ->Range(256, 32768)
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Fragment, 64)
    ->Name("BM_Fragment/64")
    ->RangeMultiplier(2)
    ->Range(256, 32768)
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Fragment, 200)
    ->Name("BM_Fragment/200")
    ->RangeMultiplier(2)
    ->Range(256, 32768)
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Fragment, 1000)
    ->Name("BM_Fragment/1000")
    ->RangeMultiplier(2)
    ->Range(4096, 32768)
    ->UseManualTime();

class PacketWriter {
 public:
  explicit PacketWriter(uint32_t chunk_size = kDefaultChunkSize)
      : ring(kRingBytes, chunk_size), writer_(internal::NewWriter(ring, 1)) {}
  TraceWriter& writer() { return *writer_; }

  BenchmarkRing ring;

 private:
  std::unique_ptr<TraceWriterImpl> writer_;
};

// Times `write`, of which each writes `packets` packets of about `bytes` bytes
// in all. With a floor of 0 there is nothing to compare to.
template <typename Write>
void TimePackets(benchmark::State& state, PacketWriter& fixture, int packets,
                 size_t bytes, double floor_seconds, Write write) {
  // Half the ring, whose chunks also take no more than so many packets.
  const size_t most = size_t{fixture.ring.geometry().num_chunks()} / 2 *
                      abi::kMaxFragmentsPerChunk / static_cast<size_t>(packets);
  const auto batch = static_cast<int64_t>(std::clamp<size_t>(
      kBatchBytes / (bytes + 2 * static_cast<size_t>(packets)), 1, most));
  Batches batches(state);
  batches.TimeAll(batch, write, [&] { fixture.ring.Drain(); });
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * packets);
  if (floor_seconds != 0) {
    ReportVsFloor(state, batches.seconds(), floor_seconds * packets);
  }
  if (fixture.writer().stats().lost != 0) state.SkipWithError("lost packets");
}

// A timestamp and a nested message of two varints and a 16-byte string: 36
// bytes.
void WritePacket36(TraceWriter& writer, uint64_t timestamp,
                   std::string_view name) {
  Packet packet = writer.NewPacket();
  packet.AppendVarint(trace_packet::kTimestamp, timestamp);        // 1 + 8
  Message event = packet.BeginMessage(trace_packet::kTrackEvent);  // 1
  event.AppendVarint(track_event::kType, track_event::kTypeSliceBegin);  // 2
  event.AppendVarint(track_event::kTrackUuid, 0x1234);                   // 3
  event.AppendString(track_event::kName, name);  // 3 + 16, and 1 to close
}

constexpr uint64_t kTimestamp = 0x00a1'b2c3'd4e5'f607;  // 8 bytes
constexpr char kName[] = "0123456789abcdef";

void BM_Packet36(benchmark::State& state) {
  PacketWriter fixture;
  const std::string_view name(kName, 16);
  uint64_t timestamp = kTimestamp;
  TimePackets(state, fixture, 1, 36, MeasureFloor<TwoCas>(),
              [&] { WritePacket36(fixture.writer(), ++timestamp, name); });
}
BENCHMARK(BM_Packet36)->UseManualTime();

void BM_Packet36_Batch16(benchmark::State& state) {
  PacketWriter fixture;
  const std::string_view name(kName, 16);
  uint64_t timestamp = kTimestamp;
  TimePackets(state, fixture, 16, size_t{16} * 36, MeasureFloor<TwoCas>(), [&] {
    auto batch = fixture.writer().Batch();
    for (int i = 0; i < 16; ++i) {
      WritePacket36(fixture.writer(), ++timestamp, name);
    }
  });
}
BENCHMARK(BM_Packet36_Batch16)->UseManualTime();

void BM_EmptyPacket(benchmark::State& state) {
  PacketWriter fixture;
  TimePackets(state, fixture, 1, 18, MeasureFloor<TwoCas>(),
              [&] { Packet packet = fixture.writer().NewPacket(); });
}
BENCHMARK(BM_EmptyPacket)->UseManualTime();

// A packet of one string: range(0) bytes, in chunks of range(1).
void BM_PacketOfSize(benchmark::State& state) {
  PacketWriter fixture(static_cast<uint32_t>(state.range(1)));
  const auto size = static_cast<size_t>(state.range(0));
  const std::string value(size, 'x');
  TimePackets(state, fixture, 1, size + 16, 0, [&] {
    Packet packet = fixture.writer().NewPacket();
    packet.AppendString(3, value);
  });
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          state.range(0));
}
BENCHMARK(BM_PacketOfSize)
    ->ArgsProduct({{8, 64, 512, 4096, 65536}, {256, 1024, 4096, 32768}})
    ->UseManualTime();

// --- Appends ---

// The time of one append: in place, one of 64 in a packet, whose own cost is in
// the number.
template <typename Append>
void TimeAppends(benchmark::State& state, Append append) {
  constexpr int kAppends = 64;
  constexpr int kPackets = 64;  // of at most 2 KiB
  PacketWriter fixture;
  Batches batches(state);
  while (state.KeepRunningBatch(kAppends * kPackets)) {
    batches.Time(kAppends * kPackets, [&] {
      for (int i = 0; i < kPackets; ++i) {
        Packet packet = fixture.writer().NewPacket();
        for (int j = 0; j < kAppends; ++j) append(packet);
      }
    });
    fixture.ring.Drain();
  }
}

void BM_Append_Varint1(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) { packet.AppendVarint(9, 1); });
}
BENCHMARK(BM_Append_Varint1)->UseManualTime();

// A value of so many bytes that the compiler does not know.
template <uint64_t kValue>
void BM_Append_Varint(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) {
    uint64_t value = kValue;
    asm volatile("" : "+r"(value));
    packet.AppendVarint(8, value);
  });
}
BENCHMARK_TEMPLATE(BM_Append_Varint, 300)
    ->Name("BM_Append_Varint2")
    ->UseManualTime();
// A day and a half of nanoseconds, and a year.
BENCHMARK_TEMPLATE(BM_Append_Varint, 0x0000'7a3b'4c5d'6e7f)
    ->Name("BM_Append_Timestamp7")
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Append_Varint, 0x0070'1234'5678'9abc)
    ->Name("BM_Append_Timestamp8")
    ->UseManualTime();

void BM_Append_Fixed64(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) { packet.AppendFixed64(47, 1); });
}
BENCHMARK(BM_Append_Fixed64)->UseManualTime();

void BM_Append_String16(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) {
    packet.AppendString(23, std::string_view(kName, 16));
  });
}
BENCHMARK(BM_Append_String16)->UseManualTime();

// As above, with a length that the compiler does not know.
void BM_Append_StringOfAnySize(benchmark::State& state) {
  std::string_view name(kName, 16);
  TimeAppends(state, [&](Packet& packet) {
    benchmark::DoNotOptimize(name);
    packet.AppendString(23, name);
  });
}
BENCHMARK(BM_Append_StringOfAnySize)->UseManualTime();

void BM_Append_EmptyMessage(benchmark::State& state) {
  TimeAppends(
      state, [](Packet& packet) { Message message = packet.BeginMessage(11); });
}
BENCHMARK(BM_Append_EmptyMessage)->UseManualTime();

// A packet that finds the ring full, with nobody attached: what tracing costs
// a program that nobody listens to.
void BM_DroppedPacket36(benchmark::State& state) {
  PacketWriter fixture;
  const std::string_view name(kName, 16);
  while (fixture.writer().stats().lost == 0) {
    WritePacket36(fixture.writer(), kTimestamp, name);
  }
  for (auto _ : state) WritePacket36(fixture.writer(), kTimestamp, name);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_DroppedPacket36);

}  // namespace
}  // namespace tracering

BENCHMARK_MAIN();
