// Both real sides on one ring: writers, the chunk reader and the packet
// assembler, and the books that have to balance at the end.
//
// Packets are numbered per writer, and their bytes follow from the number, so
// that a torn, doubled, missing or swapped packet is noticed wherever it
// happens. Writers and reader share one mapping, so that a test can name a word
// for both. Nothing here starts threads; delivery is for one thread at a time.
#ifndef TRACERING_TESTS_RACE_RACE_HARNESS_H_
#define TRACERING_TESTS_RACE_RACE_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/common/os/guarded_fd.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "tests/support/ring_image.h"

namespace tracering::internal {

// A packet's bytes as its fields will be encoded: the number and `size` bytes
// that follow from it.
void AppendNumbered(Packet& packet, uint64_t number, size_t size);

class RaceHarness : public PacketSink {
 public:
  using Writer = std::unique_ptr<TraceWriterImpl>;

  static constexpr BufferId kBuffer{7};

  explicit RaceHarness(const test::RingImageOptions& options);
  ~RaceHarness() override;

  // `owes_loss`: as if an earlier owner of the id had lost a packet.
  Writer MakeWriter(uint16_t id, const WriterOptions& options = {},
                    bool owes_loss = false);
  // A whole packet with the writer's next number. Not for one whose packet is
  // open.
  void Write(TraceWriterImpl& writer, size_t size = 10);
  // The number of the next packet of the writer, which its caller writes.
  uint64_t TakeNumber(const TraceWriterImpl& writer);

  // --- Reader ---

  DrainOutcome DrainPass();
  // Drains until nothing is outstanding.
  void DrainAll();

  // --- The books ---

  // Releases nothing and drains all: what every writer delivered so far, the
  // numbers in order. An empty packet shows as kEmpty.
  static constexpr uint64_t kEmpty = UINT64_MAX;
  const std::vector<uint64_t>& DeliveredOf(uint16_t writer);
  // Numbers of the writer's packets that came with a loss mark.
  const std::vector<uint64_t>& MarkedOf(uint16_t writer);

  // Releases the writer, drains, and expects that its attempts are what was
  // delivered and what it counted as lost.
  void ExpectExact(TraceWriterImpl& writer);
  // After ExpectExact for every writer: over the whole ring, what writers
  // counted as lost is what its counters and the assembler say.
  void ExpectRingExact();

  // --- Words ---

  const void* write_pos() const { return &ring().words().write_pos; }
  const void* read_pos() const { return &ring().words().read_pos; }
  // The chunk's state word.
  const void* chunk(uint32_t index) const {
    return ring().ChunkBytes(abi::ChunkIndex(index));
  }
  uint32_t state_word(uint32_t index) const { return image_.state_word(index); }
  // Whether `word` is the state word of a chunk that shows `state`.
  bool IsChunkIn(abi::State state, const void* word) const;

  test::RingImage& image() { return image_; }
  const Ring& ring() const { return ring_->ring(); }
  ProducerRing& producer_ring() { return *ring_; }
  ChunkReader& reader() { return *reader_; }
  PacketAssembler& assembler() { return *assembler_; }
  int event_fd() const { return event_->get(); }
  // How often the eventfd was written since the last call.
  uint64_t TakeSignals();
  // What is wrong with the delivered packets; empty if nothing is.
  const std::vector<std::string>& complaints() const { return complaints_; }

  // ChunkReader's sink.
  void OnChunk(const ChunkView& chunk) { assembler_->OnChunk(chunk); }
  void OnDroppedChunk(const DroppedChunk& dropped);
  void BeforePublication() {}

 private:
  struct Delivery {
    std::vector<uint64_t> numbers;
    std::vector<uint64_t> marked;
    uint64_t next = 0;
  };

  bool Resolve(WriterId writer, BufferId buffer, Route* route) override;
  void OnRun(const PacketRun& run) override;
  uint8_t* PlaceFor(const PacketRun& run, const PacketRun* joined) override;
  void Take(uint16_t writer, const uint8_t* data, size_t size, LossMask loss);

  test::RingImage image_;
  std::shared_ptr<const os::GuardedFd> event_;
  std::shared_ptr<ProducerRing> ring_;
  PartialBudget budget_;
  std::unique_ptr<PacketAssembler> assembler_;
  std::unique_ptr<ChunkReader> reader_;
  std::vector<uint8_t> place_;  // of the chunk that is being read
  std::map<uint16_t, Delivery> delivered_;
  std::map<uint16_t, uint64_t> next_number_;
  uint64_t lost_by_writers_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace tracering::internal

#endif  // TRACERING_TESTS_RACE_RACE_HARNESS_H_
