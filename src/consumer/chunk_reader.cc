// The reader's half of the chunk protocol; see chunk_reader.h for trust and
// threading.
#include "src/consumer/chunk_reader.h"

#include <algorithm>
#include <cstring>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/state_word.h"

namespace tracering::internal {
namespace {

// How often a position is dispatched again after a lost race, in one pass.
constexpr int kMaxRedispatches = 8;

// Chunks that are remembered as taken from a writer. Honest rings have as many
// as they have writers inside a packet.
constexpr size_t kMaxScraped = 4096;

// Whether a chunk that showed `before` and now shows `after` still belongs to
// the publisher of `before`, so that what was copied still stands there.
// Publishing may add fragments and the flag that describes the last of them.
bool IsExtensionOf(uint32_t before, uint32_t after) {
  constexpr uint32_t kFixed = abi::kFormatMask | abi::kWriterIdMask |
                              abi::kFlagContinuesFromPrevious |
                              abi::kFlagDataLoss;
  return ((before ^ after) & kFixed) == 0 &&
         abi::NumFragmentsOf(after) >= abi::NumFragmentsOf(before);
}

// Both read entries [begin, end) of a directory that grows down from
// `directory_end` into sizes[begin, end), and return their sum. It cannot
// overflow: 255 entries of at most 16 bits.
static_assert(uint64_t{abi::kMaxFragmentsPerChunk} * 0xffff <= UINT32_MAX);

template <uint32_t kWidth>
uint32_t ReadSizes(const uint8_t* directory_end, uint32_t begin, uint32_t end,
                   uint16_t* sizes) {
  uint32_t sum = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t size =
        abi::LoadDirEntry(directory_end - (i + 1) * kWidth, kWidth);
    sizes[i] = static_cast<uint16_t>(size);
    sum += size;
  }
  return sum;
}

// Two-byte entries, four at a time: the directory of a chunk full of small
// packets would otherwise cost as much as its payload.
uint32_t ReadWideSizes(const uint8_t* directory_end, uint32_t begin,
                       uint32_t end, uint16_t* sizes) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  constexpr uint64_t kEvenLanes = 0x0000'ffff'0000'ffff;
  uint64_t sums = 0;  // two lanes of 32 bits
  uint32_t i = begin;
  for (; end - i >= 4; i += 4) {
    uint64_t four;  // entries i + 3 to i, from the lowest lane to the highest
    std::memcpy(&four, directory_end - 2 * (i + 4), sizeof(four));
    const uint64_t even = four & kEvenLanes;
    const uint64_t odd = (four >> 16) & kEvenLanes;
    sums += even + odd;
    const uint64_t swapped = (even << 16) | odd;
    const uint64_t reversed = (swapped << 32) | (swapped >> 32);
    std::memcpy(sizes + i, &reversed, sizeof(reversed));
  }
  return static_cast<uint32_t>(sums) + static_cast<uint32_t>(sums >> 32) +
         ReadSizes<2>(directory_end, i, end, sizes);
}

}  // namespace

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "not stopped";
    case StopReason::kCursorsApart:
      return "cursors too far apart";
    case StopReason::kReservedState:
      return "reserved state";
    case StopReason::kWrongFreeTag:
      return "wrong free tag";
    case StopReason::kAcknowledgedNotZero:
      return "acknowledged word with low bits";
    case StopReason::kAcknowledgedNotFreed:
      return "acknowledged word changed";
    case StopReason::kForeignReader:
      return "foreign reader";
  }
  return "unknown";
}

ChunkReader::ChunkReader(const Ring& ring, uint32_t min_placed)
    : ring_(ring),
      min_placed_(min_placed),
      publish_interval_(
          std::max<uint32_t>(1, ring.geometry().num_chunks() / 8)),
      epoch_(ring.AttachReader()),
      predecessor_left_(had_predecessor() &&
                        ring.LoadReaderLeftAcquire() == epoch_ - 1),
      read_pos_(ring.LoadReadPosAcquire()),
      attach_positions_left_(ring.geometry().num_chunks()),
      copy_(new uint8_t[ring.geometry().chunk_size()]) {}

uint64_t ChunkReader::CaptureEnd() {
  if (stopped()) return resolved();
  const abi::Position write_pos = ring_.LoadWritePosRelaxed();
  const uint32_t distance = abi::Distance(read_pos_, write_pos);
  if (distance > ring_.geometry().num_chunks()) {
    Stop(StopReason::kCursorsApart, write_pos.value());
    return resolved();
  }
  return resolved() + distance;
}

void ChunkReader::Leave(const WriterLosses& counted) {
  if (ring_.LoadReaderEpoch() != epoch_) return;
  for (size_t i = 0; i < counted.size(); ++i) {
    ring_.StoreLeftWriterLoss(static_cast<LossCause>(i), counted[i]);
  }
  ring_.StoreReaderLeft(epoch_, read_pos_);
}

bool ChunkReader::BeginPass() { return !stopped() && CheckEpoch(); }

