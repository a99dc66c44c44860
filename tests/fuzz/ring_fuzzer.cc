// A ring that its producer forges as a whole, cursors included, before and
// while it is drained: at any access of the reader to a shared word, which the
// hook of SharedWord tells. Beside it an honest ring, into the same buffers.
//
//   input := shape and history of the ring, then operations of a byte and what
//            they need; hostile_ring.h reads the forgeries out of the same
//            bytes
//
// Held against: the transitions that a reader may make, a bound on the accesses
// of a pass, the decoder of tests/support where nothing is forged meanwhile,
// the accounts, and the honest ring's exact delivery.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/sync/shared_word.h"
#include "src/consumer/attached_ring.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/rewriter.h"
#include "src/consumer/ring_scheduler.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/hostile_ring.h"
#include "tests/support/require.h"
#include "tests/support/ring_decoder.h"
#include "tracering/ring_inspector.h"

#ifndef TRACERING_SHARED_WORD_HOOK
#error "link the hooked libraries"
#endif

namespace tracering::test {
namespace {

using internal::AttachedRing;
using internal::BufferSet;
using internal::ByteBuffer;
using internal::ChunkReader;
using internal::ChunkReaderStats;
using internal::ChunkView;
using internal::DroppedChunk;
using internal::ReadCursor;
using internal::RecordSlice;
using internal::RecordView;
using internal::RingOwner;
using internal::RingScheduler;
using internal::SharedAccess;

constexpr uint64_t kMaxFragments = 255;
constexpr size_t kMaxRingOperations = 200;
// Of a reader to one position: a load and a compare-exchange for each of nine
// dispatches, the writers' counters for a mark, and what publishing takes.
constexpr uint64_t kMaxAccessesPerPosition = 2 * 9 + 8 + 8;
// Arming, disarming, the cursors.
constexpr uint64_t kMaxOtherAccesses = 32;
// A look at each chunk that may be open.
constexpr uint64_t kMaxOpenChunks = 4096;

std::unique_ptr<AttachedRing> Attach(const RingImage& image, RingOwner* owner,
                                     BufferSet* buffers, bool metadata,
                                     size_t partial_limit,
                                     const uint8_t** base) {
  AttachedRing::Options options;
  auto mapping = os::SharedMapping::Map(image.fd(), image.size());
  Require(mapping.ok(), "mmap of a ring");
  *base = static_cast<const uint8_t*>(mapping->data());
  options.mapping = *std::move(mapping);
  options.geometry = image.geometry();
  options.metadata = metadata;
  options.partial_packet_limit = partial_limit;
  return std::make_unique<AttachedRing>(std::move(options), owner, buffers);
}

// What a bare reader makes of a copy of a ring that nobody changes.
class FragmentSink {
 public:
  void OnChunk(const ChunkView& view) {
    DecodedChunk chunk;
    chunk.writer = view.writer.value();
    chunk.buffer = view.buffer.value();
    const auto* next = reinterpret_cast<const char*>(view.payload);
    for (uint32_t i = 0; i < view.num_fragments; ++i) {
      chunk.fragments.emplace_back(next, view.sizes[i]);
      next += view.sizes[i];
    }
    chunks.push_back(std::move(chunk));
  }
  void OnDroppedChunk(const DroppedChunk&) {}
  void BeforePublication() {}

