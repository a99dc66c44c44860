// One ring with its writers and a reader, and what has to hold in the end.
//
// Everything that takes a step is shipped code; what is shared, private or over
// is decided here. Findings go to Explorer::Fail.
#ifndef TRACERING_TESTS_EXPLORE_RING_SCENARIO_H_
#define TRACERING_TESTS_EXPLORE_RING_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/consumer/attached_ring.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/ring_scheduler.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "tests/explore/explorer.h"
#include "tests/explore/packet_ledger.h"
#include "tests/explore/ring_monitor.h"
#include "tests/support/ring_image.h"

namespace tracering::test {

class RingScenario;

// What a writer does, before it is released.
class WriterParty {
 public:
  WriterParty(PacketLedger& ledger, internal::TraceWriterImpl& writer)
      : ledger_(ledger), writer_(writer) {}

  void Write(size_t size, int times = 1) {
    for (; times > 0; --times) {
      ledger_.Write(writer_, size);
      ledger_.Settle(writer_);
    }
  }
  void WriteBatch(size_t size, int times) {
    {
      const WriterBatch batch = writer_.Batch();
      for (; times > 0; --times) ledger_.Write(writer_, size);
    }
    ledger_.Settle(writer_);
  }
  // Begins a packet that is given up.
  void Discard() {
    Packet packet = writer_.NewPacket();
    packet.AppendVarint(1, 1);
    packet.Discard();
  }

 private:
  PacketLedger& ledger_;
  internal::TraceWriterImpl& writer_;
};

struct RingSetup {
  uint32_t num_chunks = 2;
  uint32_t position = 0;  // of both cursors
  std::vector<std::function<void(WriterParty&)>> writers;
  WriterOptions writer_options;

  // Passes that the reader takes without being asked, or once it was signalled.
  // 0: it drains when it is woken, and sleeps in between.
  int passes = 2;
  bool awaits_signal = false;
  uint32_t wakeup_threshold = 1;
  // A reader that sleeps leaves after so many slices, since against one that
  // comes again and again a writer can lose its chunk for ever. 0: it stays.
  int max_slices = 0;
  // It dies before that step, and another one takes its place. 0: it lives.
  size_t reader_dies_before = 0;
  // The first writer stops for ever before that step. 0: it does not.
  size_t writer_dies_before = 0;
};

class RingScenario : public Scenario {
 public:
  // What has to be met somewhere, or the configurations show nothing of it.
  static constexpr std::string_view kSituations[] = {
      "hole",         "burned-claim",   "reuse-too-late", "scrape",
      "empty-scrape", "relocation",     "lost-race",      "retry-later",
      "ring-full",    "no-chunk",       "stall",          "woken",
      "time-out",     "found-resolved",
  };
  // Taken by a reader that died before it had handed it on; the rest of a
  // packet of which it had the start; the start of one whose writer died.
  static constexpr std::string_view kLongSituations[] = {"gone", "orphan",
                                                         "cut-off"};

  explicit RingScenario(const RingSetup& setup);
  ~RingScenario() override;

  int num_parties() const override { return reader_party() + 1; }
  std::string PartyName(int party) const override;
  void Begin() override;
  void Run(int party) override;
  WordId IdOf(const void* word) const override;
  std::string WordName(WordId word) const override;
  size_t WordSize(WordId word) const override;
  bool IsContended(WordId word) const override;
  void BeforeStep(int party) override { monitor_.BeforeStep(party); }
  void AfterStep(const Step& step) override;
  void OnRest(PartySet asleep) override;
  void End() override;
  std::set<std::string_view> Reached() const override { return reached_; }

 private:
  int reader_party() const { return static_cast<int>(setup_.writers.size()); }
  bool sleeps() const { return setup_.passes == 0; }
  const internal::Ring& ring() const { return producer_ring_->ring(); }
  abi::Position Resolving() const;

  void RunReader();
  void RunSleepingReader();
  void AttachReader(std::optional<internal::ChunkReader>* reader);
  void DrainAll();
  void ReadBuffers();
  void AttachSleepingReader();
  void NoteSituation(const Step& step);
  void LeaveDeadWriter();
  bool IsDead(size_t writer) const { return writer == 0 && writer_died_; }
  void CheckWriters();
  void CheckRing();

  // ChunkReader's sink.
  struct Sink;
  // Has every payload placed, also those that the assembler would not know of.
  struct Placer : internal::PayloadPlacer {
    uint8_t* PlaceFor(const internal::ChunkView& chunk) override {
      place.assign(chunk.payload_size, 0xff);
      return place.data();
    }
    std::vector<uint8_t> place;
  };

  const RingSetup setup_;
  RingImage image_;
  std::shared_ptr<internal::ProducerRing> producer_ring_;
  PacketLedger ledger_;
  RingMonitor monitor_;
  std::vector<std::unique_ptr<internal::TraceWriterImpl>> writers_;

  // A reader that does not sleep. Not on the heap, where a reader that is given
  // up in its constructor would be lost.
  Placer placer_;
  internal::PartialBudget budget_;
  std::unique_ptr<internal::PacketAssembler> assembler_;
  std::optional<internal::ChunkReader> first_reader_;
  std::optional<internal::ChunkReader> second_reader_;
  internal::ChunkReader* reader_ = nullptr;  // the one that lives
  bool reader_has_run_ = false;
  // Packets of the chunk that the reader has taken and not handed on yet. If it
  // dies then, they are gone: delivery is at most once.
  struct Taken {
    uint16_t writer = 0;  // 0: none
    uint64_t packets = 0;
    bool has_start = false;   // of a packet, without its end
    bool ends_start = false;  // says that an earlier one was not finished
  };
  // Where the reader has won the chunk with that word.
  Taken TakenWith(uint32_t word) const;
  Taken in_hand_;
  Taken gone_;
  // Of each writer: whether the reader has the start of a packet and waits for
  // its end, and whether the one that died had.
  std::vector<bool> has_start_;
  std::vector<bool> cut_;
  uint64_t told_by_dead_ = 0;  // losses
  bool writer_has_run_ = false;
  bool writer_died_ = false;
  std::set<std::string_view> reached_;

  // One that does, into buffers that are read like a stream.
  std::unique_ptr<internal::BufferSet> buffers_;
  internal::ReadCursor stored_;
  std::unique_ptr<internal::RingOwner> owner_;
  std::unique_ptr<internal::AttachedRing> attached_;
  const uint8_t* attached_base_ = nullptr;
  std::unique_ptr<internal::RingScheduler> scheduler_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_RING_SCENARIO_H_
