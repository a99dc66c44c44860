// Writers and a reader that runs beside them, in one process: what a writer
// pays for being read, how much two cores move in all, and how that scales with
// the number of writers. All under the stall policy: nothing may be lost, and a
// run that loses is an error.
//
// What the threads share besides the ring lies on lines of its own.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "benchmarks/benchmark_ring.h"
#include "benchmarks/floor.h"
#include "benchmarks/pin.h"
#include "benchmarks/storing_sink.h"
#include "src/common/os/clock.h"
#include "src/common/ring/notification.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/target_buffer.h"
#include "src/producer/chunk_writer.h"

namespace tracering::internal {
namespace {

constexpr uint32_t kRingBytes = 1024 * 1024;
constexpr int64_t kFragments = 1'000'000;  // of each writer, per iteration

WriterOptions Stalling() {
  WriterOptions options;
  options.policy = BufferExhaustedPolicy::kStall;
  options.stall_timeout = std::chrono::seconds(60);
  return options;
}

enum class Reading {
  kWatermark,  // sleeps until half the ring is outstanding, as a consumer does
  kPolling,    // looks all the time, and leaves what is below the watermark
  kScraping,   // takes whatever is there, all the time: a flush without end
};

// Drains a ring on a thread of its own.
class ReaderThread {
 public:
  // With a target buffer packets are stored, otherwise only copied.
  ReaderThread(BenchmarkRing& ring, Reading reading, uint64_t target_bytes)
      : ring_(ring),
        threshold_(ring.geometry().num_chunks() / 2),
        reading_(reading),
        reader_(ring.ring()) {
    if (target_bytes != 0) {
      buffer_ = *TargetBuffer::Create(target_bytes, FillPolicy::kRing);
      store_ = std::make_unique<StoringSink>(buffer_.get());
      assembler_ = std::make_unique<PacketAssembler>(store_.get(), &budget_);
    }
    ring.ring().StoreWakeupThreshold(threshold_);
    ring.shared()->consumer_attached().store(true);
    thread_ = std::thread([this] {
      PinThread(0);
      while (!stop_.load(std::memory_order_relaxed)) Step();
      Drain();
    });
  }

  // Takes the rest, and returns the number of fragments that came.
  uint64_t Join() {
    stop_.store(true);
    thread_.join();
    ring_.shared()->consumer_attached().store(false);
    return reader_.stats().fragments;
  }

  const ChunkReaderStats& stats() const { return reader_.stats(); }
  // Sleeps that writers ended, and how often they wrote the eventfd for it.
  uint64_t sleeps() const { return sleeps_; }
  uint64_t signals() const { return signals_; }

 private:
  void OnChunk(const ChunkView& chunk) {
    if (assembler_ != nullptr) assembler_->OnChunk(chunk);
  }
  void Drain() {
    struct Sink {
      ReaderThread* thread;
      void OnChunk(const ChunkView& chunk) { thread->OnChunk(chunk); }
      void OnDroppedChunk(const DroppedChunk&) { std::abort(); }
      void BeforePublication() {}
    };
    Sink sink{this};
    if (reader_.DrainTo(reader_.CaptureEnd(), sink, assembler_.get()) ==
        DrainOutcome::kStopped) {
      std::abort();
    }
  }
  bool AtThreshold() const {
    return OutstandingSeqCst(ring_.ring(), reader_.read_pos()) >= threshold_;
  }
  void Step() {
    if (reading_ == Reading::kScraping || AtThreshold()) {
      Drain();
      return;
    }
    if (reading_ == Reading::kPolling) return;
    ArmReader(ring_.ring());
    if (!AtThreshold()) {
      pollfd waiting{ring_.event_fd(), POLLIN, 0};
      poll(&waiting, 1, 10);
      uint64_t signals;
      if (read(ring_.event_fd(), &signals, sizeof(signals)) > 0) {
        ++sleeps_;
        signals_ += signals;
      }
    }
    DisarmReader(ring_.ring());
  }

