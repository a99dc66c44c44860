// What a consumer pays for rings in which nothing happens, and the memory that
// writers and rings take. One thread drives the consumer; nobody else runs, so
// that processor time is all the consumer's.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "benchmarks/benchmark_ring.h"
#include "src/common/os/clock.h"
#include "tracering/consumer.h"

namespace tracering::internal {
namespace {

using Rings = std::vector<std::unique_ptr<BenchmarkRing>>;

size_t HeapBytes() { return mallinfo2().uordblks; }

std::unique_ptr<Consumer> NewConsumer() {
  // Each ring takes a few descriptors.
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  ConsumerOptions options;
  options.buffers = {{"main", 1 << 20, FillPolicy::kRing}};
  auto consumer = Consumer::Create(options);
  if (!consumer.ok()) std::abort();
  return *std::move(consumer);
}

void Attach(Consumer& consumer, const BenchmarkRing& ring) {
  if (!consumer.AttachRing(AttachOptions(ring)).ok()) std::abort();
}

Rings AttachRings(Consumer& consumer, int64_t count) {
  Rings rings;
  for (int64_t i = 0; i < count; ++i) {
    rings.push_back(std::make_unique<BenchmarkRing>(4096, 256));
    Attach(consumer, *rings.back());
  }
  return rings;
}

// Processor time of the consumer per ring and second, with nothing to do.
void BM_IdleRing(benchmark::State& state) {
  const auto consumer = NewConsumer();
  const Rings rings = AttachRings(*consumer, state.range(0));
  while (state.KeepRunningBatch(state.range(0))) {
    const int64_t end = os::MonotonicNs() + 1'000'000'000;
    const int64_t start = os::NowNs(CLOCK_THREAD_CPUTIME_ID);
    while (os::MonotonicNs() < end) {
      pollfd waiting{consumer->poll_fd(), POLLIN, 0};
      poll(&waiting, 1, 100);
      consumer->ProcessReady();
    }
    state.SetIterationTime(
        static_cast<double>(os::NowNs(CLOCK_THREAD_CPUTIME_ID) - start) * 1e-9);
  }
}
BENCHMARK(BM_IdleRing)
    ->RangeMultiplier(10)
    ->Range(1, 1000)
    ->UseManualTime()
    ->Iterations(1);

// Time per packet of 64 bytes from the only busy ring to the target buffer,
// beside range(0) idle ones.
void BM_HotRingAmongIdle(benchmark::State& state) {
  constexpr int kPackets = 8000;  // a little more than half a ring
  const auto consumer = NewConsumer();
  const Rings rings = AttachRings(*consumer, state.range(0));
  BenchmarkRing hot(1024 * 1024, 4096);
  Attach(*consumer, hot);
  const auto writer = NewWriter(hot, 1);
  hot.shared()->consumer_attached().store(true);
  while (state.KeepRunningBatch(kPackets)) {
    for (int i = 0; i < kPackets; ++i) WritePacket64(*writer, 1);
    const int64_t start = os::NowNs(CLOCK_THREAD_CPUTIME_ID);
    consumer->Flush(std::chrono::seconds(1));
    state.SetIterationTime(
        static_cast<double>(os::NowNs(CLOCK_THREAD_CPUTIME_ID) - start) * 1e-9);
  }
  if (writer->ReadStats().lost != 0) state.SkipWithError("lost packets");
}
BENCHMARK(BM_HotRingAmongIdle)
    ->RangeMultiplier(10)
    ->Range(1, 1000)
    ->UseManualTime();

// Heap bytes of a writer, by chunk size. The time is that of making one.
void BM_WriterMemory(benchmark::State& state) {
  constexpr int kWriters = 256;
  BenchmarkRing ring(1024 * 1024, static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    const size_t before = HeapBytes();
    std::vector<std::unique_ptr<TraceWriterImpl>> writers;
    writers.reserve(kWriters);
    for (int i = 0; i < kWriters; ++i) {
      writers.push_back(NewWriter(ring, static_cast<uint16_t>(i + 1)));
    }
    state.counters["bytes"] =
        static_cast<double>(HeapBytes() - before) / kWriters;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kWriters);
}
BENCHMARK(BM_WriterMemory)->Arg(256)->Arg(4096)->Arg(32768);

// Heap bytes of a ring in the consumer, which is besides its shared memory.
void BM_RingMemory(benchmark::State& state) {
  constexpr int kRings = 64;
  for (auto _ : state) {
    const auto consumer = NewConsumer();
    Rings rings;
    for (int i = 0; i < kRings; ++i) {
      rings.push_back(std::make_unique<BenchmarkRing>(
          256 * 1024, static_cast<uint32_t>(state.range(0))));
    }
    const size_t before = HeapBytes();
    for (const auto& ring : rings) Attach(*consumer, *ring);
    state.counters["bytes"] =
        static_cast<double>(HeapBytes() - before) / kRings;
  }
}
BENCHMARK(BM_RingMemory)->Arg(256)->Arg(4096)->Arg(32768)->Iterations(1);

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