  std::vector<DecodedChunk> chunks;
};

// The decoder goes on where a reader stops, so that only what lies before that
// is compared.
std::string CompareWithDecoder(const RingImage& image,
                               const DecodedRing& expected) {
  RingImageOptions options;
  options.num_chunks = image.geometry().num_chunks();
  options.chunk_size = image.geometry().chunk_size();
  const RingImage copy = RingImage::InPlainMemory(options);
  std::copy(image.base(), image.base() + image.size(), copy.base());
  ChunkReader reader(internal::Ring(copy.base(), copy.geometry()));
  FragmentSink sink;
  (void)reader.DrainPass(sink);
  auto read = sink.chunks.begin();
  for (const DecodedChunk& chunk : expected.chunks) {
    if (chunk.position - expected.read_pos >= reader.resolved()) break;
    if (read == sink.chunks.end() || read->fragments != chunk.fragments ||
        read->writer != chunk.writer || read->buffer != chunk.buffer) {
      return fmt::format("position {:#x} was not read as the decoder does",
                         chunk.position);
    }
    ++read;
  }
  return read == sink.chunks.end() ? "" : "more chunks than the decoder finds";
}

// What the inspector says of the same ring, whose identity may be forged.
std::string CompareWithInspector(const RingImage& image,
                                 const DecodedRing& expected) {
  const auto inspector = RingInspector::FromImage(
      std::string(reinterpret_cast<const char*>(image.base()), image.size()));
  if (!inspector.ok()) return "";
  const InspectedRing& ring = inspector->contents();
  if (ring.num_chunks != image.geometry().num_chunks()) return "";
  for (const DecodedChunk& chunk : expected.chunks) {
    const InspectedChunk& found = ring.chunks[chunk.position % ring.num_chunks];
    size_t payload = 0;
    for (const std::string& fragment : chunk.fragments) {
      payload += fragment.size();
    }
    if (!found.outstanding || !found.problem.empty() ||
        found.position != chunk.position ||
        found.writer.value() != chunk.writer ||
        found.num_fragments != chunk.fragments.size() ||
        found.payload_size != payload) {
      return fmt::format("position {:#x} was not inspected as decoded",
                         chunk.position);
    }
  }
  return "";
}

// Reads all that a buffer holds, as for a file.
std::string ReadOut(BufferSet* buffers, uint32_t target) {
  internal::TargetBuffer& buffer = buffers->buffer(target);
  ReadCursor cursor = buffer.BeginSnapshot();
  RecordSlice slice;
  internal::Rewriter rewriter;
  uint64_t packets = 0;
  std::map<internal::SequenceIndex, uint64_t> next_ordinals;
  while (buffer.CopyRecords(&cursor, 1000, &slice)) {
    RecordSlice::Reader reader(slice);
    for (RecordView record; reader.Next(&record);) {
      const uint8_t* packet = record.payload;
      for (uint32_t i = 0; i < record.header.num_packets; ++i) {
        ByteBuffer out;
        (void)rewriter.Rewrite(packet, record.SizeOf(i), &out);
        packet += record.SizeOf(i);
      }
      if (packet != record.payload + record.header.payload_size) {
        return "sizes of a record do not add up";
      }
      uint64_t& next = next_ordinals[record.header.sequence];
      if (record.header.first_ordinal < next) return "ordinals run backwards";
      next = record.header.first_ordinal + record.header.num_packets;
      packets += record.header.num_packets;
      if (buffers->sequences().Find(record.header.sequence) == nullptr) {
        return "a packet of no sequence";
      }
    }
  }
  const internal::TargetBufferStats& stats = buffer.stats();
  return packets == stats.packets_stored - stats.packets_evicted
             ? ""
             : "a buffer holds other packets than it counted";
}

class RingSession {
 public:
  explicit RingSession(FuzzInput input);
  ~RingSession() { internal::shared_word_hook.store(nullptr); }
  RingSession(const RingSession&) = delete;
  RingSession& operator=(const RingSession&) = delete;

  // What went wrong first.
  std::string Run();

 private:
  static RingSession* current;

  void Fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  void OnAccess(SharedAccess access, const void* word);
  void SettleAccess();
  // Runs `body` with forgeries at its accesses, if asked for, and judges what
  // it did. It resolves no more than a ring's positions.
  template <typename Body>
  void Watch(bool forging, Body body, uint64_t more_accesses = 0);

  void AttachHostile();
  void DetachHostile();
  void CheckCounts();
  void DrainStill();
  void PublishHonest();
  void RunSlices(bool forging);
  void Operate();
  void Settle();
  abi::Position HostilePosition() const {
    return abi::Advance(start_, static_cast<uint32_t>(hostile_->resolved()));
  }

  FuzzInput input_;
  HostileRing ring_;
  RingImage honest_image_;
  std::unique_ptr<BufferSet> buffers_;
  RingScheduler scheduler_;
  RingOwner hostile_owner_;
  RingOwner honest_owner_;
  std::unique_ptr<AttachedRing> hostile_;
  std::unique_ptr<AttachedRing> honest_;
  uint64_t honest_packets_ = 0;
  const uint8_t* base_ = nullptr;  // of the hostile ring, as the reader sees it
  abi::Position start_;            // where its reader began
  uint32_t epoch_ = 0;
  bool metadata_ = false;

