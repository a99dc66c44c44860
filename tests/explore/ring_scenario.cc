// Setting up, running and judging a ring; see ring_scenario.h.
#include "tests/explore/ring_scenario.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
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
    scenario->has_start_[chunk.writer.value() - 1] =
        (chunk.flags & abi::kFlagContinuesOnNext) != 0;
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
  stored_ = buffers_->buffer(0).BeginStream();
}

RingScenario::~RingScenario() { LeaveDeadWriter(); }

// Nobody cleans up behind the dead, which stands somewhere inside its code: its
// memory is freed without that.
void RingScenario::LeaveDeadWriter() {
  if (!std::exchange(writer_died_, false)) return;
  ::operator delete (writers_.front().release(),
                     std::align_val_t{alignof(TraceWriterImpl)});
}

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
  LeaveDeadWriter();
  writers_.clear();

  std::memset(image_.base(), 0, image_.size());
  image_.Seed(setup_.position, setup_.position);
  producer_ring_->mutable_mode().store(RingMode::kOn);
  ledger_.Begin();
  reader_has_run_ = writer_has_run_ = false;
  in_hand_ = gone_ = {};
  has_start_.assign(setup_.writers.size(), false);
  cut_ = has_start_;
  told_by_dead_ = 0;
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
  reader->emplace(ring(), /*min_placed=*/1);
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
    if (party == 0 && setup_.writer_dies_before != 0) {
      writer_died_ = std::exchange(writer_has_run_, true);
      if (writer_died_) return;
      Explorer::DieBeforeStep(setup_.writer_dies_before);
    }
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
    cut_ = has_start_;
    if (gone_.writer != 0) cut_[gone_.writer - 1] = gone_.has_start;
    has_start_.assign(has_start_.size(), false);
    told_by_dead_ = assembler_->losses().total();
    AttachReader(&second_reader_);
  } else if (setup_.reader_dies_before != 0) {
    Explorer::DieBeforeStep(setup_.reader_dies_before);
  }
  if (setup_.awaits_signal) (void)Explorer::AwaitSignal();
  Sink sink{this};
  for (int i = 0; i < setup_.passes; ++i)
    (void)reader_->DrainTo(reader_->CaptureEnd(), sink, &placer_);
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
    in_hand_ = TakenWith(before);
  }
}

RingScenario::Taken RingScenario::TakenWith(uint32_t word) const {
  Taken taken;
  const uint32_t fragments = abi::NumFragmentsOf(word);
  const uint16_t id = abi::WriterIdOf(word).value();
  if (fragments == 0 || id == 0 || id > has_start_.size()) return taken;
  taken.writer = id;
  taken.has_start = (word & abi::kFlagContinuesOnNext) != 0;
  taken.ends_start =
      has_start_[id - 1] && (word & abi::kFlagContinuesFromPrevious) == 0;
  // A packet counts with its end.
  taken.packets = fragments - (taken.has_start ? 1 : 0);
  return taken;
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
  // Nobody else moves: one pass is enough.
  int passes = 0;
  const auto is_over = [&passes] {
    if (++passes < 10) return false;
    Explorer::Fail(Invariant::kTermination, "the reader gets nowhere");
    return true;
  };
  if (sleeps()) {
    do {
      scheduler_->WakeAllOutstanding();
      while (scheduler_->RunSlice() != nullptr) {
      }
    } while (!attached_->stopped() && attached_->Outstanding() != 0 &&
             !is_over());
    attached_->Finish();
    ReadBuffers();
    return;
  }
  Sink sink{this};
  ChunkReader& reader = *reader_;
  while (!reader.stopped() && reader.CaptureEnd() != reader.resolved() &&
         !is_over()) {
    (void)reader.DrainTo(reader.CaptureEnd(), sink, &placer_);
  }
  assembler_->Finish();
}

