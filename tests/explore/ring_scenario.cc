// Setting up, running and judging a ring; see ring_scenario.h.
#include "tests/explore/ring_scenario.h"

#include <cstring>
#include <utility>

#include "src/common/abi/control_header.h"
#include "src/common/abi/state_word.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/ring/notification.h"
#include "tests/support/require.h"

namespace tracering::test {

using internal::AttachedRing;
using internal::BufferSet;
using internal::ChunkReader;
using internal::DrainOutcome;
using internal::PacketAssembler;
using internal::ProducerRing;
using internal::RingMode;
using internal::RingScheduler;
using internal::TraceWriterImpl;

namespace {

constexpr uint32_t kChunkSize = 256;

os::SharedMapping MapOf(const RingImage& image) {
  auto mapping = os::SharedMapping::Map(image.fd(), image.size());
  Require(mapping.ok(), "mapping a ring");
  return *std::move(mapping);
}

}  // namespace

struct RingScenario::Sink {
  RingScenario* scenario;

  void OnChunk(const internal::ChunkView& chunk) {
    scenario->in_hand_ = {};
    scenario->assembler_->OnChunk(chunk);
  }
  void OnDroppedChunk(const internal::DroppedChunk&) {
    Explorer::Fail(Invariant::kIntact, "a chunk is malformed");
  }
  void BeforePublication() {}
};

RingScenario::RingScenario(const RingSetup& setup)
    : setup_(setup),
      image_(RingImage::InMemfd(
          {setup.num_chunks, kChunkSize, setup.position, true})),
      // Signals go to the explorer, whatever the number.
      producer_ring_(std::make_shared<ProducerRing>(
          MapOf(image_), image_.geometry(),
          std::make_shared<const os::GuardedFd>(), RingMode::kOn)),
      ledger_(reader_party()),
      monitor_(ring(), reader_party(), [this] { return Resolving(); }) {
  producer_ring_->consumer_attached().store(true);
  if (!sleeps()) return;
  auto buffers = BufferSet::Create({{"main", 4096, FillPolicy::kRing}}, 4096);
  Require(buffers.ok(), "buffers");
  buffers_ = *std::move(buffers);
}

RingScenario::~RingScenario() = default;

std::string RingScenario::PartyName(int party) const {
  return party == reader_party() ? "reader"
                                 : "writer" + std::to_string(party + 1);
}

void RingScenario::Begin() {
  // Whatever an execution that was given up has left.
  scheduler_.reset();
  attached_.reset();
  first_reader_.reset();
  second_reader_.reset();
  writers_.clear();

  std::memset(image_.base(), 0, image_.size());
  image_.Seed(setup_.position, setup_.position);
  producer_ring_->mutable_mode().store(RingMode::kOn);
  ledger_.Begin();
  reader_has_run_ = false;
  in_hand_ = gone_ = {};
  for (int i = 0; i < reader_party(); ++i) {
    internal::WriterLease lease;
    lease.id = WriterId(static_cast<uint16_t>(i + 1));
    writers_.push_back(std::make_unique<TraceWriterImpl>(
        producer_ring_, lease, PacketLedger::kBuffer, setup_.writer_options));
  }
  if (sleeps()) {
    AttachSleepingReader();
  } else {
    ring().StoreWakeupThreshold(setup_.wakeup_threshold);
    AttachReader(&first_reader_);
    if (setup_.awaits_signal) internal::ArmReader(ring());
  }
  monitor_.Begin();
}

void RingScenario::AttachReader(std::optional<ChunkReader>* reader) {
  reader->emplace(ring());
  reader_ = &**reader;
  assembler_ = std::make_unique<PacketAssembler>(&ledger_, &budget_);
  if (reader_->had_predecessor()) assembler_->MarkReadGap();
}

void RingScenario::AttachSleepingReader() {
  owner_ = std::make_unique<internal::RingOwner>(1, size_t{1} << 20);
  owner_->targets = {{PacketLedger::kBuffer.value(), 0}};
  AttachedRing::Options options;
  options.mapping = MapOf(image_);
  attached_base_ = static_cast<const uint8_t*>(options.mapping.data());
  options.geometry = image_.geometry();
  options.wakeup_threshold = setup_.wakeup_threshold;
  options.partial_packet_limit = size_t{1} << 20;
  attached_ = std::make_unique<AttachedRing>(std::move(options), owner_.get(),
                                             buffers_.get());
  scheduler_ = std::make_unique<RingScheduler>();
  scheduler_->Add(attached_.get());
}

// --- The parties ---

void RingScenario::Run(int party) {
  if (party != reader_party()) {
    TraceWriterImpl& writer = *writers_[static_cast<size_t>(party)];
    WriterParty self(ledger_, writer);
    setup_.writers[static_cast<size_t>(party)](self);
    writer.Release();
  } else if (sleeps()) {
    RunSleepingReader();
  } else {
    RunReader();
  }
}

void RingScenario::RunReader() {
  const bool is_second = std::exchange(reader_has_run_, true);
  if (is_second) {
    gone_ = in_hand_;
    AttachReader(&second_reader_);
  } else if (setup_.reader_dies_before != 0) {
    Explorer::DieBeforeStep(setup_.reader_dies_before);
  }
  if (setup_.awaits_signal) (void)Explorer::AwaitSignal();
  Sink sink{this};
  for (int i = 0; i < setup_.passes; ++i) (void)reader_->DrainPass(sink);
}

// As DrainLoop has it: RunSlices, ArmForSleep, epoll_wait.
void RingScenario::RunSleepingReader() {
  int slices = 0;
  for (;;) {
    while (scheduler_->RunSlice() != nullptr) {
      if (++slices == setup_.max_slices) return;
    }
    if (!scheduler_->ArmForSleep()) continue;
    if (!Explorer::AwaitSignal()) return;
    scheduler_->Wake(attached_.get());
  }
}

void RingScenario::AfterStep(const Step& step) {
  NoteSituation(step);
  monitor_.AfterStep(step, step.word);
  if (step.party != reader_party() || !step.changed ||
      step.word < abi::kControlHeaderSize) {
    return;
  }
  const auto before = static_cast<uint32_t>(step.before);
  const abi::State state = abi::StateOf(before);
  if (state == abi::State::kAcquired || state == abi::State::kComplete) {
    in_hand_ = {abi::WriterIdOf(before).value(), abi::NumFragmentsOf(before)};
  }
}

void RingScenario::NoteSituation(const Step& step) {
  const auto before = static_cast<uint32_t>(step.before);
  const auto after = static_cast<uint32_t>(step.after);
  switch (step.kind) {
    case StepKind::kFutexWait:
      if (step.changed) reached_.insert("stall");
      break;
    case StepKind::kFutexResume:
      reached_.insert("woken");
      break;
    case StepKind::kFutexTimeOut:
      reached_.insert("time-out");
      break;
    case StepKind::kCompareExchange: {
      if (step.word < abi::kControlHeaderSize) break;
      const abi::State from = abi::StateOf(before);
      const abi::State to = abi::StateOf(after);
      const bool reader = step.party == reader_party();
      if (!step.changed) {
        // A writer that has reserved finds nothing to claim, one that has not
        // finds its cached chunk gone, or cannot publish.
        const bool reserved = !reader && monitor_.HasReserved(step.party);
        if (reserved) reached_.insert("burned-claim");
        if (!reader && !reserved && from == abi::State::kFreeForWrap) {
          reached_.insert("reuse-too-late");
        }
      } else if (to == abi::State::kFreeForWrap &&
                 from == abi::State::kFreeForWrap) {
        reached_.insert("hole");
      } else if (to == abi::State::kRewriteRequested) {
        reached_.insert(abi::NumFragmentsOf(before) == 0 ? "empty-scrape"
                                                         : "scrape");
      } else if (to == abi::State::kAcknowledged) {
        reached_.insert("relocation");
      }
      break;
    }
    default:
      break;
  }
}

void RingScenario::OnRest(PartySet asleep) {
  if (asleep != 0) {
    Explorer::Fail(Invariant::kWakeUp, "a writer waits for ever");
  } else if (internal::OutstandingSeqCst(ring(), Resolving()) >=
             ring().LoadWakeupThreshold()) {
    Explorer::Fail(Invariant::kWakeUp, "the reader sleeps at its threshold");
  }
}

// --- Words ---

abi::Position RingScenario::Resolving() const {
  if (sleeps()) {
    return abi::Position(setup_.position +
                         static_cast<uint32_t>(attached_->resolved()));
  }
  return reader_->read_pos();
}

// The offset in the ring; a sleeping reader has a mapping of its own.
WordId RingScenario::IdOf(const void* word) const {
  const auto* const address = static_cast<const uint8_t*>(word);
  const auto* base = reinterpret_cast<const uint8_t*>(&ring().words());
  if (address < base || address >= base + image_.size()) {
    base = attached_base_;
  }
  return static_cast<WordId>(address - base);
}

std::string RingScenario::WordName(WordId word) const {
  switch (word) {
    case abi::kReadPosOffset:
      return "read_pos";
    case abi::kWritePosOffset:
      return "write_pos";
    case abi::kNumWritersWaitingOffset:
      return "writers_waiting";
    case abi::kReaderArmedOffset:
      return "reader_armed";
    default:
      break;
  }
  if (word < abi::kControlHeaderSize) return "header+" + std::to_string(word);
  return "chunk " +
         std::to_string((word - abi::kControlHeaderSize) / kChunkSize);
}

size_t RingScenario::WordSize(WordId word) const {
  const bool wide =
      word == abi::kReaderLossOffset ||
      (word >= abi::kWriterLossOffset && word < abi::kControlHeaderSize);
  return wide ? sizeof(uint64_t) : sizeof(uint32_t);
}

bool RingScenario::IsContended(WordId word) const {
  if (word >= abi::kLeftWriterLossOffset && word < abi::kWriterLossOffset) {
    return false;  // the reader's alone
  }
  switch (word) {
    case abi::kReaderEpochOffset:  // the reader's alone
    case abi::kReaderLossOffset:
    case abi::kReaderLeftOffset:
    case abi::kLeftPosOffset:
    case abi::kWakeupThresholdOffset:  // written before
      return false;
    case abi::kReaderArmedOffset:
      return sleeps() || setup_.awaits_signal;
    default:
      return true;
  }
}

// --- The end ---

void RingScenario::DrainAll() {
  if (sleeps()) {
    do {
      scheduler_->WakeAllOutstanding();
      while (scheduler_->RunSlice() != nullptr) {
      }
    } while (!attached_->stopped() && attached_->Outstanding() != 0);
    attached_->Finish();
    return;
  }
  Sink sink{this};
  ChunkReader& reader = *reader_;
  while (!reader.stopped() && reader.CaptureEnd() != reader.resolved()) {
    (void)reader.DrainPass(sink);
  }
  assembler_->Finish();
}

void RingScenario::End() {
  DrainAll();
  const internal::ChunkReaderStats& stats =
      sleeps() ? attached_->reader_stats() : reader_->stats();
  if (stats.lost_races != 0) reached_.insert("lost-race");
  if (stats.retry_later != 0) reached_.insert("retry-later");
  if (stats.found_resolved != 0) reached_.insert("found-resolved");
  if (gone_.packets != 0) reached_.insert(kGone);
  for (const auto& writer : writers_) {
    const auto lost = [&](LossCause cause) {
      return writer->ReadStats().lost_by_cause[static_cast<size_t>(cause)] != 0;
    };
    if (lost(LossCause::kRingFull)) reached_.insert("ring-full");
    if (lost(LossCause::kNoChunkAvailable)) reached_.insert("no-chunk");
  }
  if (sleeps() ? attached_->stopped() : reader_->stopped()) {
    Explorer::Fail(Invariant::kLegalStep, "the reader stopped the ring");
  }
  if (producer_ring_->mode() != RingMode::kOn) {
    Explorer::Fail(Invariant::kLegalStep, "a writer poisoned the ring");
  }
  if (!Explorer::failed()) CheckWriters();
  if (!Explorer::failed()) CheckRing();
}

void RingScenario::CheckWriters() {
  for (const auto& writer : writers_) {
    const WriterStats stats = writer->ReadStats();
    uint64_t by_cause = 0;
    for (const uint64_t lost : stats.lost_by_cause) by_cause += lost;
    if (stats.lost != by_cause ||
        stats.attempted != stats.published + stats.lost) {
      Explorer::Fail(Invariant::kAccounting, "a writer's sums are wrong");
    }
    const uint16_t id = writer->writer_id().value();
    const uint64_t gone = gone_.writer == id ? gone_.packets : 0;
    const uint64_t delivered =
        sleeps() ? stats.published : ledger_.delivered(id) + gone;
    if (stats.published != delivered) {
      Explorer::Fail(Invariant::kAccounting,
                     "a writer has published " +
                         std::to_string(stats.published) + " of " +
                         std::to_string(stats.attempted) + " packets, and " +
                         std::to_string(delivered) + " were delivered");
    }
  }
}

void RingScenario::CheckRing() {
  uint64_t attempted = 0;
  uint64_t lost = 0;
  for (const auto& writer : writers_) {
    const WriterStats stats = writer->ReadStats();
    attempted += stats.attempted;
    lost += stats.lost;
  }
  uint64_t delivered = 0;
  uint64_t told = 0;
  if (sleeps()) {
    const internal::RingCounts counts = attached_->Count();
    delivered = counts.packets.delivered;
    told = counts.packets.lost.total();
  } else {
    delivered = ledger_.delivered() + gone_.packets;
    told = image_.WriterLoss() + assembler_->losses().total();
  }
  if (attempted != delivered + lost || lost != told) {
    Explorer::Fail(Invariant::kAccounting,
                   "attempted " + std::to_string(attempted) + ", delivered " +
                       std::to_string(delivered) + ", lost by the writers " +
                       std::to_string(lost) + ", by the ring " +
                       std::to_string(told));
  }
  if (image_.read_pos() != image_.write_pos()) {
    Explorer::Fail(Invariant::kAccounting, "positions are left");
  }
}

}  // namespace tracering::test
