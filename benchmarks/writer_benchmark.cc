// What a packet costs its thread, beside a floor that no writer over this ring
// can go below: two uncontended compare-exchanges on one word and the copy.
//
// The ring is drained between timed stretches, by the benchmark's own thread,
// so that neither a reader nor a full ring is in the numbers. `vs_floor` is the
// time of one packet over that of its floor, which is measured just before.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "benchmarks/floor.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/ring/chunk_state.h"
#include "src/common/ring/ring.h"
#include "src/producer/chunk_writer.h"
#include "src/producer/packet_account.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/packet.h"
#include "tracering/trace_fields.h"
#include "tracering/trace_writer.h"

namespace tracering {
namespace {

using internal::ChunkState;
using internal::ChunkWriter;
using internal::FragmentRange;
using internal::PacketAccount;
using internal::ProducerRing;
using internal::TraceWriterImpl;

// Fits the second-level cache, like a ring whose reader keeps up.
constexpr uint32_t kRingBytes = 256 * 1024;
constexpr uint32_t kDefaultChunkSize = 4096;

class BenchmarkRing {
 public:
  explicit BenchmarkRing(uint32_t chunk_size = kDefaultChunkSize)
      : geometry_(kRingBytes / chunk_size, chunk_size) {
    auto memory = os::CreateSealedMemory("benchmark", geometry_.RingSize());
    auto event_fd = os::CreateEventFd();
    if (!memory.ok() || !event_fd.ok()) std::abort();
    auto mapping = os::SharedMapping::Map(memory->get(), geometry_.RingSize());
    if (!mapping.ok()) std::abort();
    shared_ = std::make_shared<ProducerRing>(
        std::move(*mapping), geometry_,
        std::make_shared<const os::GuardedFd>(std::move(*event_fd)),
        internal::RingMode::kOn);
  }

  const std::shared_ptr<ProducerRing>& shared() { return shared_; }
  const internal::Ring& ring() const { return shared_->ring(); }

  bool NearlyFull() const {
    const uint32_t outstanding = abi::Distance(ring().LoadReadPosAcquire(),
                                               ring().LoadWritePosRelaxed());
    return outstanding + geometry_.num_chunks() / 4 >= geometry_.num_chunks();
  }

  // What a reader does to the words, and nothing else of it.
  void Drain() {
    const abi::Position end = ring().LoadWritePosRelaxed();
    abi::Position position = ring().LoadReadPosAcquire();
    for (; position != end; position = position.Next()) {
      ChunkState state = ring().StateOf(geometry_.IndexOf(position));
      uint32_t word = state.LoadAcquire();
      if (!state.TryReclaimComplete(word, geometry_.NextWrapOf(position))) {
        std::abort();
      }
    }
    ring().PublishReadPos(end);
  }

 private:
  abi::Geometry geometry_;
  std::shared_ptr<ProducerRing> shared_;
};

// --- Floors ---

template <size_t kSize>
struct Floor {
  static constexpr size_t kPlaces = kDefaultChunkSize / kSize;

  void Step() {
    uint32_t expected = 1;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 2, std::memory_order_acquire, std::memory_order_relaxed));
    std::memcpy(bytes + place * kSize, source, kSize);
    benchmark::ClobberMemory();
    place = place + 1 == kPlaces ? 0 : place + 1;
    expected = 2;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 1, std::memory_order_release, std::memory_order_acquire));
  }

  alignas(64) std::atomic<uint32_t> word{1};
  size_t place = 0;
  alignas(64) uint8_t bytes[kDefaultChunkSize];
  alignas(64) uint8_t source[kSize] = {};
};

template <size_t kSize>
void BM_Floor(benchmark::State& state) {
  static Floor<kSize> floor;
  for (auto _ : state) floor.Step();
}

void BM_Floor_TwoCas(benchmark::State& state) {
  alignas(64) static std::atomic<uint32_t> word{1};
  for (auto _ : state) {
    uint32_t expected = 1;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 2, std::memory_order_acquire, std::memory_order_relaxed));
    expected = 2;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 1, std::memory_order_release, std::memory_order_acquire));
  }
}
BENCHMARK(BM_Floor_TwoCas);
BENCHMARK_TEMPLATE(BM_Floor, 36)->Name("BM_Floor_Copy36TwoCas");
BENCHMARK_TEMPLATE(BM_Floor, 64)->Name("BM_Floor_Copy64TwoCas");

// --- Writers ---

