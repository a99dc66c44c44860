// A producer and a consumer in two processes, each on a core of its own: the
// cost of a packet at full speed under the stall policy, beside what it costs
// with nobody else in the ring; and the time from publishing a packet to its
// delivery, beside that of a bare eventfd.
//
// The ring is attached by hand, so that the benchmark can look at its cursors;
// the consumer is the public one with its own thread.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "benchmarks/benchmark_ring.h"
#include "benchmarks/floor.h"
#include "benchmarks/pin.h"
#include "src/common/os/eventfd.h"
#include "tracering/consumer.h"

namespace tracering::internal {
namespace {

constexpr uint32_t kRingBytes = 1024 * 1024;
constexpr uint32_t kChunkSize = 4096;
constexpr uint64_t kTimestamp = uint64_t{1} << 50;

// Runs `body` in a child, on the first core, and kills it at the end. `body`
// says through its argument that it is ready.
class OtherProcess {
 public:
  template <typename Body>
  explicit OtherProcess(Body body) {
    void* const page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::abort();
    shared_ = new (page) Shared;
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      PinThread(0);
      body(shared_->word);
      _exit(0);
    }
    PinThread(1);
    while (shared_->word.load() == 0) usleep(1000);
  }
  ~OtherProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(shared_, sizeof(Shared));
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const std::atomic<uint64_t>& word() const { return shared_->word; }

 private:
  struct Shared {
    alignas(128) std::atomic<uint64_t> word{0};
  };
  Shared* shared_;
  pid_t pid_;
};

// A consumer for `ring` in a process of its own.
class ConsumerProcess {
 public:
  ConsumerProcess(BenchmarkRing& ring, uint32_t wakeup_threshold)
      : ring_(ring),
        process_([&ring, wakeup_threshold](std::atomic<uint64_t>& ready) {
          Consume(ring, wakeup_threshold, ready);
        }) {
    ring.shared()->consumer_attached().store(true);
  }
  ~ConsumerProcess() { ring_.shared()->consumer_attached().store(false); }

 private:
  static void Consume(BenchmarkRing& ring, uint32_t wakeup_threshold,
                      std::atomic<uint64_t>& ready) {
    ConsumerOptions options;
    options.buffers = {{"main", 1 << 20, FillPolicy::kRing}};
    options.wakeup_threshold = wakeup_threshold;
    auto consumer = Consumer::Create(options);
    if (!consumer.ok() || !(*consumer)->AttachRing(AttachOptions(ring)).ok() ||
        !(*consumer)->Start().ok()) {
      std::abort();
    }
    ready.store(1);
    for (;;) pause();
  }

  BenchmarkRing& ring_;
  OtherProcess process_;
};

WriterOptions Stalling() {
  WriterOptions options;
  options.policy = BufferExhaustedPolicy::kStall;
  options.stall_timeout = std::chrono::seconds(60);
  return options;
}

// What WritePacket64 costs in a ring that nobody else touches.
double QuietSeconds() {
  constexpr int kPackets = 2000;
  BenchmarkRing ring(256 * 1024, kChunkSize);
  const auto writer = NewWriter(ring, 1);
  std::vector<double> runs;
  for (int run = 0; run < 500; ++run) {
    runs.push_back(SecondsOf([&] {
                     for (int i = 0; i < kPackets; ++i) {
                       WritePacket64(*writer, kTimestamp);
                     }
                   }) /
                   kPackets);
    ring.Drain();
  }
  return Median(std::move(runs));
}

void BM_EndToEnd64(benchmark::State& state) {
  constexpr int64_t kPackets = 200'000;
  PinThread(1);
  const double quiet = QuietSeconds();
  BenchmarkRing ring(kRingBytes, kChunkSize);
  ConsumerProcess consumer(ring, 0);
  const auto writer = NewWriter(ring, 1, Stalling());
  std::vector<double> times;
  while (state.KeepRunningBatch(kPackets)) {
    times.push_back(SecondsOf([&] {
      for (int64_t i = 0; i < kPackets; ++i) {
        WritePacket64(*writer, kTimestamp);
      }
    }));
    state.SetIterationTime(times.back());
  }
  if (writer->ReadStats().lost != 0) state.SkipWithError("lost packets");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  ReportVsFloor(state, Median(times) / kPackets, quiet);
}
BENCHMARK(BM_EndToEnd64)->UseManualTime();

// --- Latency ---

// Reports the median of `sample`, a function that returns seconds.
template <typename Sample>
double ReportLatency(benchmark::State& state, Sample sample) {
  constexpr int kSamples = 2000;
  double median = 0;
  for (auto _ : state) {
    std::vector<double> times;
    for (int i = 0; i < kSamples; ++i) {
      // The other side goes to sleep.
      usleep(100);
      times.push_back(sample());
    }
    std::sort(times.begin(), times.end());
    median = times[kSamples / 2];
    state.SetIterationTime(median);
    state.counters["p99_ns"] = times[kSamples * 99 / 100] * 1e9;
  }
  return median;
}

// From a write of an eventfd until a process that slept in epoll_wait has
// stored a word.
double MeasureEventFd(benchmark::State& state) {
  const auto event_fd = os::CreateEventFd();
  if (!event_fd.ok()) std::abort();
  OtherProcess other([&](std::atomic<uint64_t>& word) {
    const int epoll = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    epoll_ctl(epoll, EPOLL_CTL_ADD, event_fd->get(), &event);
    word.store(1);
    for (;;) {
      if (epoll_wait(epoll, &event, 1, -1) == 1) word.fetch_add(1);
    }
  });
  return ReportLatency(state, [&] {
    const uint64_t before = other.word().load();
    return SecondsOf([&] {
      os::SignalEventFd(event_fd->get());
      while (other.word().load(std::memory_order_acquire) == before) {
      }
    });
  });
}

void BM_Floor_EventFdWake(benchmark::State& state) { MeasureEventFd(state); }
BENCHMARK(BM_Floor_EventFdWake)->UseManualTime()->Iterations(1);

// From the beginning of a packet until the consumer has stored it and published
// its position.
void BM_Latency(benchmark::State& state) {
  BenchmarkRing ring(kRingBytes, kChunkSize);
  ConsumerProcess consumer(ring, 1);
  const auto writer = NewWriter(ring, 1, Stalling());
  ReportLatency(state, [&] {
    return SecondsOf([&] {
      WritePacket64(*writer, kTimestamp);
      const abi::Position end = ring.ring().LoadWritePosRelaxed();
      while (ring.ring().LoadReadPosAcquire() != end) {
      }
    });
  });
}
BENCHMARK(BM_Latency)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
