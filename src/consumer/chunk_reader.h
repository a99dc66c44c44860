// Drains one ring: resolves its positions in order and hands over what was
// published, as private copies.
//
// Everything in the mapping is producer-owned and may change at any time: each
// byte is copied once and only the copy is judged; every loop is bounded; a
// word that breaks the protocol stops this ring and nothing else. This class
// knows nothing of packets, buffers or processes, and logs nothing.
//
// Threading: none of its own; the caller serialises all calls for one ring.
#ifndef TRACERING_SRC_CONSUMER_CHUNK_READER_H_
#define TRACERING_SRC_CONSUMER_CHUNK_READER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "src/common/ring/ring.h"
#include "src/consumer/chunk_view.h"
#include "tracering/data_loss.h"
#include "tracering/ids.h"

namespace tracering::internal {

enum class DrainOutcome {
  kDrained,     // every position up to the end that was asked for is resolved
  kRetryLater,  // a position kept losing its races; it was not resolved
  kStopped,     // see ChunkReader::stop(); the ring is not touched again
};

// Why a ring was stopped for good.
enum class StopReason {
  kNone,
  kCursorsApart,          // write_pos - read_pos exceeds num_chunks
  kReservedState,         // state 101, 110 or 111
  kWrongFreeTag,          // free, but for no wrap that may stand there
  kAcknowledgedNotZero,   // Acknowledged with a bit set below the state
  kAcknowledgedNotFreed,  // Acknowledged changed under the reader
  kForeignReader,         // somebody else attached as the reader
};

// Short lower-case text for logs, such as "wrong free tag".
std::string_view StopReasonName(StopReason reason);

struct RingStop {
  StopReason reason = StopReason::kNone;
  // The first position that was not resolved.
  abi::Position position;
  // What broke the rule: a state word, for kCursorsApart write_pos, for
  // kForeignReader the epoch found.
  uint32_t word = 0;
};

enum class ChunkDropReason {
  kUnknownFormat,  // not format 00: header and payload were not read
  kMalformed,      // the directory does not fit the chunk
  kEmpty,          // Complete without a fragment
  kNoWriter,       // writer id 0
};

// A chunk whose ownership was settled as usual and whose payload was not used.
struct DroppedChunk {
  ChunkDropReason reason = ChunkDropReason::kMalformed;
  // As claimed by the state word.
  WriterId writer;
  uint32_t flags = 0;
  uint32_t num_fragments = 0;
  LossMask writer_loss = 0;  // as in ChunkView
};

// positions == holes + chunks + the four kinds of dropped chunks.
struct ChunkReaderStats {
  uint64_t positions = 0;  // resolved since the reader attached
  uint64_t holes = 0;      // of these, positions that carried no payload
  uint64_t chunks = 0;     // handed over
  uint64_t unknown_format = 0;
  uint64_t malformed = 0;
  uint64_t empty = 0;
  uint64_t no_writer = 0;

  uint64_t fragments = 0;      // in the chunks handed over
  uint64_t payload_bytes = 0;  // likewise
  uint64_t scrapes = 0;        // chunks taken from a writer that held them
  uint64_t lost_races = 0;     // compare-exchanges that a writer won
  uint64_t retry_later = 0;    // passes that gave up on a position
  // Holes that an earlier reader left: positions that it had resolved without
  // publishing read_pos. What they carried is gone with it.
  uint64_t found_resolved = 0;
};

// A Sink has three methods. Two are called in position order:
//   void OnChunk(const ChunkView& chunk);        // valid during the call
//   void OnDroppedChunk(const DroppedChunk& dropped);
// and one before read_pos is published, so that who finds it also finds what
// was counted up to there:
//   void BeforePublication();
class ChunkReader {
 public:
  // Attaches as the ring's reader: announces a new epoch and goes on where
  // read_pos stands. The mapping must outlive this object, and no other reader
  // may be attached on purpose. Payloads from `min_placed` bytes on, at least
  // 1, go where a placer says: smaller ones are copied twice in the time that
  // it takes to ask.
  explicit ChunkReader(const Ring& ring, uint32_t min_placed = 256);

  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // Resolves the positions that are outstanding now, and none that are
  // reserved meanwhile, so that a pass is bounded by num_chunks.
  template <typename Sink>
  [[nodiscard]] DrainOutcome DrainPass(Sink& sink) {
    return DrainTo(CaptureEnd(), sink);
  }

  // The end of what is reserved now, as a count that never rolls over: the
  // value that resolved() has once all of it is resolved. For a flush. Stops
  // the ring if the cursors are impossible; on a stopped ring the count is the
  // one that is reached already.
  [[nodiscard]] uint64_t CaptureEnd();

  // Resolves positions up to `end`, a value from CaptureEnd. Nothing to do if
  // it was passed already. read_pos is published on the way and at the end.
  // With a placer, payloads that are large enough go where it says.
  template <typename Sink>
  [[nodiscard]] DrainOutcome DrainTo(uint64_t end, Sink& sink,
                                     PayloadPlacer* placer = nullptr) {
    if (!BeginPass()) return DrainOutcome::kStopped;
    while (resolved() < end) {
      switch (ResolveNext(placer)) {
        case Step::kHole:
          break;
        case Step::kChunk:
          sink.OnChunk(view_);
          break;
        case Step::kDropped:
          sink.OnDroppedChunk(dropped_);
          break;
        case Step::kRetryLater:
          ++stats_.retry_later;
          return EndPass(DrainOutcome::kRetryLater, sink);
        case Step::kStopped:
          return EndPass(DrainOutcome::kStopped, sink);
      }
      FinishPosition();
      if (unpublished_ < publish_interval_) continue;
      if (!Publish(sink)) return DrainOutcome::kStopped;
    }
    return EndPass(DrainOutcome::kDrained, sink);
  }