void RingScenario::ReadBuffers() {
  internal::RecordSlice slice;
  std::map<internal::SequenceIndex, uint16_t> writers;
  while (buffers_->buffer(0).CopyRecords(&stored_, 4096, &slice)) {
    internal::RecordSlice::Reader records(slice);
    for (internal::RecordView record; records.Next(&record);) {
      const auto known = writers.find(record.header.sequence);
      internal::PacketRun run;
      run.payload = record.payload;
      run.payload_size = record.header.payload_size;
      run.num_packets = record.header.num_packets;
      run.sizes = record.sizes;
      run.loss = record.header.loss;
      run.writer =
          WriterId(known != writers.end()
                       ? known->second
                       : ledger_.WriterOf(record.payload, record.SizeOf(0)));
      writers.emplace(record.header.sequence, run.writer.value());
      ledger_.OnRun(run);
    }
  }
}

void RingScenario::End() {
  DrainAll();
  const internal::ChunkReaderStats& stats =
      sleeps() ? attached_->reader_stats() : reader_->stats();
  if (stats.lost_races != 0) reached_.insert("lost-race");
  if (stats.retry_later != 0) reached_.insert("retry-later");
  if (stats.found_resolved != 0) reached_.insert("found-resolved");
  if (gone_.packets != 0) reached_.insert("gone");
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
  for (size_t i = 0; i < writers_.size(); ++i) {
    const WriterStats stats = writers_[i]->ReadStats();
    const auto id = static_cast<uint16_t>(i + 1);
    const uint64_t gone = gone_.writer == id ? gone_.packets : 0;
    const uint64_t delivered = ledger_.delivered(id) + gone;
    if (IsDead(i)) {
      if (delivered + stats.lost < ledger_.settled(id)) {
        Explorer::Fail(Invariant::kAccounting,
                       "what a writer had published before it died is lost");
      }
      continue;
    }
    uint64_t by_cause = 0;
    for (const uint64_t lost : stats.lost_by_cause) by_cause += lost;
    if (stats.lost != by_cause ||
        stats.attempted != stats.published + stats.lost) {
      Explorer::Fail(Invariant::kAccounting, "a writer's sums are wrong");
    }
    // A reader that died may have had the start of one packet.
    const bool cut = cut_[i] && stats.published == delivered + 1;
    if (stats.published != delivered && !cut) {
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
  for (size_t i = 0; i < writers_.size(); ++i) {
    const WriterStats stats = writers_[i]->ReadStats();
    attempted += IsDead(i) ? ledger_.written(static_cast<uint16_t>(i + 1))
                           : stats.attempted;
    lost += stats.lost;
  }
  uint64_t delivered = 0;
  uint64_t told = 0;
  if (sleeps()) {
    const internal::RingCounts counts = attached_->Count();
    delivered = counts.packets.delivered;
    told = counts.packets.lost.total();
    if (delivered != ledger_.delivered()) {
      Explorer::Fail(Invariant::kAccounting, "buffers hold something else");
    }
  } else {
    delivered = ledger_.delivered() + gone_.packets;
    told = image_.WriterLoss() + told_by_dead_ + assembler_->losses().total();
  }
  bool exact = attempted == delivered + lost && lost == told;
  if (writer_died_) {
    // What it had not come to the end of may be nobody's to count; but not a
    // packet of which the reader has the start.
    const uint64_t unknown = attempted - delivered - told;
    const uint64_t unfinished = ledger_.written(1) - ledger_.settled(1);
    exact = unknown <= unfinished && (told != 0 || !has_start_[0]);
    if (has_start_[0]) reached_.insert("cut-off");
  } else if (const auto cut = std::count(cut_.begin(), cut_.end(), true);
             cut != 0 || gone_.ends_start) {
    // A packet of which the dead reader had the start is lost to its successor,
    // who counts it where it finds the rest. Where its writer gave it up, only
    // the dead one knew.
    const auto orphans = static_cast<uint64_t>(cut);
    const uint64_t missing = attempted - delivered - lost;
    const uint64_t untold = orphans - missing + (gone_.ends_start ? 1 : 0);
    exact = missing <= orphans && told <= lost + missing &&
            told + untold >= lost + missing;
    if (told > lost) reached_.insert("orphan");
  }
  if (!exact) {
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
