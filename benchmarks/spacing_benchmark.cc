// Whether words with different owners need 64 or 128 bytes between them: the
// prefetcher of some processors fetches lines in pairs. A writer reserves as
// fast as it can while a reader on another core publishes its position, and
// both look at the word that arms the reader. Nothing else is in the loop, so
// that a real ring, which reserves once a chunk, gains a small part of the
// difference at most.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/common/sync/shared_word.h"

namespace tracering::internal {
namespace {

alignas(4096) uint8_t memory[4096];

SharedWord<uint32_t>& WordAt(size_t offset) {
  return *reinterpret_cast<SharedWord<uint32_t>*>(memory + offset);
}

// Thread 0 is the writer, whose time counts; thread 1 is the reader.
void BM_Reserve(benchmark::State& state) {
  const auto spacing = static_cast<size_t>(state.range(0));
  SharedWord<uint32_t>& read_pos = WordAt(0);
  SharedWord<uint32_t>& write_pos = WordAt(spacing);
  SharedWord<uint32_t>& reader_armed = WordAt(2 * spacing);
  if (state.thread_index() == 0) {
    for (auto _ : state) {
      uint32_t position = write_pos.Load(std::memory_order_relaxed);
      benchmark::DoNotOptimize(read_pos.Load(std::memory_order_acquire));
      benchmark::DoNotOptimize(write_pos.CompareExchange(
          position, position + 1, std::memory_order_seq_cst,
          std::memory_order_relaxed));
      benchmark::DoNotOptimize(reader_armed.Load(std::memory_order_seq_cst));
    }
    state.SetItemsProcessed(state.iterations());
    return;
  }
  uint32_t spin = 0;
  for (auto _ : state) {
    read_pos.Store(write_pos.Load(std::memory_order_acquire),
                   std::memory_order_release);
    // The reader arms now and then, not for each position.
    if (++spin % 64 == 0) {
      reader_armed.Store(1, std::memory_order_seq_cst);
    }
  }
}
BENCHMARK(BM_Reserve)->Arg(64)->Arg(128)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