  // Positions resolved since the reader attached.
  uint64_t resolved() const { return stats_.positions; }
  // The next position to resolve; published at the end of every pass.
  abi::Position read_pos() const { return read_pos_; }

  bool stopped() const { return stop_.reason != StopReason::kNone; }
  const RingStop& stop() const { return stop_; }
  const ChunkReaderStats& stats() const { return stats_; }
  const Ring& ring() const { return ring_; }

  // Whether the ring had a reader before this one. If so, what that one took
  // is missing here, and each sequence of the ring begins with a read gap.
  bool had_predecessor() const { return epoch_ != 1; }
  // Whether that one left in good order: it has counted the packets of which
  // it had only the first part. After any other end nobody has.
  bool predecessor_left() const { return predecessor_left_; }

  // Chunks that were taken from writers which still hold them, as far as the
  // last 4096 that were taken go. A look at each: the writers may have let go.
  uint32_t CountOpenChunks();

  // Says that this reader has counted its unfinished packets and, of what
  // writers lost, so much for each cause, and comes no more. After the last
  // pass; no effect once another reader has attached.
  using WriterLosses = std::array<uint64_t, kNumWriterLossCauses>;
  void Leave(const WriterLosses& counted);

 private:
  enum class Step { kHole, kChunk, kDropped, kRetryLater, kStopped };

  // False if the ring is stopped, perhaps just now.
  [[nodiscard]] bool BeginPass();
  // Resolves read_pos_ and fills view_ or dropped_. Does not move read_pos_.
  [[nodiscard]] Step ResolveNext(PayloadPlacer* placer);
  // Moves on to the next position.
  void FinishPosition() {
    read_pos_ = read_pos_.Next();
    ++stats_.positions;
    if (attach_positions_left_ != 0) --attach_positions_left_;
    ++unpublished_;
  }
  // Publishes what the pass resolved, also on a ring that was stopped:
  // read_pos then names the offending position.
  template <typename Sink>
  [[nodiscard]] DrainOutcome EndPass(DrainOutcome outcome, Sink& sink) {
    if (unpublished_ == 0 || Publish(sink)) return outcome;
    return DrainOutcome::kStopped;
  }

  // False if the ring was stopped.
  template <typename Sink>
  [[nodiscard]] bool Publish(Sink& sink) {
    sink.BeforePublication();
    return PublishReadPos();
  }
  [[nodiscard]] bool PublishReadPos();
  [[nodiscard]] bool CheckEpoch();
  Step Stop(StopReason reason, uint32_t word);

  // The position carried no payload.
  Step Hole();
  // Forgets the copy of an earlier position.
  void ResetCopy();
  // Brings the private copy up to what `word` publishes, copying only what it
  // lacks. False if the directory is malformed.
  [[nodiscard]] bool CopyPublished(const uint8_t* chunk, uint32_t word,
                                   PayloadPlacer* placer);
  // Copies a whole payload of `total` bytes, whose sizes are known, and of that
  // the whole packets to where the placer wants them. False if it does not.
  [[nodiscard]] bool CopyToPlace(const uint8_t* chunk, uint32_t word,
                                 uint32_t total, PayloadPlacer* placer);
  // Fills view_ with what `word` and the copy say.
  void DescribeCopy(uint32_t word, uint32_t payload_size);
  // After the transition from `word`: what becomes of the copy.
  Step Deliver(uint32_t word, bool well_formed);
  Step Drop(ChunkDropReason reason, uint32_t word, uint64_t* counter);
  void NoteScrape(abi::ChunkIndex index);
  // Forgets chunks that their writers have let go of.
  void PruneScraped();
  // Causes behind a data loss flag; 0 without the flag.
  LossMask TakeMovedWriterLoss(uint32_t flags);

  // Immutable.
  const Ring ring_;
  const uint32_t min_placed_;
  const uint32_t publish_interval_;
  const uint32_t epoch_;
  const bool predecessor_left_;

  abi::Position read_pos_;
  uint32_t unpublished_ = 0;
  // While not 0 the attach phase lasts, in which a position may be found
  // resolved by an earlier reader.
  uint32_t attach_positions_left_;
  RingStop stop_;
  ChunkReaderStats stats_;

  // The private copy of the chunk being resolved, at the chunk's own offsets,
  // and its directory in payload order. copied_word_ is the state word whose
  // fragments it holds; 0 (a free word) if none.
  const std::unique_ptr<uint8_t[]> copy_;
  std::array<uint16_t, abi::kMaxFragmentsPerChunk> sizes_;
  uint32_t copied_word_ = 0;
  uint32_t copied_payload_ = 0;
  // Where the whole packets are, if not in copy_. Such a copy is not extended.
  const uint8_t* placed_ = nullptr;

  ChunkView view_;
  DroppedChunk dropped_;
  // May name chunks that have been let go of since, and some twice.
  std::vector<uint32_t> scraped_;
  // Writers' counters at this ring's previous loss mark.
  std::array<uint64_t, kNumWriterLossCauses> marked_loss_{};
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_CHUNK_READER_H_
