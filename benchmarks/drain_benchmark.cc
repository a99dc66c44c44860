// Draining a full ring: what one chunk costs the reader, alone and with the
// assembler and the target buffer behind it, next to its floor (a bounded copy
// and two compare-exchanges). One thread; the writers' part is done before the
// clock runs.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmarks/storing_sink.h"
#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/state_word.h"
#include "src/common/os/clock.h"
#include "src/common/ring/ring.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/target_buffer.h"

namespace tracering::internal {
namespace {

constexpr uint32_t kNumChunks = 256;
constexpr uint32_t kChunkSize = 4096;
constexpr uint32_t kFragments = 61;
constexpr uint32_t kFragmentSize = 64;

// A ring whose chunks are all complete: 61 fragments of 64 bytes each.
class FullRing {
 public:
  FullRing() : memory_((geometry_.RingSize() + 63) / 64) {
    for (uint32_t i = 0; i < kNumChunks; ++i) {
      uint8_t* const chunk = ring().ChunkBytes(abi::ChunkIndex(i));
      std::memset(chunk, 'x', kChunkSize);
      abi::StoreBufferId(chunk, BufferId(1));
      for (uint32_t f = 0; f < kFragments; ++f) {
        abi::StoreDirEntry(chunk + abi::DirEntryOffset(geometry_, f),
                           geometry_.dir_entry_size(), kFragmentSize);
      }
      word(i).Store(0, std::memory_order_relaxed);
    }
  }

  // Reserves and completes every position of a drained ring.
  void Refill() {
    SharedWord<uint32_t>& write_pos = ring().words().write_pos;
    for (uint32_t i = 0; i < kNumChunks; ++i) {
      word(i).Store(
          abi::MakeDataWord(abi::State::kComplete, WriterId(1), kFragments, 0),
          std::memory_order_relaxed);
    }
    write_pos.FetchAdd(kNumChunks, std::memory_order_relaxed);
  }

  Ring ring() { return Ring(memory_.data(), geometry_); }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  SharedWord<uint32_t>& word(uint32_t i) {
    return *reinterpret_cast<SharedWord<uint32_t>*>(
        ring().ChunkBytes(abi::ChunkIndex(i)));
  }

  const abi::Geometry geometry_{kNumChunks, kChunkSize};
  std::vector<Line> memory_;
};

// Times passes over a full ring, per chunk, in processor time of this thread.
template <typename Pass>
void RunPasses(FullRing* full, benchmark::State& state, Pass pass) {
  while (state.KeepRunningBatch(kNumChunks)) {
    full->Refill();
    const int64_t start = os::NowNs(CLOCK_THREAD_CPUTIME_ID);
    pass();
    const int64_t end = os::NowNs(CLOCK_THREAD_CPUTIME_ID);
    state.SetIterationTime(static_cast<double>(end - start) * 1e-9);
  }
}

void BM_Drain(benchmark::State& state) {
  struct Sink {
    void OnChunk(const ChunkView& view) { benchmark::DoNotOptimize(view); }
    void OnDroppedChunk(const DroppedChunk&) {}
    void BeforePublication() {}
  };
  FullRing full;
  ChunkReader reader(full.ring());
  Sink sink;
  RunPasses(&full, state,
            [&] { benchmark::DoNotOptimize(reader.DrainPass(sink)); });
}
BENCHMARK(BM_Drain)->UseManualTime();

void BM_DrainFloor(benchmark::State& state) {
  FullRing full;
  const Ring ring = full.ring();
  std::vector<uint8_t> copy(kChunkSize);
  uint32_t position = 0;
  RunPasses(&full, state, [&] {
    for (uint32_t i = 0; i < kNumChunks; ++i, ++position) {
      const abi::Position at(position);
      const abi::ChunkIndex index = ring.geometry().IndexOf(at);
      ChunkState word = ring.StateOf(index);
      uint32_t observed = word.LoadAcquire();
      std::memcpy(copy.data(), ring.ChunkBytes(index), kChunkSize);
      benchmark::DoNotOptimize(copy.data());
      benchmark::ClobberMemory();
      benchmark::DoNotOptimize(
          word.TryReclaimComplete(observed, ring.geometry().NextWrapOf(at)));
    }
    ring.PublishReadPos(abi::Position(position));
  });
}
BENCHMARK(BM_DrainFloor)->UseManualTime();

void BM_DrainAndStore(benchmark::State& state) {
  struct Sink {
    PacketAssembler* assembler;
    void OnChunk(const ChunkView& view) { assembler->OnChunk(view); }
    void OnDroppedChunk(const DroppedChunk&) {}
    void BeforePublication() {}
  };
  FullRing full;
  ChunkReader reader(full.ring());
  const auto buffer = *TargetBuffer::Create(
      static_cast<uint64_t>(state.range(0)) * 1024, FillPolicy::kRing);
  StoringSink store(buffer.get());
  PartialBudget budget;
  PacketAssembler assembler(&store, &budget);
  Sink sink{&assembler};
  RunPasses(&full, state,
            [&] { benchmark::DoNotOptimize(reader.DrainPass(sink)); });
}
BENCHMARK(BM_DrainAndStore)->Arg(128)->Arg(4096)->UseManualTime();

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
