// What the profiler costs a program, whole: what it adds to the CPU time of a
// busy thread, and what its background thread takes.
//
//   profile_cost [seconds [frequency_hz]]     default: 120 100
//
// How fast a core runs changes within seconds, by far more than the profiler
// costs. So the thread does pieces of the same work, with signals and without
// in quick turns, and each is compared with its neighbour. Without signals
// means: the signal is blocked and one is pending already, which keeps the
// timer from expiring. The same with a bare timer and a handler that returns
// tells what of it is the kernel's, and with no timer how exact all this is.
// Other threads take what the process has taken and this thread has not. A
// second process consumes what is traced.
//
// Each profiler has first to read the symbols that it needs; that comes once in
// a program's life, and is left out.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/pin.h"
#include "src/common/os/clock.h"
#include "src/common/os/process.h"
#include "tracering/consumer.h"
#include "tracering/cpu_profiler.h"
#include "tracering/producer.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace {

using tracering::CpuProfiler;
using tracering::os::NowNs;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int kDepth = 16;
// Of a turn, some 20 ms.
constexpr uint64_t kRounds = 8'000'000;

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "profile_cost: %s\n", message.c_str());
  std::exit(EXIT_FAILURE);
}

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) Die(std::string(result.status().message()));
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

// What of this thread's CPU time it takes, in ns.
double Work(uint64_t rounds) {
  const int64_t start = NowNs(CLOCK_THREAD_CPUTIME_ID);
  benchmark::DoNotOptimize(rounds);  // or it is done once for all
  benchmark::DoNotOptimize(Spin(kDepth, rounds));
  return static_cast<double>(NowNs(CLOCK_THREAD_CPUTIME_ID) - start);
}

// Ends no later than this process.
void StartConsumer(const std::string& socket_path) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) Die("cannot fork");
  if (child != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);
  tracering::ConsumerOptions options;
  options.socket_path = socket_path;
  options.buffers = {{"main", size_t{8} << 20}};
  const auto consumer = OrDie(tracering::Consumer::Create(options));
  if (const absl::Status status = consumer->Start(); !status.ok()) {
    Die(std::string(status.message()));
  }
  for (;;) pause();
}

void Mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPROF);
  pthread_sigmask(how, &signals, nullptr);
}

bool SignalIsPending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPROF) == 1;
}

// All of the profiler but what its handler and background thread do.
class BareTimer {
 public:
  explicit BareTimer(int frequency) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGPROF, &action, &before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event.sigev_notify_thread_id = tracering::os::CurrentThreadId();
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) {
      Die("no timer");
    }
    itimerspec times{};
    times.it_interval.tv_sec = 1 / frequency;
    times.it_interval.tv_nsec = kSecondNs / frequency % kSecondNs;
    times.it_value = times.it_interval;
    timer_settime(timer_, 0, &times, nullptr);
  }
  ~BareTimer() {
    timer_delete(timer_);
    sigaction(SIGPROF, &before_, nullptr);
  }
  BareTimer(const BareTimer&) = delete;
  BareTimer& operator=(const BareTimer&) = delete;

 private:
  struct sigaction before_ {};
  timer_t timer_{};
};

// With its standard error. What lies in the tenth at either end has met
// something else that happens on the machine.
void PrintTrimmedMean(const char* name, std::vector<double> values) {
  constexpr size_t kTrimmed = 10;
  const size_t tail = values.size() / kTrimmed;
  const auto kept = static_cast<double>(values.size() - 2 * tail);
  std::sort(values.begin(), values.end());
  double mean = 0;
  for (size_t i = tail; i < values.size() - tail; ++i) mean += values[i] / kept;
  double squares = 0;
  for (const double value : values) {
    const double inside =
        std::clamp(value, values[tail], values[values.size() - tail - 1]);
    squares += (inside - mean) * (inside - mean);
  }
  std::printf("%-12s %+.3f %% +- %.3f\n", name, mean,
              std::sqrt(squares) / kept);
}

// Works for some seconds, and prints by how many percent it takes longer with
// signals than without. `has_timer`: there are any.
void Compare(const char* name, int seconds, bool has_timer) {
  const auto without_signals = [&] {
    Mask(SIG_BLOCK);
    while (has_timer && !SignalIsPending()) Work(kRounds / 20);
    const double ns = Work(kRounds);
    Mask(SIG_UNBLOCK);
    return ns;
  };
  std::vector<double> percents;
  const int64_t end = NowNs(CLOCK_THREAD_CPUTIME_ID) + seconds * kSecondNs;
  for (bool first = true; NowNs(CLOCK_THREAD_CPUTIME_ID) < end;
       first = !first) {
    double with = first ? Work(kRounds) : 0;
    const double without = without_signals();
    if (!first) with = Work(kRounds);
    percents.push_back(100 * (with / without - 1));
  }
  PrintTrimmedMean(name, std::move(percents));
}

int Argument(int argc, char** argv, int index, int fallback) {
  if (index >= argc) return fallback;
  char* end = nullptr;
  const long value = std::strtol(argv[index], &end, 10);
  if (*end != '\0' || value < 1 || value > 10'000) {
    Die("'" + std::string(argv[index]) + "' must be from 1 to 10000");
  }
  return static_cast<int>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = Argument(argc, argv, 1, 120);
  const int frequency = Argument(argc, argv, 2, 100);
  const std::string socket_path =
      "/tmp/profile_cost-" + std::to_string(getpid()) + ".sock";
  StartConsumer(socket_path);
  tracering::ProducerOptions options;
  options.name = "profile_cost";
  options.socket_path = socket_path;
  const auto producer = OrDie(tracering::Producer::Create(options));
  if (!producer->WaitForConsumer(std::chrono::seconds(10))) Die("no consumer");
  tracering::CpuProfilerOptions profiler_options;
  profiler_options.frequency_hz = static_cast<uint32_t>(frequency);
  auto profiler = OrDie(CpuProfiler::Start(*producer, profiler_options));
  // The background thread is where the kernel puts it.
  tracering::PinThread(1);

  // It knows the symbols then, and wakes up as rarely as it will.
  for (int i = 0; i < 400; ++i) Work(kRounds);
  const uint64_t samples = profiler->stats().samples;
  const int64_t process = NowNs(CLOCK_PROCESS_CPUTIME_ID);
  const int64_t thread = NowNs(CLOCK_THREAD_CPUTIME_ID);
  Compare("the profiler", seconds, true);
  const auto all =
      static_cast<double>(NowNs(CLOCK_PROCESS_CPUTIME_ID) - process);
  const auto own = static_cast<double>(NowNs(CLOCK_THREAD_CPUTIME_ID) - thread);
  std::printf("its thread   %+.3f %% (%.3f ms a second)\n",
              100 * (all - own) / all, 1000 * (all - own) / all);
  std::printf("%.1f samples a second\n",
              static_cast<double>(profiler->stats().samples - samples) /
                  (own / static_cast<double>(kSecondNs)));
  profiler->Stop();

  {
    const BareTimer timer(frequency);
    Compare("a bare timer", seconds, true);
  }
  Compare("nothing", seconds, false);
  unlink(socket_path.c_str());
  return EXIT_SUCCESS;
}
