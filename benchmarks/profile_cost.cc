// What the profiler costs a program, whole: CPU time of the process for the
// same work with and without it, in turns, in one run.
//
//   profile_cost [turns [threads [frequency_hz]]]     default: 60 1 100
//
// A consumer in a process of its own takes what is traced. Each turn is some
// pieces of work with the profiler and as many without; the order alternates.
// What else happens on the machine makes a piece longer, never shorter, and by
// more than the profiler does: the quickest pieces of both kinds are compared.
// Each profiler has first to read the symbols that it needs; that is measured
// apart, as it comes once in a program's life.
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
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
// Of a piece: some 0.4 seconds of CPU time, so that what wakes up many times a
// second is there in proportion.
constexpr uint64_t kRounds = 200'000'000;
constexpr int kPieces = 6;  // of each kind, in a turn

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

// CPU time of the whole process for pieces of work, each done by all `threads`.
// These stay the same: a program does not make new ones all the time.
class Workers {
 public:
  explicit Workers(int threads) : threads_(threads) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { Run(); });
  }
  ~Workers() {
    Begin(0);
    for (std::thread& worker : workers_) worker.join();
  }

  double Work(uint64_t rounds) {
    const double start = ProcessCpuSeconds();
    Begin(rounds);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return working_ == 0; });
    return ProcessCpuSeconds() - start;
  }

 private:
  void Begin(uint64_t rounds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rounds_ = rounds;
    working_ = threads_;
    ++piece_;
    changed_.notify_all();
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (uint64_t piece = 1;; ++piece) {
      changed_.wait(lock, [&] { return piece_ == piece; });
      const uint64_t rounds = rounds_;
      if (rounds == 0) return;
      lock.unlock();
      const uint64_t result = Spin(kDepth, rounds);
      lock.lock();
      sum_ += result;  // the work is wanted
      if (--working_ == 0) changed_.notify_all();
    }
  }

  const int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  uint64_t rounds_ = 0;  // 0: end
  uint64_t piece_ = 0;
  int working_ = 0;
  uint64_t sum_ = 0;

  std::vector<std::thread> workers_;
};

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

// Signals of the process's CPU time, to a handler that returns. 0: none.
void SetTimer(int frequency) {
  struct sigaction action = {};
  action.sa_handler = frequency != 0 ? [](int) {} : SIG_DFL;
  itimerval timer = {};
  if (frequency != 0) {
    timer.it_interval.tv_sec = 1 / frequency;
    timer.it_interval.tv_usec = 1'000'000 / frequency % 1'000'000;
    timer.it_value = timer.it_interval;
    sigaction(SIGPROF, &action, nullptr);
  }
  setitimer(ITIMER_PROF, &timer, nullptr);
  if (frequency == 0) sigaction(SIGPROF, &action, nullptr);
}

// The value that so much of them, from 0 to 1, lies below.
double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size()))];
}

// By how much the second is more, in percent.
double MorePercent(double without, double with) {
  return 100 * (with / without - 1);
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
  const int turns = Argument(argc, argv, 1, 60);
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
  constexpr uint64_t kWarmUp = kRounds / 2;
  std::vector<double> without;
  std::vector<double> with;
  std::vector<double> with_signals;
  std::vector<double> starts;
  uint64_t samples = 0;
  double profiled = 0;
  Workers workers(threads);
  const auto work_pieces = [&](std::vector<double>* out) {
    for (int i = 0; i < kPieces; ++i) out->push_back(workers.Work(kRounds));
  };
  const auto work_without = [&] {
    workers.Work(kWarmUp);
    work_pieces(&without);
  };
  const auto work_with_signals = [&] {
    SetTimer(frequency);
    workers.Work(kWarmUp);
    work_pieces(&with_signals);
    SetTimer(0);
  };
  const auto work_with = [&] {
    const double start = ProcessCpuSeconds();
    const auto profiler =
        OrDie(tracering::CpuProfiler::Start(*producer, profiler_options));
    workers.Work(kWarmUp);
    starts.push_back(ProcessCpuSeconds() - start);
    work_pieces(&with);
    profiler->Stop();
    samples += profiler->stats().samples;
    profiled += ProcessCpuSeconds() - start;
  };
  for (int i = 0; i < turns; ++i) {
    if (i % 2 == 0) {
      work_without();
      work_with_signals();
      work_with();
    } else {
      work_with();
      work_with_signals();
      work_without();
    }
  }
  std::printf("%d turns, %d threads, %d Hz: %.1f samples per CPU second\n",
              turns, threads, frequency,
              static_cast<double>(samples) / profiled);
  std::printf("cost, by the quickest so many of %zu pieces of each kind:\n",
              with.size());
  for (const double q : {0.01, 0.05, 0.1, 0.25, 0.5}) {
    const double base = Quantile(without, q);
    std::printf("%3.0f %%: %+.3f %%, the kernel alone %+.3f %%\n", 100 * q,
                MorePercent(base, Quantile(with, q)),
                MorePercent(base, Quantile(with_signals, q)));
  }
  std::printf("start: median %.1f ms, once\n",
              1000 * (Quantile(starts, 0.5) - Quantile(with, 0.5) / 2));
  unlink(socket_path.c_str());
  return EXIT_SUCCESS;
}
