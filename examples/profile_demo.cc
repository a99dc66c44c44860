// The profiled side of the demo: threads that spend most of their CPU time in
// one function, traced as slices and sampled at the same time. Run it against
// demo_consumer; the file shows both.
//
// Knows the public headers only, as any program would. Built with frame
// pointers, by which the profiler finds the callers of what it hits.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/command_line.h"
#include "examples/demo_session.h"
#include "tracering/cpu_profiler.h"
#include "tracering/producer.h"
#include "tracering/track_event.h"

// Outside of any namespace, for names that are short in a flame graph. Not
// inlined, so that each has a frame of its own, and with work after each call,
// so that none becomes a jump.
uint64_t SpinHot(uint64_t seed, uint64_t rounds);
uint64_t SpinCold(uint64_t seed, uint64_t rounds);
uint64_t HandleRequest(uint64_t seed);

namespace {

// Somebody may want it: the work cannot be left out.
std::atomic<uint64_t> result{0};

const char kUsage[] =
    "usage: profile_demo [options]\n"
    "\n"
    "Keeps threads busy, six sevenths of the time in SpinHot, and traces it\n"
    "twice: as slices, and by sampling.\n"
    "\n"
    "  --threads N             default: 2\n"
    "  --cpu-ms N              CPU time that each thread uses; default: 1000\n"
    "  --requests N            that each thread serves, in place of --cpu-ms\n"
    "  --frequency HZ          samples for each second of CPU time, or 0 for\n"
    "                          no profiler; default: 100\n"
    "  --wait-ms N             how long to wait for a consumer before the\n"
    "                          work begins; default: 5000\n"
    "  --socket PATH           where the consumer listens; default:\n"
    "                          $TRACERING_SOCKET, else\n"
    "                          $XDG_RUNTIME_DIR/tracering.sock, else\n"
    "                          /tmp/tracering-UID.sock\n"
    "  --help                  this text\n"
    "\n"
    "The last line on standard output is for machines:\n"
    "  attempted=N lost=N samples=N samples_lost=N\n"
    "for the packets of all threads, and for what the profiler sampled.\n";

struct Arguments {
  uint64_t threads = 2;
  uint64_t cpu_ms = 1000;
  uint64_t requests = 0;  // 0: as many as there is time for
  uint64_t frequency = 100;
  uint64_t wait_ms = 5000;
  std::string socket_path;
};

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  CommandLine line("profile_demo", argc, argv);
  while (line.Next()) {
    if (line.name() == "--threads") {
      arguments.threads = line.Number(1, 1000);
    } else if (line.name() == "--cpu-ms") {
      arguments.cpu_ms = line.Number(1, 3'600'000);
    } else if (line.name() == "--requests") {
      arguments.requests = line.Number(1, 1'000'000'000);
    } else if (line.name() == "--frequency") {
      arguments.frequency = line.Number(0, 10'000);
    } else if (line.name() == "--wait-ms") {
      arguments.wait_ms = line.Number(0, 3'600'000);
    } else if (line.name() == "--socket") {
      arguments.socket_path = line.Value();
    } else if (line.name() == "--help") {
      line.NoValue();
      std::cout << kUsage;
      std::exit(EXIT_SUCCESS);
    } else {
      line.FailUnknown();
    }
  }
  return arguments;
}

uint64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(used.tv_nsec);
}

// Requests, one slice each, until the thread has had its CPU time or its
// requests.
void ServeRequests(const Arguments& arguments) {
  const tracering::ScopedProfileLabel label("requests");
  const uint64_t end = ThreadCpuNs() + arguments.cpu_ms * 1'000'000;
  uint64_t sum = 1;
  for (uint64_t left = arguments.requests;
       arguments.requests != 0 ? left != 0 : ThreadCpuNs() < end; --left) {
    TRACERING_SCOPE("requests", "request");
    sum += HandleRequest(sum);
  }
  result.store(sum, std::memory_order_relaxed);
}

// False: there is none, and a reason on standard error.
bool StartProfiler(tracering::Producer& producer, uint64_t frequency,
                   std::unique_ptr<tracering::CpuProfiler>* profiler) {
  tracering::CpuProfilerOptions options;
  options.frequency_hz = static_cast<uint32_t>(frequency);
  options.buffer = kDemoBuffer;
  absl::StatusOr<std::unique_ptr<tracering::CpuProfiler>> started =
      tracering::CpuProfiler::Start(producer, options);
  if (!started.ok()) {
    std::cerr << "profile_demo: " << started.status().message() << '\n';
    return false;
  }
  *profiler = *std::move(started);
  return true;
}

void PrintAccount(tracering::Producer& producer,
                  const tracering::CpuProfilerStats& sampled) {
  const tracering::Producer::Stats stats = FinalStats("profile_demo", producer);
  std::cout << "attempted=" << stats.attempted << " lost=" << stats.lost
            << " samples=" << sampled.samples
            << " samples_lost=" << sampled.lost() << std::endl;
}

// Goes through a table on the stack, so that the caller has a frame of its own
// to be found by: gcc gives none to a leaf function that uses no stack.
inline uint64_t Spin(uint64_t seed, uint64_t rounds) {
  uint64_t table[8] = {seed, 1, 2, 3, 4, 5, 6, 7};
  for (uint64_t i = 0; i < rounds; ++i) {
    uint64_t& entry = table[seed >> 61];
    seed = seed * 6364136223846793005 + entry;
    entry ^= seed >> 33;
  }
  return seed;
}

}  // namespace

__attribute__((noinline)) uint64_t SpinHot(uint64_t seed, uint64_t rounds) {
  return Spin(seed, rounds) + 1;
}

__attribute__((noinline)) uint64_t SpinCold(uint64_t seed, uint64_t rounds) {
  return Spin(seed, rounds) + 2;
}

// Of any size: equal ones could run in step with the timer that samples them.
__attribute__((noinline)) uint64_t HandleRequest(uint64_t seed) {
  constexpr uint64_t kMaxRounds = 150'000;
  const uint64_t rounds = 1 + seed % kMaxRounds;
  const uint64_t hot = SpinHot(seed, 6 * rounds);
  return hot ^ SpinCold(hot + seed, rounds);
}

int main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  tracering::TracingOptions options;
  options.producer.name = "profile_demo";
  options.producer.socket_path = arguments.socket_path;
  const std::shared_ptr<tracering::Producer> producer =
      StartDemoTracing(options, arguments.wait_ms);
  std::unique_ptr<tracering::CpuProfiler> profiler;
  if (arguments.frequency != 0 &&
      !StartProfiler(*producer, arguments.frequency, &profiler)) {
    return kExitFailure;
  }
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < arguments.threads; ++i) {
    threads.emplace_back([&arguments, i] {
      const std::string name = "worker " + std::to_string(i);
      pthread_setname_np(pthread_self(), name.c_str());
      ServeRequests(arguments);
    });
  }
  for (std::thread& thread : threads) thread.join();
  tracering::CpuProfilerStats sampled;
  if (profiler != nullptr) {
    profiler->Stop();
    sampled = profiler->stats();
  }
  PrintAccount(*producer, sampled);
  tracering::StopTracing();
  return EXIT_SUCCESS;
}