  BenchmarkRing& ring_;
  const uint32_t threshold_;
  const Reading reading_;
  ChunkReader reader_;
  std::unique_ptr<TargetBuffer> buffer_;
  std::unique_ptr<StoringSink> store_;
  PartialBudget budget_;
  std::unique_ptr<PacketAssembler> assembler_;
  uint64_t sleeps_ = 0;
  uint64_t signals_ = 0;
  std::thread thread_;
  alignas(128) std::atomic<bool> stop_{false};
};

// Writes 64-byte fragments by the chunk writer alone.
void WriteFragments(BenchmarkRing& ring, uint16_t id) {
  PacketAccount account(*ring.shared());
  ChunkWriter writer(*ring.shared(), account, WriterId(id), BufferId(1),
                     Stalling(), /*owes_loss=*/false);
  alignas(64) uint8_t source[64] = {};
  for (int64_t i = 0; i < kFragments; ++i) {
    FragmentRange range;
    if (!writer.TryOpen(&range) || range.end - range.cur < 64) {
      if (writer.OpenInFreshChunk(&range) != ChunkOutcome::kOk) std::abort();
    }
    std::memcpy(range.cur, source, 64);
    writer.Publish(range.cur + 64);
  }
  writer.GiveBack();
}

void WritePackets(BenchmarkRing& ring, uint16_t id) {
  const auto writer = NewWriter(ring, id, Stalling());
  for (int64_t i = 0; i < kFragments; ++i) {
    WritePacket64(*writer, static_cast<uint64_t>(i) + (uint64_t{1} << 50));
  }
  if (writer->ReadStats().lost != 0) std::abort();
}

// Times `num_writers` threads that run `write`, by the clock, and adds up the
// processor time that they used. What it takes to start a thread beside a
// reader that never sleeps is not counted: all begin once all are there.
class WriterThreads {
 public:
  template <typename Write>
  double Run(BenchmarkRing& ring, int num_writers, Write write) {
    std::atomic<int> missing{num_writers};
    std::vector<Span> spans(static_cast<size_t>(num_writers));
    std::vector<std::thread> writers;
    for (int i = 0; i < num_writers; ++i) {
      writers.emplace_back([&, i] {
        if (num_writers == 1) PinThread(1);
        missing.fetch_sub(1);
        while (missing.load() != 0) std::this_thread::yield();
        const int64_t cpu_before = os::NowNs(CLOCK_THREAD_CPUTIME_ID);
        Span& span = spans[static_cast<size_t>(i)];
        span.begin = os::MonotonicNs();
        write(ring, static_cast<uint16_t>(i + 1));
        span.end = os::MonotonicNs();
        cpu_ns_.fetch_add(os::NowNs(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
      });
    }
    for (std::thread& writer : writers) writer.join();
    Span all = spans.front();
    for (const Span& span : spans) {
      all = {std::min(all.begin, span.begin), std::max(all.end, span.end)};
    }
    return 1e-9 * static_cast<double>(all.end - all.begin);
  }
  int64_t cpu_ns() const { return cpu_ns_.load(); }

 private:
  struct Span {
    int64_t begin = 0;
    int64_t end = 0;
  };

  std::atomic<int64_t> cpu_ns_{0};
};

// `written`: fragments, in packets of one.
void Report(benchmark::State& state, ReaderThread& reader,
            const WriterThreads& writers, uint64_t written) {
  if (reader.Join() < written) state.SkipWithError("lost fragments");
  const auto per_fragment = [written](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(written);
  };
  // Chunks taken from their writers, each of which moves on, and positions
  // without payload.
  state.counters["scrapes"] = per_fragment(reader.stats().scrapes);
  state.counters["holes"] = per_fragment(reader.stats().holes);
  state.counters["writer_cpu_ns"] =
      static_cast<double>(writers.cpu_ns()) / static_cast<double>(written);
  state.counters["signalled_sleeps"] = static_cast<double>(reader.sleeps());
  state.counters["signals"] = static_cast<double>(reader.signals());
}

// One cache line there and back between two cores, which is what a packet's
// line does: what all others here stand on. It says how far apart the cores
// are.
void BM_Floor_LineRoundTrip(benchmark::State& state) {
  alignas(128) std::atomic<uint32_t> line{0};
  constexpr uint32_t kEnd = UINT32_MAX;
  std::thread other([&] {
    PinThread(0);
    for (uint32_t seen = 0;;) {
      const uint32_t value = line.load(std::memory_order_acquire);
      if (value == kEnd) return;
      if (value == seen + 1) {
        seen = value + 1;
        line.store(seen, std::memory_order_release);
      }
    }
  });
  std::thread([&] {
    PinThread(1);
    uint32_t turn = 0;
    for (auto _ : state) {
      line.store(turn + 1, std::memory_order_release);
      turn += 2;
      while (line.load(std::memory_order_acquire) != turn) {
      }
    }
    line.store(kEnd);
  }).join();
  other.join();
}
BENCHMARK(BM_Floor_LineRoundTrip)->UseRealTime();

// One writer, pinned to the other core; time per fragment. range(0): chunk
// size.
template <Reading kReading>
void BM_FragmentBesideReader(benchmark::State& state) {
  BenchmarkRing ring(kRingBytes, static_cast<uint32_t>(state.range(0)));
  ReaderThread reader(ring, kReading, 0);
  WriterThreads writers;
  uint64_t written = 0;
  std::vector<double> times;
  while (state.KeepRunningBatch(kFragments)) {
    times.push_back(writers.Run(ring, 1, WriteFragments));
    state.SetIterationTime(times.back());
    written += kFragments;
  }
  Report(state, reader, writers, written);
  ReportVsFloor(state, Median(times) / kFragments,
                MeasureFloor<CopyTwoCas<64>>());
}
BENCHMARK_TEMPLATE(BM_FragmentBesideReader, Reading::kWatermark)
    ->Name("BM_FragmentBesideReader")
    ->Arg(256)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(32768)
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_FragmentBesideReader, Reading::kPolling)
    ->Name("BM_FragmentBesidePollingReader")
    ->Arg(256)
    ->Arg(4096)
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_FragmentBesideReader, Reading::kScraping)
    ->Name("BM_FragmentBesideScrapingReader")
    ->Arg(256)
    ->Arg(4096)
    ->UseManualTime();

// Fragments of two writers that a reader copies, on two cores.
void BM_TwoWriters(benchmark::State& state) {
  BenchmarkRing ring(kRingBytes, static_cast<uint32_t>(state.range(0)));
  ReaderThread reader(ring, Reading::kWatermark, 0);
  WriterThreads writers;
  uint64_t written = 0;
  while (state.KeepRunningBatch(2 * kFragments)) {
    state.SetIterationTime(writers.Run(ring, 2, WriteFragments));
    written += 2 * kFragments;
  }
  Report(state, reader, writers, written);
  state.SetItemsProcessed(static_cast<int64_t>(written));
}
BENCHMARK(BM_TwoWriters)->Arg(256)->Arg(4096)->UseManualTime();

// Packets of 64 bytes by range(0) writers, stored in a target buffer.
void BM_WritersStored(benchmark::State& state) {
  BenchmarkRing ring(kRingBytes, 4096);
  ReaderThread reader(ring, Reading::kWatermark, uint64_t{1} << 20);
  const auto num_writers = static_cast<int>(state.range(0));
  WriterThreads writers;
  uint64_t written = 0;
  while (state.KeepRunningBatch(num_writers * kFragments)) {
    state.SetIterationTime(writers.Run(ring, num_writers, WritePackets));
    written += static_cast<uint64_t>(num_writers * kFragments);
  }
  state.SetItemsProcessed(static_cast<int64_t>(written));
  // Packets that do not fit their chunk are two fragments.
  Report(state, reader, writers, written);
}
BENCHMARK(BM_WritersStored)->RangeMultiplier(2)->Range(1, 64)->UseManualTime();

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