bool ChunkReader::CheckEpoch() {
  const uint32_t epoch = ring_.LoadReaderEpoch();
  if (epoch == epoch_) return true;
  unpublished_ = 0;  // read_pos belongs to the other reader now
  Stop(StopReason::kForeignReader, epoch);
  return false;
}

bool ChunkReader::PublishReadPos() {
  if (!CheckEpoch()) return false;
  unpublished_ = 0;
  ring_.PublishReadPos(read_pos_);
  return true;
}

ChunkReader::Step ChunkReader::Stop(StopReason reason, uint32_t word) {
  stop_ = {reason, read_pos_, word};
  return Step::kStopped;
}

ChunkReader::Step ChunkReader::ResolveNext(PayloadPlacer* placer) {
  const abi::Geometry& geometry = ring_.geometry();
  const abi::ChunkIndex index = geometry.IndexOf(read_pos_);
  const abi::WrapCount wrap = geometry.WrapOf(read_pos_);
  const abi::WrapCount next_wrap = geometry.NextWrapOf(read_pos_);
  const uint8_t* chunk = ring_.ChunkBytes(index);
  ChunkState state = ring_.StateOf(index);

  ResetCopy();
  uint32_t word = state.LoadAcquire();
  for (int redispatches = 0;; ++redispatches) {
    // The word that is judged and, by the CAS, left; a lost CAS replaces it.
    const uint32_t observed = word;
    switch (abi::StateOf(observed)) {
      case abi::State::kFreeForWrap:
        if (abi::WrapCountOf(observed) == wrap) {
          attach_positions_left_ = 0;
          if (state.TryAdvanceFree(word, next_wrap)) return Hole();
          break;
        }
        if (attach_positions_left_ != 0 &&
            abi::WrapCountOf(observed) == next_wrap) {
          ++stats_.found_resolved;
          return Hole();
        }
        return Stop(StopReason::kWrongFreeTag, observed);

      case abi::State::kAcquired: {
        attach_positions_left_ = 0;
        // A malformed chunk is taken from its writer like any other: it must
        // not publish behind the reader.
        const bool well_formed = CopyPublished(chunk, observed, nullptr);
        if (state.TryRequestRewrite(word)) {
          ++stats_.scrapes;
          NoteScrape(index);
          return Deliver(observed, well_formed);
        }
        break;
      }

      case abi::State::kComplete: {
        attach_positions_left_ = 0;
        const bool well_formed = CopyPublished(chunk, observed, placer);
        if (state.TryReclaimComplete(word, next_wrap)) {
          return Deliver(observed, well_formed);
        }
        placer = nullptr;  // its writer is at it: the copy will be extended
        break;
      }

      case abi::State::kRewriteRequested:
        // Scraped one traversal ago or more; only its writer may leave it.
        return Hole();

      case abi::State::kAcknowledged:
        if (observed != abi::kAcknowledgedWord) {
          return Stop(StopReason::kAcknowledgedNotZero, observed);
        }
        if (state.TryReclaimAcknowledged(next_wrap)) return Hole();
        return Stop(StopReason::kAcknowledgedNotFreed, observed);

      case abi::State::kReserved5:
      case abi::State::kReserved6:
      case abi::State::kReserved7:
        return Stop(StopReason::kReservedState, observed);
    }
    ++stats_.lost_races;
    if (redispatches == kMaxRedispatches) return Step::kRetryLater;
  }
}

ChunkReader::Step ChunkReader::Hole() {
  ++stats_.holes;
  return Step::kHole;
}

void ChunkReader::ResetCopy() {
  copied_word_ = 0;
  copied_payload_ = 0;
  placed_ = nullptr;
}

bool ChunkReader::CopyPublished(const uint8_t* chunk, uint32_t word,
                                PayloadPlacer* placer) {
  if (abi::FormatOf(word) != abi::Format::kTargetBuffer) return true;
  if (!IsExtensionOf(copied_word_, word)) ResetCopy();
  const uint32_t have = abi::NumFragmentsOf(copied_word_);
  const uint32_t want = abi::NumFragmentsOf(word);
  if (have == want) {
    copied_word_ = word;
    return true;
  }

  const abi::Geometry& geometry = ring_.geometry();
  const uint32_t width = geometry.dir_entry_size();
  const uint32_t capacity = abi::PayloadCapacity(geometry.chunk_size());
  const uint32_t directory = want * width;
  if (directory > capacity) {
    ResetCopy();
    return false;
  }
  const uint32_t first_new = abi::DirEntryOffset(geometry, want - 1);
  std::memcpy(copy_.get() + first_new, chunk + first_new,
              (want - have) * width);

  const uint8_t* const end = copy_.get() + geometry.chunk_size();
  const uint32_t total =
      copied_payload_ + (width == 1
                             ? ReadSizes<1>(end, have, want, sizes_.data())
                             : ReadWideSizes(end, have, want, sizes_.data()));
  if (total > capacity - directory) {
    ResetCopy();
    return false;
  }
  if (placer != nullptr && total >= min_placed_ &&
      CopyToPlace(chunk, word, total, placer)) {
    return true;
  }
  // The first publication also publishes the target buffer id before it.
  const uint32_t from = have == 0 ? abi::kTargetBufferIdOffset
                                  : abi::kPayloadStart + copied_payload_;
  std::memcpy(copy_.get() + from, chunk + from,
              abi::kPayloadStart + total - from);
  copied_word_ = word;
  copied_payload_ = total;
  return true;
}

