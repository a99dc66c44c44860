// The floor under a benchmark: what no code that does the same can go below.
//
// Knows nothing of what is measured. One thread; results mean something only
// within one run of a program.
#ifndef TRACERING_BENCHMARKS_FLOOR_H_
#define TRACERING_BENCHMARKS_FLOOR_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

namespace tracering {

// Seconds that a Step() of a Floor takes, the best of some runs.
template <typename Floor>
double MeasureFloor() {
  constexpr int kSteps = 200'000;
  static Floor floor;
  double best = 1;
  for (int run = 0; run < 10; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) floor.Step();
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / kSteps);
  }
  return best;
}

// Reports the time of an iteration over `floor_seconds` as `vs_floor`; the unit
// that the library prints behind it means nothing.
inline void ReportVsFloor(benchmark::State& state, double floor_seconds) {
  using benchmark::Counter;
  state.counters["vs_floor"] =
      Counter(floor_seconds * static_cast<double>(state.iterations()),
              static_cast<Counter::Flags>(Counter::kIsRate | Counter::kInvert));
}

}  // namespace tracering

#endif  // TRACERING_BENCHMARKS_FLOOR_H_