  bool watching_ = false;
  bool forging_ = false;
  uint32_t until_forgery_ = 0;
  uint64_t accesses_ = 0;
  // A compare-exchange that is about to happen, or has happened.
  std::optional<uint32_t> exchanged_;
  abi::Position exchanged_at_;
  std::string wrong_;
};

RingSession* RingSession::current = nullptr;

RingSession::RingSession(FuzzInput input)
    : input_(input),
      ring_(&input_),
      honest_image_(RingImage::InMemfd({2, 256, 0xffff'fffd, true})),
      hostile_owner_(1, size_t{64} * (1 + input_.Byte())),
      honest_owner_(2, 1 << 20) {
  auto buffers = BufferSet::Create({{"ring", 4096, FillPolicy::kRing},
                                    {"discard", 4096, FillPolicy::kDiscard}},
                                   2048);
  Require(buffers.ok(), "buffers");
  buffers_ = *std::move(buffers);
  for (RingOwner* owner : {&hostile_owner_, &honest_owner_}) {
    owner->targets = {{1, 0}, {2, 1}, {9, buffers_->metadata_target()}};
    owner->unknown_buffers = {7};
  }
  const uint8_t history = input_.Byte();
  metadata_ = history % 4 == 3;
  // Grants may come while a slice is drained.
  if (history >= 128) {
    hostile_owner_.hear_requests = [this] { hostile_owner_.targets[300] = 1; };
  }
  if (history % 3 == 1) ring_.SetWord32(abi::kReaderEpochOffset, history);
  if (history % 6 == 1) ring_.SetWord32(abi::kReaderLeftOffset, history);
  const uint8_t* ignored = nullptr;
  honest_ = Attach(honest_image_, &honest_owner_, buffers_.get(), false,
                   1 << 20, &ignored);
  scheduler_.Add(honest_.get());
  current = this;
  internal::shared_word_hook.store([](SharedAccess access, const void* word) {
    current->OnAccess(access, word);
  });
  AttachHostile();
}

void RingSession::OnAccess(SharedAccess access, const void* word) {
  if (!watching_) return;
  SettleAccess();
  ++accesses_;
  if (forging_ && !input_.done() && until_forgery_-- == 0) {
    ring_.Mutate();
    until_forgery_ = input_.Byte() % 32;
  }
  const auto* at = static_cast<const uint8_t*>(word);
  const abi::Geometry& geometry = ring_.geometry();
  if (access != SharedAccess::kCompareExchange ||
      at < base_ + abi::kControlHeaderSize ||
      at >= base_ + geometry.RingSize()) {
    return;
  }
  const auto offset = static_cast<size_t>(at - base_) - abi::kControlHeaderSize;
  exchanged_ = static_cast<uint32_t>(offset / geometry.chunk_size());
  exchanged_at_ = HostilePosition();
}

// The access before is over by now, and what it did to its chunk shows.
void RingSession::SettleAccess() {
  if (!exchanged_.has_value()) return;
  if (!ring_.AcceptTransition(*exchanged_, exchanged_at_)) {
    Fail(fmt::format("chunk {} was changed to {:#010x} at position {:#x}",
                     *exchanged_, ring_.image().state_word(*exchanged_),
                     exchanged_at_.value()));
  }
  exchanged_.reset();
}

template <typename Body>
void RingSession::Watch(bool forging, Body body, uint64_t more_accesses) {
  watching_ = true;
  forging_ = forging;
  until_forgery_ = forging ? input_.Byte() % 32 : 0;
  accesses_ = 0;
  body();
  SettleAccess();
  watching_ = false;
  if (!ring_.OnlyReaderWordsChanged()) {
    Fail("the reader wrote what is not its to write");
  }
  const uint64_t positions =
      ring_.geometry().num_chunks() + honest_image_.geometry().num_chunks();
  if (accesses_ >
      positions * kMaxAccessesPerPosition + kMaxOtherAccesses + more_accesses) {
    Fail(fmt::format("{} accesses in one pass", accesses_));
  }
}

void RingSession::AttachHostile() {
  start_ = abi::Position(ring_.image().read_pos());
  hostile_ = Attach(ring_.image(), &hostile_owner_, buffers_.get(), metadata_,
                    1000, &base_);
  epoch_ = ring_.image().Word32(abi::kReaderEpochOffset);
  scheduler_.Add(hostile_.get());
}

void RingSession::DetachHostile() {
  scheduler_.Remove(hostile_.get());
  Watch(true, [&] { hostile_->Finish(); });
  CheckCounts();
  hostile_ = nullptr;
  if (hostile_owner_.budget.used() != 0) Fail("a packet is held for ever");
}

void RingSession::CheckCounts() {
  const ChunkReaderStats& stats = hostile_->reader_stats();
  const uint64_t dropped =
      stats.unknown_format + stats.malformed + stats.empty + stats.no_writer;
  if (stats.positions != stats.holes + stats.chunks + dropped) {
    Fail("positions do not add up");
  }
  const internal::RingCounts counts = hostile_->Count();
  uint64_t attempted = counts.packets.delivered + counts.metadata.delivered;
  for (size_t i = kNumWriterLossCauses; i < kNumLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    attempted += counts.packets.lost[cause] + counts.metadata.lost[cause];
  }
  // Each packet has a fragment of its own.
  if (attempted > stats.fragments + dropped * kMaxFragments) {
    Fail("more packets than fragments");
  }
}

// A pass during which nothing is forged. Chunks are those of the decoder; where
// that has nothing to complain about, the ring is drained to its end.
void RingSession::DrainStill() {
  const abi::Geometry& geometry = ring_.geometry();
  const DecodedRing expected = DecodeRing(
      ring_.image().base(), {geometry.num_chunks(), geometry.chunk_size()});
  if (std::string wrong = CompareWithDecoder(ring_.image(), expected);
      !wrong.empty()) {
    Fail(std::move(wrong));
  }
  if (std::string wrong = CompareWithInspector(ring_.image(), expected);
      !wrong.empty()) {
    Fail(std::move(wrong));
  }
  const bool live = !hostile_->stopped() &&
                    ring_.image().Word32(abi::kReaderEpochOffset) == epoch_;
  const uint32_t distance = expected.write_pos - HostilePosition().value();
  const bool good = live && expected.violations.empty() &&
                    expected.read_pos == HostilePosition().value();
  const ChunkReaderStats before = hostile_->reader_stats();
  Watch(false, [&] { (void)hostile_->DrainSlice(hostile_->CaptureEnd()); });
  const ChunkReaderStats& after = hostile_->reader_stats();
  if (live && distance > geometry.num_chunks() &&
      (!hostile_->stopped() || after.positions != before.positions)) {
    Fail("more is outstanding than there are chunks, and it was read");
  }
  if (!good) return;
  if (hostile_->stopped() ||
      after.chunks - before.chunks != expected.chunks.size() ||
      after.holes - before.holes != expected.holes.size()) {
    Fail("a good ring was not read as the decoder does");
  }
  if (ring_.image().read_pos() != expected.write_pos) {
    Fail("a drained ring was not published");
  }
}

void RingSession::PublishHonest() {
  if (honest_image_.write_pos() - honest_image_.read_pos() ==
      honest_image_.geometry().num_chunks()) {
    return;
  }
  ForgedChunk chunk;
  chunk.writer = 5;
  chunk.fragments = {std::string("\x40\x2a", 2), std::string("\x40\x2b", 2)};
  honest_image_.Publish(chunk);
  honest_packets_ += chunk.fragments.size();
}

void RingSession::RunSlices(bool forging) {
  Watch(forging, [&] { scheduler_.WakeAllOutstanding(); });
  Watch(forging, [&] { (void)scheduler_.RunSlice(); });
}

void RingSession::Operate() {
  const uint8_t what = input_.Byte();
  switch (what % 16) {
    case 0:
    case 1:
      return Watch(true,
                   [&] { (void)hostile_->DrainSlice(hostile_->CaptureEnd()); });
    case 2:
      return DrainStill();
    case 3:
    case 4:
      return RunSlices(true);
    case 5:
      return Watch(true, [&] { (void)scheduler_.ArmForSleep(); });
    case 6:
      return PublishHonest();
    case 7:
      Watch(true, [&] { (void)hostile_->Stats(); });
      Watch(
          true, [&] { (void)hostile_->CountOpenChunks(); }, kMaxOpenChunks);
      return CheckCounts();
    case 8:
      if (what >= 64) return;
      DetachHostile();
      return AttachHostile();
    case 9:
    case 10:
    case 11:
    case 12:
      return ring_.Publish();
    default:
      return ring_.Mutate();
  }
}

// With nothing more being forged, everything comes to rest.
void RingSession::Settle() {
  const uint32_t passes = ring_.geometry().num_chunks();
  for (uint32_t i = 0; i < passes + 2; ++i) RunSlices(false);
  for (int i = 0; i < 4 && scheduler_.has_work(); ++i) RunSlices(false);
  if (scheduler_.has_work()) Fail("a ring never comes to rest");
  bool sleeps = false;
  for (int i = 0; i < 3 && !sleeps; ++i) {
    Watch(false, [&] { sleeps = scheduler_.ArmForSleep(); });
    while (scheduler_.has_work()) RunSlices(false);
  }
  if (!sleeps) Fail("the consumer never sleeps");
}

std::string RingSession::Run() {
  for (size_t i = 0; i < kMaxRingOperations && !input_.done() && wrong_.empty();
       ++i) {
    Operate();
  }
  Settle();
  DetachHostile();
  if (honest_->Count().packets.delivered != honest_packets_ ||
      honest_->Count().packets.lost.total() != 0 || honest_->stopped()) {
    Fail("the honest ring was harmed");
  }
  for (uint32_t target = 0; target < buffers_->size(); ++target) {
    if (std::string wrong = ReadOut(buffers_.get(), target); !wrong.empty()) {
      Fail(std::move(wrong));
    }
  }
  return wrong_;
}

}  // namespace

std::string FuzzRing(const uint8_t* bytes, size_t size) {
  return RingSession(FuzzInput(bytes, size)).Run();
}

}  // namespace tracering::test
