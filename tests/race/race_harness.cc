// The packet format of the race tests and the bookkeeping; see the header.
#include "tests/race/race_harness.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "src/common/os/eventfd.h"
#include "src/common/os/shared_mapping.h"
#include "tests/support/require.h"
#include "tests/support/take_signals.h"

namespace tracering::internal {
namespace {

// The fill of a packet, at every offset another byte for some time.
std::string Fill(uint64_t number, size_t size) {
  std::string fill(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    fill[i] = static_cast<char>(number * 37 + i * 11 + (i >> 8));
  }
  return fill;
}

}  // namespace

void AppendNumbered(Packet& packet, uint64_t number, size_t size) {
  packet.AppendFixed64(1, number);
  packet.AppendString(2, Fill(number, size));
}

RaceHarness::RaceHarness(const test::RingImageOptions& options)
    : image_(test::RingImage::InMemfd(options)) {
  auto event = os::CreateEventFd();
  test::Require(event.ok(), "eventfd");
  event_ = std::make_shared<const os::GuardedFd>(std::move(*event));
  auto mapping = os::SharedMapping::Map(image_.fd(), image_.size());
  test::Require(mapping.ok(), "mapping the ring");
  ring_ = std::make_shared<ProducerRing>(std::move(*mapping), image_.geometry(),
                                         event_, RingMode::kOn);
  ring_->consumer_attached().store(true);
  assembler_ = std::make_unique<PacketAssembler>(this, &budget_);
  reader_ = std::make_unique<ChunkReader>(ring(), /*min_placed=*/1);
}

RaceHarness::~RaceHarness() = default;

RaceHarness::Writer RaceHarness::MakeWriter(uint16_t id,
                                            const WriterOptions& options,
                                            bool owes_loss) {
  WriterLease lease;
  lease.id = WriterId(id);
  lease.owes_loss = owes_loss;
  return std::make_unique<TraceWriterImpl>(ring_, lease, kBuffer, options);
}

void RaceHarness::Write(TraceWriterImpl& writer, size_t size) {
  const uint64_t number = TakeNumber(writer);
  Packet packet = writer.NewPacket();
  AppendNumbered(packet, number, size);
}

uint64_t RaceHarness::TakeNumber(const TraceWriterImpl& writer) {
  return next_number_[writer.writer_id().value()]++;
}

DrainOutcome RaceHarness::DrainPass() {
  return reader_->DrainTo(reader_->CaptureEnd(), *this, assembler_.get());
}

void RaceHarness::DrainAll() {
  while (!reader_->stopped() && reader_->CaptureEnd() != reader_->resolved()) {
    (void)DrainPass();
  }
}

const std::vector<uint64_t>& RaceHarness::DeliveredOf(uint16_t writer) {
  DrainAll();
  return delivered_[writer].numbers;
}

const std::vector<uint64_t>& RaceHarness::MarkedOf(uint16_t writer) {
  DrainAll();
  return delivered_[writer].marked;
}

void RaceHarness::ExpectExact(TraceWriterImpl& writer) {
  writer.Release();
  DrainAll();
  const WriterStats stats = writer.ReadStats();
  const uint16_t id = writer.writer_id().value();
  uint64_t by_cause = 0;
  for (const uint64_t lost : stats.lost_by_cause) by_cause += lost;
  EXPECT_EQ(stats.lost, by_cause) << "writer " << id;
  EXPECT_EQ(stats.attempted, stats.published + stats.lost) << "writer " << id;
  EXPECT_EQ(stats.published, delivered_[id].numbers.size()) << "writer " << id;
  lost_by_writers_ += stats.lost;
}

void RaceHarness::ExpectRingExact() {
  assembler_->Finish();
  EXPECT_EQ(lost_by_writers_,
            image_.WriterLoss() + assembler_->losses().total());
  EXPECT_EQ(complaints_, std::vector<std::string>());
  EXPECT_FALSE(reader_->stopped()) << StopReasonName(reader_->stop().reason);
  EXPECT_EQ(image_.read_pos(), image_.write_pos());
  const ChunkReaderStats& stats = reader_->stats();
  EXPECT_EQ(stats.positions, stats.holes + stats.chunks);
  EXPECT_EQ(ring_->mode(), RingMode::kOn);
}

bool RaceHarness::IsChunkIn(abi::State state, const void* word) const {
  for (uint32_t i = 0; i < image_.geometry().num_chunks(); ++i) {
    if (word == chunk(i)) return abi::StateOf(state_word(i)) == state;
  }
  return false;
}

uint64_t RaceHarness::TakeSignals() { return test::TakeSignals(event_fd()); }

void RaceHarness::OnDroppedChunk(const DroppedChunk& dropped) {
  complaints_.push_back("a chunk of writer " +
                        std::to_string(dropped.writer.value()) +
                        " was dropped");
}

bool RaceHarness::Resolve(WriterId writer, BufferId buffer, Route* route) {
  route->sequence = writer.value();
  return buffer == kBuffer;
}

uint8_t* RaceHarness::PlaceFor(const PacketRun& run, const PacketRun*) {
  place_.assign(run.payload_size, 0);
  return place_.data();
}

void RaceHarness::OnRun(const PacketRun& run) {
  const uint8_t* data = run.payload;
  for (uint32_t i = 0; i < run.num_packets; ++i) {
    Take(run.writer.value(), data, run.SizeOf(i), i == 0 ? run.loss : 0);
    data += run.SizeOf(i);
  }
}

void RaceHarness::Take(uint16_t writer, const uint8_t* data, size_t size,
                       LossMask loss) {
  Delivery& delivery = delivered_[writer];
  const auto complain = [&](const std::string& what) {
    complaints_.push_back("writer " + std::to_string(writer) + ", packet " +
                          std::to_string(delivery.next) + ": " + what);
  };
  uint64_t number = kEmpty;
  if (size != 0) {
    // Fixed64 field 1, then bytes field 2 with a length of one or two bytes.
    if (size < 11 || data[0] != 0x09 || data[9] != 0x12) {
      complain("not a packet of these tests");
      return;
    }
    std::memcpy(&number, data + 1, sizeof(number));
    size_t length = data[10] & 0x7f;
    size_t header = 11;
    for (int shift = 7; (data[header - 1] & 0x80) != 0 && header < size;
         shift += 7) {
      length |= size_t{data[header++] & 0x7fu} << shift;
    }
    const std::string fill(reinterpret_cast<const char*>(data) + header,
                           size - header);
    if (fill.size() != length || fill != Fill(number, length)) {
      complain("bytes of number " + std::to_string(number) + " are damaged");
    }
    if (number < delivery.next) complain("doubled or out of order");
    if (number > delivery.next && loss == 0) complain("a gap without a mark");
    delivery.next = number + 1;
  }
  delivery.numbers.push_back(number);
  if (loss != 0) delivery.marked.push_back(number);
}

}  // namespace tracering::internal
