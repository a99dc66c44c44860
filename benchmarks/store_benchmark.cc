// What the consumer does with a chunk once it is copied, and with a packet when
// it is saved, next to the memcpy that each cannot do without. One thread,
// private memory: no ring and no file take part.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/floor.h"
#include "benchmarks/storing_sink.h"
#include "src/common/abi/state_word.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/rewriter.h"
#include "src/consumer/target_buffer.h"
#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

using Bytes = std::vector<uint8_t>;

void AppendVarintField(uint32_t field, uint64_t value, Bytes* out) {
  uint8_t bytes[kMaxTagSize + kMaxVarintSize];
  uint8_t* end = WriteVarint(bytes, MakeTag(field, WireType::kVarint));
  end = WriteVarint(end, value);
  out->insert(out->end(), bytes, end);
}

void AppendString(uint32_t field, const std::string& value, Bytes* out) {
  uint8_t bytes[kMaxTagSize + kMaxVarintSize];
  uint8_t* end = WriteVarint(bytes, MakeTag(field, WireType::kLengthDelimited));
  end = WriteVarint(end, value.size());
  out->insert(out->end(), bytes, end);
  out->insert(out->end(), value.begin(), value.end());
}

void Open(uint32_t field, Bytes* out) {
  uint8_t bytes[kMaxTagSize];
  uint8_t* end = WriteVarint(bytes, MakeTag(field, WireType::kStartGroup));
  out->insert(out->end(), bytes, end);
}

// A timestamp and a message of two varints and a string: 36 bytes.
Bytes SmallPacket() {
  Bytes packet;
  AppendVarintField(trace_packet::kTimestamp, 123'456'789'012'345, &packet);
  Open(trace_packet::kTrackEvent, &packet);
  AppendVarintField(track_event::kType, 1, &packet);
  AppendVarintField(track_event::kTrackUuid, 12'345'678, &packet);
  AppendString(track_event::kName, "sixteen bytes ok", &packet);
  packet.push_back(kCloseMessage);
  return packet;
}

// An event with `count` annotations, each a message of its own.
Bytes AnnotatedPacket(int64_t count) {
  Bytes packet;
  AppendVarintField(trace_packet::kTimestamp, 123'456'789'012'345, &packet);
  Open(trace_packet::kTrackEvent, &packet);
  for (int64_t i = 0; i < count; ++i) {
    Open(track_event::kDebugAnnotations, &packet);
    AppendString(debug_annotation::kName, "annotation", &packet);
    AppendVarintField(debug_annotation::kUintValue,
                      static_cast<uint64_t>(i) << (i % 50), &packet);
    packet.push_back(kCloseMessage);
  }
  packet.push_back(kCloseMessage);
  return packet;
}

// An event with one string of `size` bytes: most of what large packets are made
// of is copied as it is.
Bytes StringPacket(int64_t size) {
  Bytes packet;
  AppendVarintField(trace_packet::kTimestamp, 123'456'789'012'345, &packet);
  Open(trace_packet::kTrackEvent, &packet);
  AppendString(track_event::kName, std::string(static_cast<size_t>(size), 'x'),
               &packet);
  packet.push_back(kCloseMessage);
  return packet;
}

void RewriteLoop(const Bytes& packet, benchmark::State& state) {
  Rewriter rewriter;
  ByteBuffer out;
  Batches batches(state);
  batches.TimeAll(
      1 + 100'000 / static_cast<int64_t>(packet.size()),
      [&] {
        out.clear();
        benchmark::DoNotOptimize(
            rewriter.Rewrite(packet.data(), packet.size(), &out));
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
      },
      [] {});
  state.SetBytesProcessed(static_cast<int64_t>(packet.size()) *
                          state.iterations());
}

void BM_Rewrite36(benchmark::State& state) {
  RewriteLoop(SmallPacket(), state);
}
BENCHMARK(BM_Rewrite36)->UseManualTime();