bool ChunkReader::CopyToPlace(const uint8_t* chunk, uint32_t word,
                              uint32_t total, PayloadPlacer* placer) {
  std::memcpy(copy_.get() + abi::kTargetBufferIdOffset,
              chunk + abi::kTargetBufferIdOffset,
              abi::kPayloadStart - abi::kTargetBufferIdOffset);
  DescribeCopy(word, total);
  uint8_t* const place = placer->PlaceFor(view_);
  if (place == nullptr) return false;
  const auto copy = [&](uint8_t* to, uint32_t offset, uint32_t size) {
    std::memcpy(to, chunk + abi::kPayloadStart + offset, size);
  };
  uint8_t* const payload = copy_.get() + abi::kPayloadStart;
  const uint32_t head = view_.HeadSize();
  const uint32_t tail = view_.TailSize();
  copy(payload, 0, head);
  copy(place, head, view_.WholeSize());
  copy(payload + total - tail, total - tail, tail);
  copied_word_ = 0;  // not to be extended
  copied_payload_ = total;
  placed_ = place;
  return true;
}

void ChunkReader::DescribeCopy(uint32_t word, uint32_t payload_size) {
  view_.writer = abi::WriterIdOf(word);
  view_.buffer = abi::LoadBufferId(copy_.get());
  view_.flags = abi::FlagsOf(word);
  view_.num_fragments = abi::NumFragmentsOf(word);
  view_.payload_size = payload_size;
  view_.payload = copy_.get() + abi::kPayloadStart;
  view_.placed = placed_;
  view_.sizes = sizes_.data();
}

ChunkReader::Step ChunkReader::Deliver(uint32_t word, bool well_formed) {
  const uint32_t num_fragments = abi::NumFragmentsOf(word);
  if (num_fragments == 0 && abi::StateOf(word) == abi::State::kAcquired) {
    return Hole();  // nothing was published yet, so nothing was taken
  }
  if (abi::FormatOf(word) != abi::Format::kTargetBuffer) {
    return Drop(ChunkDropReason::kUnknownFormat, word, &stats_.unknown_format);
  }
  if (num_fragments == 0) {
    return Drop(ChunkDropReason::kEmpty, word, &stats_.empty);
  }
  if (!well_formed) {
    return Drop(ChunkDropReason::kMalformed, word, &stats_.malformed);
  }
  if (abi::WriterIdOf(word) == WriterId()) {
    return Drop(ChunkDropReason::kNoWriter, word, &stats_.no_writer);
  }
  DescribeCopy(word, copied_payload_);
  view_.writer_loss = TakeMovedWriterLoss(view_.flags);
  ++stats_.chunks;
  stats_.fragments += num_fragments;
  stats_.payload_bytes += copied_payload_;
  return Step::kChunk;
}

void ChunkReader::NoteScrape(abi::ChunkIndex index) {
  if (scraped_.size() == kMaxScraped) PruneScraped();
  if (scraped_.size() < kMaxScraped) scraped_.push_back(index.value());
}

void ChunkReader::PruneScraped() {
  std::sort(scraped_.begin(), scraped_.end());
  scraped_.erase(std::unique(scraped_.begin(), scraped_.end()), scraped_.end());
  scraped_.erase(
      std::remove_if(scraped_.begin(), scraped_.end(),
                     [this](uint32_t index) {
                       const uint32_t word =
                           ring_.StateOf(abi::ChunkIndex(index)).LoadAcquire();
                       return abi::StateOf(word) !=
                              abi::State::kRewriteRequested;
                     }),
      scraped_.end());
}

uint32_t ChunkReader::CountOpenChunks() {
  PruneScraped();
  return static_cast<uint32_t>(scraped_.size());
}

ChunkReader::Step ChunkReader::Drop(ChunkDropReason reason, uint32_t word,
                                    uint64_t* counter) {
  ++*counter;
  const uint32_t flags = abi::FlagsOf(word);
  dropped_ = {reason, abi::WriterIdOf(word), flags, abi::NumFragmentsOf(word),
              TakeMovedWriterLoss(flags)};
  return Step::kDropped;
}

// The counters move before the flag is published, so the causes of this loss
// are among them. They are only as true as the producer.
LossMask ChunkReader::TakeMovedWriterLoss(uint32_t flags) {
  if ((flags & abi::kFlagDataLoss) == 0) return 0;
  LossMask moved = 0;
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    const uint64_t count = ring_.LoadWriterLoss(cause);
    if (count != marked_loss_[i]) moved |= MaskOf(cause);
    marked_loss_[i] = count;
  }
  return moved;
}

}  // namespace tracering::internal
