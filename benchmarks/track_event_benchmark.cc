// What a track event costs its thread, beside a floor that none can go below
// which reads a clock and hands a packet over in two steps: the clock, and two
// uncontended compare-exchanges on one word.
//
// As a program has it: StartTracing, the macros, and a service in the same
// process that takes what was traced while the time stands still. `vs_floor` is
// the time of an iteration over that of its floor, measured just before.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "benchmarks/floor.h"
#include "src/producer/tsc_clock.h"
#include "tracering/clock.h"
#include "tracering/consumer.h"
#include "tracering/track_event.h"

namespace tracering {
namespace {

using internal::TscClock;

// Fits the second-level cache, like a ring whose reader keeps up.
constexpr size_t kRingBytes = 256 * 1024;
// Of the largest events, what certainly fits.
constexpr int kBatch = 1500;

class TracedProcess {
 public:
  explicit TracedProcess(TraceClock clock) {
    char directory[] = "/tmp/tracering_benchmark_XXXXXX";
    if (mkdtemp(directory) == nullptr) std::abort();
    directory_ = directory;
    ConsumerOptions service;
    service.socket_path = directory_ + "/socket";
    service.enabled_categories = {"on"};
    auto consumer = Consumer::Create(service);
    if (!consumer.ok()) std::abort();
    consumer_ = *std::move(consumer);
    TracingOptions options;
    options.producer.socket_path = service.socket_path;
    options.producer.ring_size = kRingBytes;
    options.clock = clock;
    if (!StartTracing(options).ok()) std::abort();
    while (!TracingProducer()->consumer_attached()) consumer_->ProcessReady();
  }
  ~TracedProcess() {
    StopTracing();
    consumer_ = nullptr;
    rmdir(directory_.c_str());
  }

  void Drain() { consumer_->Flush(std::chrono::seconds(1)); }
  bool LostAny() const { return TracingProducer()->stats().lost != 0; }

 private:
  std::string directory_;
  std::unique_ptr<Consumer> consumer_;
};

template <uint64_t (*kClock)()>
struct Floor {
  void Step() {
    uint32_t expected = 1;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 2, std::memory_order_acquire, std::memory_order_relaxed));
    benchmark::DoNotOptimize(kClock());
    expected = 2;
    benchmark::DoNotOptimize(word.compare_exchange_strong(
        expected, 1, std::memory_order_release, std::memory_order_acquire));
  }

  alignas(64) std::atomic<uint32_t> word{1};
};

// Without the calibration, which nothing that reads a counter needs.
uint64_t ReadCounter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return NowNs();
#endif
}

double FloorOf(TraceClock clock) {
  return clock == TraceClock::kTsc ? MeasureFloor<Floor<ReadCounter>>()
                                   : MeasureFloor<Floor<NowNs>>();
}

void BM_Floor_ClockTwoCas(benchmark::State& state) {
  static Floor<NowNs> floor;
  for (auto _ : state) floor.Step();
}
BENCHMARK(BM_Floor_ClockTwoCas);

void BM_Floor_TscTwoCas(benchmark::State& state) {
  static Floor<ReadCounter> floor;
  for (auto _ : state) floor.Step();
}
BENCHMARK(BM_Floor_TscTwoCas);

void BM_TscClock(benchmark::State& state) {
  TscClock::Use(true);
  for (auto _ : state) benchmark::DoNotOptimize(TscClock::Now());
  TscClock::Use(false);
}
BENCHMARK(BM_TscClock);

// Times `trace`, which writes `events` events.
template <typename Trace>
void TimeEvents(benchmark::State& state, TraceClock clock, int events,
                const Trace& trace) {
  TracedProcess process(clock);
  if (tracing_stats().clock != clock) {
    state.SkipWithError("no such clock here");
    return;
  }
  const double floor = FloorOf(clock);
  Batches batches(state);
  batches.TimeAll(kBatch / events, trace, [&] { process.Drain(); });
  ReportVsFloor(state, batches.seconds(), floor * events);
  if (process.LostAny()) state.SkipWithError("lost events");
}

void BM_InstantDisabled(benchmark::State& state) {
  TracedProcess process(TraceClock::kBoottime);
  uint64_t value = 0;
  for (auto _ : state) {
    TRACERING_INSTANT("off", "instant", "value", value);
    // As much as there is of a loop around it.
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK(BM_InstantDisabled);

void BM_Instant(benchmark::State& state, TraceClock clock) {
  TimeEvents(state, clock, 1, [] { TRACERING_INSTANT("on", "instant"); });
}
BENCHMARK_CAPTURE(BM_Instant, , TraceClock::kBoottime)
    ->Name("BM_Instant")
    ->UseManualTime();
BENCHMARK_CAPTURE(BM_Instant, , TraceClock::kTsc)
    ->Name("BM_Instant_Tsc")
    ->UseManualTime();

void BM_InstantArgs(benchmark::State& state, TraceClock clock) {
  std::string text = "0123456789abcdef";
  int number = 0;
  TimeEvents(state, clock, 1, [&] {
    benchmark::DoNotOptimize(text);
    TRACERING_INSTANT("on", "instant", "number", ++number, "text", text);
  });
}
BENCHMARK_CAPTURE(BM_InstantArgs, , TraceClock::kBoottime)
    ->Name("BM_InstantArgs")
    ->UseManualTime();
BENCHMARK_CAPTURE(BM_InstantArgs, , TraceClock::kTsc)
    ->Name("BM_InstantArgs_Tsc")
    ->UseManualTime();

void BM_ScopeBeginEnd(benchmark::State& state, TraceClock clock) {
  TimeEvents(state, clock, 2, [] { TRACERING_SCOPE("on", "scope"); });
}
BENCHMARK_CAPTURE(BM_ScopeBeginEnd, , TraceClock::kBoottime)
    ->Name("BM_ScopeBeginEnd")
    ->UseManualTime();
BENCHMARK_CAPTURE(BM_ScopeBeginEnd, , TraceClock::kTsc)
    ->Name("BM_ScopeBeginEnd_Tsc")
    ->UseManualTime();

void BM_InstantNamed(benchmark::State& state) {
  std::string name = "made at run time";
  TimeEvents(state, TraceClock::kBoottime, 1, [&] {
    benchmark::DoNotOptimize(name);
    TRACERING_INSTANT("on", name);
  });
}
BENCHMARK(BM_InstantNamed)->UseManualTime();

void BM_Counter(benchmark::State& state) {
  int64_t value = 0;
  TimeEvents(state, TraceClock::kBoottime, 1,
             [&] { TRACERING_COUNTER("on", "counter", ++value); });
}
BENCHMARK(BM_Counter)->UseManualTime();

}  // namespace
}  // namespace tracering

BENCHMARK_MAIN();