// Packets of a few hundred bytes to a few hundred kilobytes, by what they hold.
void BM_RewriteLarge_String(benchmark::State& state) {
  RewriteLoop(StringPacket(state.range(0)), state);
}
BENCHMARK(BM_RewriteLarge_String)
    ->Arg(500)
    ->Arg(4000)
    ->Arg(400'000)
    ->UseManualTime();

void BM_RewriteLarge_Annotations(benchmark::State& state) {
  RewriteLoop(AnnotatedPacket(state.range(0)), state);
}
BENCHMARK(BM_RewriteLarge_Annotations)
    ->Arg(4)
    ->Arg(40)
    ->Arg(4000)
    ->UseManualTime();

// A chunk of 4096 bytes: 61 fragments of 64 bytes.
class Chunk {
 public:
  Chunk() : payload_(61 * 64, 'x'), sizes_(61, 64) {
    view.writer = WriterId(1);
    view.buffer = BufferId(1);
    view.num_fragments = static_cast<uint32_t>(sizes_.size());
    view.payload_size = static_cast<uint32_t>(payload_.size());
    view.payload = payload_.data();
    view.sizes = sizes_.data();
  }

  ChunkView view;

 private:
  Bytes payload_;
  std::vector<uint16_t> sizes_;
};

// The argument is the size of the target buffer in KiB: how much of it the
// caches hold decides what a store costs.
void BM_StoreRun(benchmark::State& state) {
  const Chunk chunk;
  const auto buffer = *TargetBuffer::Create(
      static_cast<uint64_t>(state.range(0)) * 1024, FillPolicy::kRing);
  PacketRun run;
  run.num_packets = chunk.view.num_fragments;
  run.payload_size = chunk.view.payload_size;
  run.payload = chunk.view.payload;
  run.sizes = chunk.view.sizes;
  // The first time round costs a page fault for each page.
  while (buffer->stats().wraps == 0) buffer->Store(run);
  for (auto _ : state) {
    benchmark::DoNotOptimize(buffer->Store(run));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_StoreRun)->Arg(128)->Arg(4096)->Arg(65536);

// Its floor: the same bytes into memory of the same size.
void BM_StoreRunFloor(benchmark::State& state) {
  const Chunk chunk;
  const auto capacity = static_cast<size_t>(state.range(0)) * 1024;
  const auto memory = std::make_unique<uint8_t[]>(capacity);
  size_t at = 0;
  for (auto _ : state) {
    if (capacity - at < 4096) at = 0;
    std::memcpy(memory.get() + at, chunk.view.payload, chunk.view.payload_size);
    std::memcpy(memory.get() + at + chunk.view.payload_size, chunk.view.sizes,
                2 * size_t{chunk.view.num_fragments});
    benchmark::ClobberMemory();
    at += 4048;
  }
}
BENCHMARK(BM_StoreRunFloor)->Arg(128)->Arg(4096)->Arg(65536);

// From a chunk's private copy into the target buffer. With the argument 1 each
// chunk ends inside a packet, as a busy writer's chunks do.
void BM_AssembleAndStore(benchmark::State& state) {
  Chunk chunk;
  const auto buffer = *TargetBuffer::Create(128 * 1024, FillPolicy::kRing);
  StoringSink sink(buffer.get());
  PartialBudget budget;
  PacketAssembler assembler(&sink, &budget);
  if (state.range(0) != 0) {
    chunk.view.flags = abi::kFlagContinuesOnNext;
    assembler.OnChunk(chunk.view);
    chunk.view.flags |= abi::kFlagContinuesFromPrevious;
  }
  for (auto _ : state) {
    assembler.OnChunk(chunk.view);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_AssembleAndStore)->Arg(0)->Arg(1);

// Reading a full buffer back, in slices.
void BM_CopyRecords(benchmark::State& state) {
  const Chunk chunk;
  const auto buffer = *TargetBuffer::Create(1024 * 1024, FillPolicy::kRing);
  PacketRun run;
  run.num_packets = 1;
  run.payload_size = static_cast<uint32_t>(state.range(0));
  run.payload = chunk.view.payload;
  for (int i = 0; i < 100'000; ++i) buffer->Store(run);
  RecordSlice slice;
  int64_t bytes = 0;
  for (auto _ : state) {
    ReadCursor cursor = buffer->BeginSnapshot();
    while (buffer->CopyRecords(&cursor, 64 * 1024, &slice)) {
      bytes += static_cast<int64_t>(slice.size());
    }
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(BM_CopyRecords)->Arg(36)->Arg(3904);

}  // namespace
}  // namespace tracering::internal

BENCHMARK_MAIN();
