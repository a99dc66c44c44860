// What a sample costs the thread that is hit: the write into the profile
// buffer, beside a floor of one uncontended compare-exchange and a copy of the
// record, and the whole handler.
//
// The buffer is drained between timed batches. `vs_floor` is as in
// writer_benchmark. The handler is called as a function; what the kernel takes
// to deliver a signal and to return from it is BM_SignalDelivery, which has an
// empty one.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "benchmarks/floor.h"
#include "src/producer/profile_signal.h"
#include "src/producer/stack_bounds.h"
#include "tracering/profile_buffer.h"

namespace tracering {
namespace {

using internal::SampleHeader;
using internal::Sampler;

constexpr size_t kFrames = 32;
constexpr size_t kRecordWords = SampleHeader::kRecordWords + kFrames;
// Fits the second-level cache.
constexpr size_t kDataWords = size_t{1} << 15;

std::unique_ptr<ProfileBuffer> NewBuffer() {
  ProfileBufferOptions options;
  options.header_words = SampleHeader::kWords;
  options.data_words = kDataWords;
  options.tags = 1024;
  auto buffer = ProfileBuffer::Create(options);
  if (!buffer.ok()) std::abort();
  return *std::move(buffer);
}

void Drain(ProfileBuffer& buffer) {
  while (buffer.Read(ProfileReadMode::kNonBlocking).outcome ==
         ProfileReadOutcome::kRecords) {
  }
}

// --- Floor ---

struct Floor {
  static constexpr size_t kPlaces = kDataWords / kRecordWords;

  void Step() {
    uint64_t expected = index.load(std::memory_order_seq_cst);
    std::memcpy(words + place * kRecordWords, source, sizeof(source));
    benchmark::ClobberMemory();
    place = place + 1 == kPlaces ? 0 : place + 1;
    benchmark::DoNotOptimize(index.compare_exchange_strong(
        expected, expected + kRecordWords, std::memory_order_seq_cst));
  }

  alignas(64) std::atomic<uint64_t> index{0};
  size_t place = 0;
  alignas(64) uint64_t words[kDataWords];
  alignas(64) uint64_t source[kRecordWords] = {};
};

void BM_Floor_Copy36WordsOneCas(benchmark::State& state) {
  static Floor floor;
  for (auto _ : state) floor.Step();
}
BENCHMARK(BM_Floor_Copy36WordsOneCas);

// --- The write, and the handler ---

// Times `take`, of which each writes one record.
template <typename Take>
void TimeRecords(benchmark::State& state, ProfileBuffer& buffer, Take take) {
  constexpr int kBatch = 512;
  static_assert(kBatch * kRecordWords < kDataWords && kBatch < 1024);
  const double floor = MeasureFloor<Floor>();
  Drain(buffer);
  Batches batches(state);
  batches.TimeAll(kBatch, take, [&] { Drain(buffer); });
  ReportVsFloor(state, batches.seconds(), floor);
}

void BM_ProfileWrite32(benchmark::State& state) {
  const auto buffer = NewBuffer();
  uint64_t time = 1;
  const uint64_t header[SampleHeader::kWords] = {1, 2};
  uintptr_t stack[kFrames] = {};
  TimeRecords(state, *buffer, [&] {
    if (buffer->Write(0, ++time, header, SampleHeader::kWords, stack,
                      kFrames) != ProfileWriteOutcome::kWritten) {
      std::abort();
    }
  });
}
BENCHMARK(BM_ProfileWrite32)->UseManualTime();

// Runs `body` with so many frames of its own below the caller's.
__attribute__((noinline)) void AtDepth(size_t depth, void (*body)(void*),
                                       void* argument) {
  if (depth == 0) {
    body(argument);
  } else {
    AtDepth(depth - 1, body, argument);
  }
  benchmark::ClobberMemory();  // no tail call
}

void TimeHandler(benchmark::State& state) {
  const auto buffer = NewBuffer();
  Sampler sampler(buffer.get(), getpid());
  siginfo_t info{};
  info.si_code = SI_TIMER;
  info.si_value.sival_int = 1;
  ucontext_t context;
  getcontext(&context);
  TimeRecords(state, *buffer, [&] { sampler.Take(info, &context); });
  if (sampler.overflows() != 0) state.SkipWithError("lost samples");
  Drain(*buffer);
  sampler.Take(info, &context);
  if (buffer->Read(ProfileReadMode::kNonBlocking).data[0] < kRecordWords) {
    state.SkipWithError("fewer frames than there are");
  }
}

// A thread of at least 32 frames: its own, and as many of the program's as lie
// below. The record has what was found.
template <bool kStackIsKnown>
void BM_Handler(benchmark::State& state) {
  std::thread([&state] {
    if (kStackIsKnown) internal::NoteStackBounds();
    AtDepth(
        kFrames - 2,
        [](void* s) { TimeHandler(*static_cast<benchmark::State*>(s)); },
        &state);
  }).join();
}
BENCHMARK_TEMPLATE(BM_Handler, true)
    ->Name("BM_Handler32_StackIsKnown")
    ->UseManualTime();
BENCHMARK_TEMPLATE(BM_Handler, false)
    ->Name("BM_Handler32_StackByTheKernel")
    ->UseManualTime();

void BM_SignalDelivery(benchmark::State& state) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = [](int, siginfo_t*, void*) {};
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGPROF, &action, &before);
  for (auto _ : state) raise(SIGPROF);
  sigaction(SIGPROF, &before, nullptr);
}
BENCHMARK(BM_SignalDelivery);

}  // namespace
}  // namespace tracering

BENCHMARK_MAIN();
