// The floors under the benchmarks: what no code that does the same can go
// below, and how a time is reported beside them.
//
// Knows nothing of what is measured. One thread; results mean something only
// within one run of a program.
#ifndef TRACERING_BENCHMARKS_FLOOR_H_
#define TRACERING_BENCHMARKS_FLOOR_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace tracering {

// Two uncontended compare-exchanges on one word, and a copy of kSize bytes
// between them: what a packet costs at least.
template <size_t kSize>
class CopyTwoCas {
 public:
  void Step() {
    uint32_t expected = 1;
    benchmark::DoNotOptimize(word_.compare_exchange_strong(
        expected, 2, std::memory_order_acquire, std::memory_order_relaxed));
    if (kSize != 0) {
      std::memcpy(bytes_ + place_ * kSize, source_, kSize);
      benchmark::ClobberMemory();
      place_ = place_ + 1 == kPlaces ? 0 : place_ + 1;
    }
    expected = 2;
    benchmark::DoNotOptimize(word_.compare_exchange_strong(
        expected, 1, std::memory_order_release, std::memory_order_acquire));
  }

 private:
  static constexpr size_t kPlaces = kSize == 0 ? 1 : 4096 / kSize;

  alignas(64) std::atomic<uint32_t> word_{1};
  size_t place_ = 0;
  alignas(64) uint8_t bytes_[4096] = {};
  alignas(64) uint8_t source_[kSize + 1] = {};
};
using TwoCas = CopyTwoCas<0>;

// A copy of `size` bytes and a compare-exchange: what handing a chunk over
// costs at least. The bytes come from places `stride` apart in memory of
// `from_bytes`, and go one behind the other to memory of `to_bytes`.
class CopyOneCas {
 public:
  CopyOneCas(size_t size, size_t stride, size_t from_bytes, size_t to_bytes)
      : size_(size), stride_(stride), from_(from_bytes), to_(to_bytes) {
    // Touched: page faults are not part of a floor.
    std::memset(from_.data(), 'x', from_.size());
    std::memset(to_.data(), 'x', to_.size());
  }

  void Step() {
    if (from_.size() - from_at_ < stride_) from_at_ = 0;
    if (to_.size() - to_at_ < size_) to_at_ = 0;
    std::memcpy(to_.data() + to_at_, from_.data() + from_at_, size_);
    benchmark::ClobberMemory();
    from_at_ += stride_;
    to_at_ += size_;
    uint32_t expected = value_;
    benchmark::DoNotOptimize(word_.compare_exchange_strong(
        expected, ++value_, std::memory_order_release,
        std::memory_order_acquire));
  }

 private:
  const size_t size_;
  const size_t stride_;
  std::vector<uint8_t> from_;
  std::vector<uint8_t> to_;
  size_t from_at_ = 0;
  size_t to_at_ = 0;
  uint32_t value_ = 0;
  alignas(64) std::atomic<uint32_t> word_{0};
};

// What `body` takes.
template <typename Body>
[[gnu::noinline]] double SecondsOf(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - start;
  return time.count();
}

inline double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of a Step() of `floor`, the median of some runs.
template <typename Floor>
double MeasureFloor(Floor& floor, int steps_per_run = 20'000) {
  std::vector<double> runs;
  for (int run = 0; run < 41; ++run) {
    runs.push_back(SecondsOf([&] {
                     for (int i = 0; i < steps_per_run; ++i) floor.Step();
                   }) /
                   steps_per_run);
  }
  return Median(std::move(runs));
}

template <typename Floor>
double MeasureFloor() {
  static Floor floor;
  return MeasureFloor(floor);
}

// Reports a floor and the ratio to it of the time of an iteration.
inline void ReportVsFloor(benchmark::State& state, double seconds,
                          double floor_seconds) {
  state.counters["floor_ns"] = floor_seconds * 1e9;
  state.counters["vs_floor"] = seconds / floor_seconds;
}

// Iterations in all TimedRegions of this process. With the number of
// instructions in them, which callgrind counts (--toggle-collect), it is what
// one iteration executes. A function of its own, so that the compiler does not
// split it and callgrind sees it entered once.
inline int64_t timed_iterations = 0;

template <typename Body>
[[gnu::noinline]] double TimedRegion(Body body) {
  return SecondsOf(body);
}

// Times a benchmark in batches of some microseconds, between which it does
// something else: the library's own pauses cost a microsecond each, which would
// be in the numbers. Reports the median of the batches, which a thread that is
// interrupted now and then does not move. The benchmark has to be registered
// with UseManualTime.
class Batches {
 public:
  explicit Batches(benchmark::State& state) : state_(state) {}
  ~Batches() {
    state_.counters["median_ns"] = seconds() * 1e9;
    state_.counters["timed"] = static_cast<double>(timed_iterations);
  }
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // `body` is `count` iterations.
  template <typename Body>
  void Time(int64_t count, Body body) {
    const double seconds = TimedRegion(body);
    state_.SetIterationTime(seconds);
    timed_iterations += count;
    times_.push_back(seconds / static_cast<double>(count));
  }

  // Times batches of `count` calls of `body`, with `between` after each.
  template <typename Body, typename Between>
  void TimeAll(int64_t count, Body body, Between between) {
    while (state_.KeepRunningBatch(count)) {
      Time(count, [&] {
        for (int64_t i = 0; i < count; ++i) body();
      });
      between();
    }
  }

  // Of an iteration.
  double seconds() const { return times_.empty() ? 0 : Median(times_); }

 private:
  benchmark::State& state_;
  std::vector<double> times_;
};

}  // namespace tracering

#endif  // TRACERING_BENCHMARKS_FLOOR_H_
