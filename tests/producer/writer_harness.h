// A ring in a memfd, writers on it, and the reader's side in the test's hands.
//
// Single-threaded unless a test starts threads. What a writer produced is read
// by the independent decoder; the reader of tests takes one position at a time,
// between any two calls of a writer (or, with the hooked libraries, between any
// two of its accesses to shared words).
#ifndef TRACERING_TESTS_PRODUCER_WRITER_HARNESS_H_
#define TRACERING_TESTS_PRODUCER_WRITER_HARNESS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/eventfd.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/shared_mapping.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "tests/support/require.h"
#include "tests/support/ring_decoder.h"
#include "tests/support/ring_image.h"

namespace tracering::test {

// State words with nothing published, of writer 0.
inline constexpr uint32_t kAcquired = 0x2000'0000;
inline constexpr uint32_t kComplete = 0x4000'0000;

inline RingImageOptions Shape(uint32_t num_chunks, uint32_t chunk_size = 256,
                              uint32_t position = 0) {
  RingImageOptions options;
  options.num_chunks = num_chunks;
  options.chunk_size = chunk_size;
  options.position = position;
  return options;
}

inline WriterOptions Stalling(std::chrono::nanoseconds timeout) {
  WriterOptions options;
  options.policy = BufferExhaustedPolicy::kStall;
  options.stall_timeout = timeout;
  return options;
}

class WriterHarness {
 public:
  using Writer = std::unique_ptr<internal::TraceWriterImpl>;

  static constexpr BufferId kBuffer{7};

  explicit WriterHarness(const RingImageOptions& shape = {})
      : image_(RingImage::InMemfd(shape)),
        shape_{shape.num_chunks, shape.chunk_size} {
    auto event_fd = os::CreateEventFd();
    Require(event_fd.ok(), "eventfd");
    event_fd_ = std::make_shared<const os::GuardedFd>(std::move(*event_fd));
    auto mapping = os::SharedMapping::Map(image_.fd(), image_.size());
    Require(mapping.ok(), "mapping the ring");
    ring_ = std::make_shared<internal::ProducerRing>(
        std::move(*mapping), image_.geometry(), event_fd_,
        internal::RingMode::kOn);
    // Through the writers' own mapping, for the race detector's sake.
    reader_ = std::make_unique<ReferenceReader>(
        reinterpret_cast<uint8_t*>(&ring_->ring().words()), shape_);
  }

  Writer MakeWriter(uint16_t id, const WriterOptions& options = {},
                    bool owes_loss = false) {
    internal::WriterLease lease;
    lease.id = WriterId(id);
    lease.owes_loss = owes_loss;
    return std::make_unique<internal::TraceWriterImpl>(ring_, lease, kBuffer,
                                                       options);
  }

  RingImage& image() { return image_; }
  internal::ProducerRing& ring() { return *ring_; }
  ReferenceReader& reader() { return *reader_; }
  void AttachConsumer() { ring_->consumer_attached().store(true); }
  void set_mode(internal::RingMode mode) { ring_->mutable_mode().store(mode); }

  // The outstanding positions, left as they are.
  DecodedRing Decode() const { return DecodeRing(image_.base(), shape_); }
  // The packets that the reader has taken so far.
  std::vector<std::string> Taken() const {
    std::vector<std::string> bytes;
    for (const auto& packet : reader_->joiner().packets()) {
      bytes.push_back(packet.bytes);
    }
    return bytes;
  }
  // All outstanding positions are taken; returns the bytes of all packets that
  // were ever taken.
  std::vector<std::string> DrainAll() {
    reader_->Drain();
    return Taken();
  }

  // Reserves all free positions without claiming any: the ring is full.
  void FillWithReservations() {
    image_.set_write_pos(image_.read_pos() + shape_.num_chunks);
  }

  uint64_t Loss(LossCause cause) const {
    return ring_->ring().LoadWriterLoss(cause);
  }

  // How often the eventfd was written since the last call.
  uint64_t TakeSignals() {
    uint64_t count = 0;
    const ssize_t size = read(event_fd_->get(), &count, sizeof(count));
    return size == sizeof(count) ? count : 0;
  }

 private:
  RingImage image_;
  RingShape shape_;
  std::unique_ptr<ReferenceReader> reader_;
  std::shared_ptr<const os::GuardedFd> event_fd_;
  std::shared_ptr<internal::ProducerRing> ring_;
};

// A packet of exactly `size` bytes, at least 2: one field of a length that
// makes it so. What it is filled with tells packets apart.
inline std::string PacketBytes(size_t size, char fill) {
  Require(size >= 2 && size - 2 < 128, "packets of 2 to 129 bytes");
  std::string bytes = "\x0a";
  bytes += static_cast<char>(size - 2);
  bytes.append(size - 2, fill);
  return bytes;
}

// The same, written.
inline void AppendSized(Packet& packet, size_t size, char fill) {
  const std::string payload(size - 2, fill);
  packet.AppendString(1, payload);
}

inline void WriteSized(TraceWriter& writer, size_t size, char fill) {
  Packet packet = writer.NewPacket();
  AppendSized(packet, size, fill);
}

inline void ExpectBalanced(const WriterStats& stats) {
  uint64_t sum = 0;
  for (uint64_t lost : stats.lost_by_cause) sum += lost;
  EXPECT_EQ(stats.lost, sum);
  EXPECT_EQ(stats.attempted, stats.published + stats.lost);
}

inline uint64_t LostBy(const WriterStats& stats, LossCause cause) {
  return stats.lost_by_cause[static_cast<size_t>(cause)];
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_PRODUCER_WRITER_HARNESS_H_