// Times `write`, which writes `packets` packets. With a floor of 0 there is
// nothing to compare to.
template <typename Write>
void TimePackets(benchmark::State& state, BenchmarkRing& ring, int packets,
                 double floor_seconds, Write write) {
  // A quarter of the ring is left when it is looked at.
  constexpr int kStretch = 32;
  int left = kStretch;
  for (auto _ : state) {
    if (--left == 0) {
      left = kStretch;
      if (ring.NearlyFull()) {
        state.PauseTiming();
        ring.Drain();
        state.ResumeTiming();
      }
    }
    write();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * packets);
  if (floor_seconds != 0) ReportVsFloor(state, floor_seconds * packets);
}

// The chunk writer alone: range(0) bytes, in chunks of range(1).
void BM_Fragment(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  BenchmarkRing ring(static_cast<uint32_t>(state.range(1)));
  PacketAccount account(*ring.shared());
  ChunkWriter writer(*ring.shared(), account, WriterId(1), BufferId(1),
                     WriterOptions(), /*owes_loss=*/false);
  uint8_t source[1024] = {};
  const double floor = size == 64 ? MeasureFloor<Floor<64>>() : 0;
  TimePackets(state, ring, 1, floor, [&] {
    FragmentRange range;
    if (!writer.TryOpen(&range) ||
        range.end - range.cur < static_cast<ptrdiff_t>(size)) {
      if (writer.OpenInFreshChunk(&range) != internal::ChunkOutcome::kOk) {
        std::abort();
      }
    }
    if (size == 64) {
      std::memcpy(range.cur, source, 64);
    } else {
      std::memcpy(range.cur, source, size);
    }
    writer.Publish(range.cur + size);
  });
}
BENCHMARK(BM_Fragment)
    ->ArgsProduct({{16, 64, 200}, {256, 4096, 32768}})
    ->Args({1000, 4096});

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

class PacketWriter {
 public:
  PacketWriter() {
    internal::WriterLease lease;
    lease.id = WriterId(1);
    writer_ = std::make_unique<TraceWriterImpl>(ring.shared(), lease,
                                                BufferId(1), WriterOptions());
  }
  TraceWriter& writer() { return *writer_; }

  BenchmarkRing ring;

 private:
  std::unique_ptr<TraceWriterImpl> writer_;
};

void BM_Packet36(benchmark::State& state) {
  PacketWriter fixture;
  const std::string_view name(kName, 16);
  uint64_t timestamp = kTimestamp;
  TimePackets(state, fixture.ring, 1, MeasureFloor<Floor<36>>(),
              [&] { WritePacket36(fixture.writer(), ++timestamp, name); });
  if (fixture.writer().stats().lost != 0) state.SkipWithError("lost packets");
}
BENCHMARK(BM_Packet36);

void BM_Packet36_Batch16(benchmark::State& state) {
  PacketWriter fixture;
  const std::string_view name(kName, 16);
  uint64_t timestamp = kTimestamp;
  TimePackets(state, fixture.ring, 16, MeasureFloor<Floor<36>>(), [&] {
    auto batch = fixture.writer().Batch();
    for (int i = 0; i < 16; ++i) {
      WritePacket36(fixture.writer(), ++timestamp, name);
    }
  });
  if (fixture.writer().stats().lost != 0) state.SkipWithError("lost packets");
}
BENCHMARK(BM_Packet36_Batch16);

void BM_EmptyPacket(benchmark::State& state) {
  PacketWriter fixture;
  TimePackets(state, fixture.ring, 1, 0,
              [&] { Packet packet = fixture.writer().NewPacket(); });
}
BENCHMARK(BM_EmptyPacket);

// Sixteen appends in one packet, reported each.
template <typename Append>
void TimeAppends(benchmark::State& state, Append append) {
  PacketWriter fixture;
  TimePackets(state, fixture.ring, 16, 0, [&] {
    Packet packet = fixture.writer().NewPacket();
    for (int i = 0; i < 16; ++i) append(packet);
  });
}

void BM_Append_Varint1(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) { packet.AppendVarint(9, 1); });
}
BENCHMARK(BM_Append_Varint1);

void BM_Append_Varint8(benchmark::State& state) {
  uint64_t value = kTimestamp;
  TimeAppends(state, [&](Packet& packet) {
    benchmark::DoNotOptimize(value);
    packet.AppendVarint(8, value);
  });
}
BENCHMARK(BM_Append_Varint8);

void BM_Append_Fixed64(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) { packet.AppendFixed64(47, 1); });
}
BENCHMARK(BM_Append_Fixed64);

void BM_Append_String16(benchmark::State& state) {
  TimeAppends(state, [](Packet& packet) {
    packet.AppendString(23, std::string_view(kName, 16));
  });
}
BENCHMARK(BM_Append_String16);

void BM_Append_EmptyMessage(benchmark::State& state) {
  TimeAppends(
      state, [](Packet& packet) { Message message = packet.BeginMessage(11); });
}
BENCHMARK(BM_Append_EmptyMessage);

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
