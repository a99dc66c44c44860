// A ring in shared memory, and a writer for it, without a producer's control
// plane. What the other side does is up to the benchmark; Drain plays the
// reader on the writer's own thread.
#ifndef TRACERING_BENCHMARKS_BENCHMARK_RING_H_
#define TRACERING_BENCHMARKS_BENCHMARK_RING_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "src/common/abi/geometry.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/os/unique_fd.h"
#include "src/common/ring/chunk_state.h"
#include "src/common/ring/ring.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/consumer.h"
#include "tracering/packet.h"
#include "tracering/trace_fields.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

class BenchmarkRing {
 public:
  BenchmarkRing(uint32_t ring_bytes, uint32_t chunk_size)
      : geometry_(ring_bytes / chunk_size, chunk_size) {
    auto memory = os::CreateSealedMemory("benchmark", geometry_.RingSize());
    auto event_fd = os::CreateEventFd();
    if (!memory.ok() || !event_fd.ok()) std::abort();
    memfd_ = std::move(*memory);
    auto mapping = os::SharedMapping::Map(memfd_.get(), geometry_.RingSize());
    if (!mapping.ok()) std::abort();
    shared_ = std::make_shared<ProducerRing>(
        std::move(*mapping), geometry_,
        std::make_shared<const os::GuardedFd>(std::move(*event_fd)),
        RingMode::kOn);
  }

  const std::shared_ptr<ProducerRing>& shared() { return shared_; }
  const Ring& ring() const { return shared_->ring(); }
  const abi::Geometry& geometry() const { return geometry_; }
  int memfd() const { return memfd_.get(); }
  int event_fd() const { return shared_->event_fd(); }

  // What a reader does to the words, and nothing else of it. No writer may hold
  // a chunk.
  void Drain() {
    const abi::Position end = ring().LoadWritePosRelaxed();
    abi::Position position = ring().LoadReadPosAcquire();
    for (; position != end; position = position.Next()) {
      ChunkState state = ring().StateOf(geometry_.IndexOf(position));
      uint32_t word = state.LoadAcquire();
      if (!state.TryReclaimComplete(word, geometry_.NextWrapOf(position))) {
        std::abort();
      }
    }
    ring().PublishReadPos(end);
  }

 private:
  const abi::Geometry geometry_;
  os::UniqueFd memfd_;
  std::shared_ptr<ProducerRing> shared_;
};

// For a consumer whose buffer "main" takes it all.
inline AttachRingOptions AttachOptions(const BenchmarkRing& ring) {
  AttachRingOptions attach;
  attach.memfd = ring.memfd();
  attach.event_fd = ring.event_fd();
  attach.num_chunks = ring.geometry().num_chunks();
  attach.chunk_size = ring.geometry().chunk_size();
  attach.buffers = {{BufferId(1), "main"}};
  return attach;
}

inline std::unique_ptr<TraceWriterImpl> NewWriter(
    BenchmarkRing& ring, uint16_t id, const WriterOptions& options = {}) {
  WriterLease lease;
  lease.id = WriterId(id);
  return std::make_unique<TraceWriterImpl>(ring.shared(), lease, BufferId(1),
                                           options);
}

// 64 bytes: a time stamp and a string.
inline void WritePacket64(TraceWriter& writer, uint64_t timestamp) {
  Packet packet = writer.NewPacket();
  packet.AppendVarint(trace_packet::kTimestamp, timestamp);  // 1 + 8
  packet.AppendString(
      3, std::string_view(
             "53 bytes of text, as names and values often are.....", 53));
}

}  // namespace tracering::internal

#endif  // TRACERING_BENCHMARKS_BENCHMARK_RING_H_
