// Draining a full ring: what one chunk costs the reader, alone and with the
// assembler and the target buffer behind it, beside a floor of a copy of the
// same bytes and one compare-exchange. One thread; the writers' part is done
// before the clock runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmarks/floor.h"
#include "benchmarks/storing_sink.h"
#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/state_word.h"
#include "src/common/ring/ring.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/target_buffer.h"

namespace tracering::internal {
namespace {

// Together with a small target it fits the second-level cache.
constexpr uint32_t kRingBytes = 256 * 1024;

struct ChunkShape {
  uint32_t chunk_size;
  uint32_t fragment_size;

  // As many as a writer puts into it.
  uint32_t fragments() const {
    const abi::Geometry geometry(2, chunk_size);
    const uint32_t fit = abi::PayloadCapacity(chunk_size) /
                         (fragment_size + geometry.dir_entry_size());
    return std::min(fit, abi::kMaxFragmentsPerChunk);
  }
  uint32_t payload() const { return fragments() * fragment_size; }
};

// A ring whose chunks are all complete.
class FullRing {
 public:
  // `flags`: of each chunk.
  explicit FullRing(const ChunkShape& shape, uint32_t flags = 0)
      : shape_(shape),
        flags_(flags),
        geometry_(kRingBytes / shape.chunk_size, shape.chunk_size),
        memory_((geometry_.RingSize() + 63) / 64) {
    for (uint32_t i = 0; i < num_chunks(); ++i) {
      uint8_t* const chunk = ring().ChunkBytes(abi::ChunkIndex(i));
      std::memset(chunk, 'x', shape.chunk_size);
      abi::StoreBufferId(chunk, BufferId(1));
      for (uint32_t f = 0; f < shape.fragments(); ++f) {
        abi::StoreDirEntry(chunk + abi::DirEntryOffset(geometry_, f),
                           geometry_.dir_entry_size(), shape.fragment_size);
      }
      word(i).Store(0, std::memory_order_relaxed);
    }
  }

  // Reserves and completes every position of a drained ring.
  void Refill() {
    SharedWord<uint32_t>& write_pos = ring().words().write_pos;
    for (uint32_t i = 0; i < num_chunks(); ++i) {
      word(i).Store(abi::MakeDataWord(abi::State::kComplete, WriterId(1),
                                      shape_.fragments(), flags_),
                    std::memory_order_relaxed);
    }
    write_pos.FetchAdd(num_chunks(), std::memory_order_relaxed);
  }

  Ring ring() { return Ring(memory_.data(), geometry_); }
  uint32_t num_chunks() const { return geometry_.num_chunks(); }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  SharedWord<uint32_t>& word(uint32_t i) {
    return *reinterpret_cast<SharedWord<uint32_t>*>(
        ring().ChunkBytes(abi::ChunkIndex(i)));
  }

  const ChunkShape shape_;
  const uint32_t flags_;
  const abi::Geometry geometry_;
  std::vector<Line> memory_;
};

// Times passes over a full ring, per chunk. `target_bytes` is what the floor
// copies into.
template <typename Pass>
void TimePasses(benchmark::State& state, const ChunkShape& shape,
                FullRing* full, size_t target_bytes, Pass pass) {
  CopyOneCas floor(shape.payload(), shape.chunk_size, kRingBytes, target_bytes);
  const double floor_seconds =
      MeasureFloor(floor, static_cast<int>(std::max<size_t>(
                              20'000, 2 * target_bytes / shape.payload())));
  Batches batches(state);
  while (state.KeepRunningBatch(full->num_chunks())) {
    full->Refill();
    batches.Time(full->num_chunks(), pass);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          shape.payload());
  ReportVsFloor(state, batches.seconds(), floor_seconds);
}

// The reader alone: into its private copy, checked.
void BM_DrainToCopy(benchmark::State& state) {
  struct Sink {
    void OnChunk(const ChunkView& view) { benchmark::DoNotOptimize(view); }
    void OnDroppedChunk(const DroppedChunk&) {}
    void BeforePublication() {}
  };
  const ChunkShape shape{static_cast<uint32_t>(state.range(0)),
                         static_cast<uint32_t>(state.range(1))};
  FullRing full(shape);
  ChunkReader reader(full.ring());
  Sink sink;
  TimePasses(state, shape, &full, shape.chunk_size,
             [&] { benchmark::DoNotOptimize(reader.DrainPass(sink)); });
}
BENCHMARK(BM_DrainToCopy)
    ->Args({4096, 64})
    ->Args({4096, 200})
    ->Args({256, 64})
    ->UseManualTime();

// Chunks of range(0) full of fragments of range(1), into a target buffer of
// kTargetKiB whose pages are touched. kFlags: of each chunk.
template <uint64_t kTargetKiB, uint32_t kFlags = 0>
void BM_Drain(benchmark::State& state) {
  struct Sink {
    PacketAssembler* assembler;
    void OnChunk(const ChunkView& view) { assembler->OnChunk(view); }
    void OnDroppedChunk(const DroppedChunk&) {}
    void BeforePublication() {}
  };
  const ChunkShape shape{static_cast<uint32_t>(state.range(0)),
                         static_cast<uint32_t>(state.range(1))};
  FullRing full(shape, kFlags);
  ChunkReader reader(full.ring());
  const auto buffer =
      *TargetBuffer::Create(kTargetKiB * 1024, FillPolicy::kRing);
  StoringSink store(buffer.get());
  PartialBudget budget;
  PacketAssembler assembler(&store, &budget);
  Sink sink{&assembler};
  const auto pass = [&] {
    benchmark::DoNotOptimize(
        reader.DrainTo(reader.CaptureEnd(), sink, &assembler));
  };
  while (buffer->stats().wraps == 0) {
    full.Refill();
    pass();
  }
  TimePasses(state, shape, &full, kTargetKiB * 1024, pass);
}
BENCHMARK_TEMPLATE(BM_Drain, 128)
    ->Name("BM_Drain")
    ->Args({4096, 64})
    ->Args({4096, 200})
    ->Args({256, 64})
    ->Args({1024, 64})
    ->Args({16384, 64})
    ->Args({32768, 64})
    ->UseManualTime();
// As a busy writer leaves them: each ends one packet and begins another.
BENCHMARK_TEMPLATE(BM_Drain, 128,
                   abi::kFlagContinuesFromPrevious | abi::kFlagContinuesOnNext)
    ->Name("BM_DrainSplit")
    ->Args({4096, 64})
    ->Args({4096, 200})
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Drain, 32 * 1024)
    ->Name("BM_DrainInto32MiB")
    ->Args({4096, 64})
    ->Args({4096, 200})
    ->Args({256, 64})
    ->UseManualTime();

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
