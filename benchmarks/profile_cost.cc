// What the profiler costs a program, whole: CPU time of the process for the
// same work with and without it, in pairs, in one run.
//
//   profile_cost [pairs [threads [frequency_hz]]]     default: 60 1 100
//
// A consumer in a process of its own takes what is traced. The order within a
// pair alternates. Each profiler has first to read the symbols that it needs;
// that is measured apart, as it comes once in a program's life.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/os/clock.h"
#include "tracering/consumer.h"
#include "tracering/cpu_profiler.h"
#include "tracering/producer.h"

namespace {

constexpr int kDepth = 16;
// About a second of CPU time, so that what wakes up many times a second is
// there in proportion.
constexpr uint64_t kRounds = 600'000'000;

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "profile_cost: %s\n",
                 std::string(result.status().message()).c_str());
    std::exit(EXIT_FAILURE);
  }
  return *std::move(result);
}

__attribute__((noinline)) uint64_t Spin(int depth, uint64_t rounds) {
  if (depth != 0) return Spin(depth - 1, rounds) + 1;
  uint64_t table[8] = {1, 1, 2, 3, 4, 5, 6, 7};
  uint64_t seed = 1;
  for (uint64_t i = 0; i < rounds; ++i) {
    seed = seed * 6364136223846793005 + table[seed >> 61];
    table[seed >> 61] ^= seed >> 33;
  }
  return seed;
}

double ProcessCpuSeconds() {
  return 1e-9 *
         static_cast<double>(tracering::os::NowNs(CLOCK_PROCESS_CPUTIME_ID));
}

// CPU time of the whole process while each of `threads` does the work.
double Work(int threads, uint64_t rounds) {
  const double start = ProcessCpuSeconds();
  std::vector<std::thread> workers;
  std::vector<uint64_t> results(static_cast<size_t>(threads));
  for (uint64_t& result : results) {
    workers.emplace_back([&result, rounds] { result = Spin(kDepth, rounds); });
  }
  for (std::thread& worker : workers) worker.join();
  const double used = ProcessCpuSeconds() - start;
  if (results.front() == 0) std::printf("\n");  // the work is wanted
  return used;
}

// In a process of its own, until this one ends.
void StartConsumer(const std::string& socket_path) {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);
  tracering::ConsumerOptions options;
  options.socket_path = socket_path;
  options.buffers = {{"main", size_t{8} << 20}};
  const auto consumer = OrDie(tracering::Consumer::Create(options));
  if (!consumer->Start().ok()) _exit(EXIT_FAILURE);
  for (;;) pause();
}

struct Summary {
  double mean = 0;
  double error = 0;  // standard error of the mean
  double median = 0;
};

Summary Summarize(std::vector<double> values) {
  Summary summary;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) summary.mean += value / n;
  double squares = 0;
  for (const double value : values) {
    squares += (value - summary.mean) * (value - summary.mean);
  }
  summary.error = std::sqrt(squares / (n * std::max(n - 1, 1.0)));
  std::sort(values.begin(), values.end());
  summary.median = values[values.size() / 2];
  return summary;
}

int Argument(int argc, char** argv, int index, int fallback) {
  if (index >= argc) return fallback;
  char* end = nullptr;
  const long value = std::strtol(argv[index], &end, 10);
  if (*end != '\0' || value < 1 || value > 10'000) {
    std::fprintf(stderr, "profile_cost: '%s' must be from 1 to 10000\n",
                 argv[index]);
    std::exit(2);
  }
  return static_cast<int>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = Argument(argc, argv, 1, 60);
  const int threads = Argument(argc, argv, 2, 1);
  const int frequency = Argument(argc, argv, 3, 100);
  const std::string socket_path =
      "/tmp/profile_cost-" + std::to_string(getpid()) + ".sock";
  StartConsumer(socket_path);
  tracering::ProducerOptions options;
  options.name = "profile_cost";
  options.socket_path = socket_path;
  const auto producer = OrDie(tracering::Producer::Create(options));
  if (!producer->WaitForConsumer(std::chrono::seconds(10))) {
    std::fprintf(stderr, "profile_cost: no consumer\n");
    return EXIT_FAILURE;
  }

  tracering::CpuProfilerOptions profiler_options;
  profiler_options.frequency_hz = static_cast<uint32_t>(frequency);
  constexpr uint64_t kWarmUp = kRounds / 4;
  std::vector<double> costs;
  std::vector<double> starts;
  uint64_t samples = 0;
  double profiled = 0;
  const auto without = [&] {
    Work(threads, kWarmUp);
    return Work(threads, kRounds);
  };
  const auto with = [&] {
    const double start = ProcessCpuSeconds();
    const auto profiler =
        OrDie(tracering::CpuProfiler::Start(*producer, profiler_options));
    Work(threads, kWarmUp);
    starts.push_back(ProcessCpuSeconds() - start);
    const double used = Work(threads, kRounds);
    profiler->Stop();
    samples += profiler->stats().samples;
    profiled += used + starts.back();
    return used;
  };
  for (int i = 0; i < pairs; ++i) {
    double base;
    double cost;
    if (i % 2 == 0) {
      base = without();
      cost = with();
    } else {
      cost = with();
      base = without();
    }
    costs.push_back(cost / base - 1);
    starts.back() -= cost * kWarmUp / kRounds;
  }
  const Summary cost = Summarize(costs);
  const Summary start = Summarize(starts);
  std::printf("%d pairs, %d threads, %d Hz: %.1f samples per CPU second\n",
              pairs, threads, frequency,
              static_cast<double>(samples) / profiled);
  std::printf("cost: mean %+.3f %% +- %.3f, median %+.3f %%\n", 100 * cost.mean,
              100 * cost.error, 100 * cost.median);
  std::printf("start: median %.1f ms, once\n", 1000 * start.median);
  unlink(socket_path.c_str());
  return EXIT_SUCCESS;
}
