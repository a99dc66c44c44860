// The target buffer: both policies, readers that are lapped, and random storing
// and reading against a model that knows what was stored.
#include "src/consumer/target_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/consumer/packet_assembler.h"
#include "src/consumer/sequence_progress.h"
#include "tests/consumer/chunk_fixture.h"
#include "tracering/buffer_config.h"

namespace tracering::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr LossMask kOverwrittenMark = MarkOf(LossCause::kOverwritten);

struct StoredPacket {
  SequenceIndex sequence = 0;
  std::string bytes;
  LossMask loss = 0;

  friend bool operator==(const StoredPacket& a, const StoredPacket& b) {
    return a.sequence == b.sequence && a.bytes == b.bytes && a.loss == b.loss;
  }
  friend std::ostream& operator<<(std::ostream& out,
                                  const StoredPacket& packet) {
    return out << packet.sequence << ":\"" << packet.bytes.substr(0, 20)
               << "\" loss " << packet.loss;
  }
};

std::unique_ptr<TargetBuffer> MakeBuffer(uint64_t size, FillPolicy policy) {
  auto buffer = TargetBuffer::Create(size, policy);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

// Appends the packets of `slice`, with the marks that `progress` gives them.
void Unpack(const RecordSlice& slice, SequenceProgress* progress,
            std::vector<StoredPacket>* out) {
  RecordView record;
  for (RecordSlice::Reader reader(slice); reader.Next(&record);) {
    const SequenceIndex sequence = record.header.sequence;
    LossMask loss = progress->OnRecord(record.header, &progress->At(sequence));
    const uint8_t* next = record.payload;
    for (uint32_t i = 0; i < record.header.num_packets; ++i) {
      const uint32_t size = record.SizeOf(i);
      out->push_back({sequence,
                      std::string(reinterpret_cast<const char*>(next), size),
                      std::exchange(loss, 0)});
      next += size;
    }
  }
}

// Reads until `cursor` has nothing more.
std::vector<StoredPacket> ReadAll(TargetBuffer* buffer, ReadCursor cursor,
                                  SequenceProgress* progress,
                                  size_t max_bytes = 1000) {
  std::vector<StoredPacket> packets;
  RecordSlice slice;
  while (buffer->CopyRecords(&cursor, max_bytes, &slice)) {
    Unpack(slice, progress, &packets);
  }
  return packets;
}

std::vector<StoredPacket> Snapshot(TargetBuffer* buffer) {
  SequenceProgress progress;
  return ReadAll(buffer, buffer->BeginSnapshot(), &progress);
}

TEST(TargetBufferTest, SizeIsCheckedWithTheRuleInTheText) {
  EXPECT_TRUE(TargetBuffer::Create(kMinBufferSize, FillPolicy::kRing).ok());
  const auto small =
      TargetBuffer::Create(kMinBufferSize - 1, FillPolicy::kRing);
  EXPECT_EQ(small.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(small.status().message()),
              testing::AllOf(HasSubstr("4095"), HasSubstr("4096")));
  EXPECT_EQ(
      TargetBuffer::Create(uint64_t{kMaxBufferSize} + 1, FillPolicy::kRing)
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeBuffer(4097, FillPolicy::kRing)->capacity(), 4104u);
}

TEST(TargetBufferTest, RunsComeBackInOrder) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  const StoreResult result = buffer->Store(OwnedRun(5, {"a", "", "ccc"}).run());
  EXPECT_EQ(result.stored, 3u);
  buffer->Store(OwnedRun(6, {"joined"}, MarkOf(LossCause::kRingFull)).run());
  buffer->Store(OwnedRun(5, {"d"}).run());
  EXPECT_THAT(
      Snapshot(buffer.get()),
      ElementsAre(StoredPacket{5, "a"}, StoredPacket{5, ""},
                  StoredPacket{5, "ccc"},
                  StoredPacket{6, "joined", MarkOf(LossCause::kRingFull)},
                  StoredPacket{5, "d"}));
  // Again, since a snapshot consumes nothing.
  EXPECT_EQ(Snapshot(buffer.get()).size(), 5u);
  EXPECT_EQ(buffer->stats().packets_stored, 5u);
  EXPECT_EQ(buffer->stats().records_stored, 3u);
  EXPECT_EQ(buffer->stats().records_read, 6u);
  EXPECT_EQ(buffer->stats().bytes_stored, buffer->bytes_used());
}

TEST(TargetBufferTest, RecordBytesAreThoseOfTheLayout) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  buffer->Store(OwnedRun(1, {std::string(9, 'x')}).run());
  EXPECT_EQ(buffer->bytes_used(), 24u + 16u);
  buffer->Store(OwnedRun(1, {"abc", "de"}).run());
  EXPECT_EQ(buffer->bytes_used(), 40u + 24u + 16u);
  buffer->Store(OwnedRun(1, {""}).run());
  EXPECT_EQ(buffer->bytes_used(), 80u + 24u);
}

TEST(TargetBufferTest, OldestRecordsAreOverwrittenAndTheGapIsMarked) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  // 40 records of 24 + 80 = 104 bytes; 39 fit.
  for (int i = 0; i < 40; ++i) {
    buffer->Store(
        OwnedRun(1, {std::string(80, static_cast<char>('A' + i))}).run());
  }
  const std::vector<StoredPacket> packets = Snapshot(buffer.get());
  ASSERT_EQ(packets.size(), 39u);
  EXPECT_EQ(packets[0],
            (StoredPacket{1, std::string(80, 'B'), kOverwrittenMark}));
  for (size_t i = 1; i < packets.size(); ++i) {
    EXPECT_EQ(packets[i].loss, 0u) << i;
  }
  EXPECT_EQ(buffer->stats().packets_overwritten, 1u);
  EXPECT_EQ(buffer->stats().bytes_overwritten, 104u);
  EXPECT_EQ(buffer->stats().wraps, 1u);
}

TEST(TargetBufferTest, SequenceThatLostNothingIsNotMarked) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  for (int i = 0; i < 100; ++i) {
    buffer->Store(OwnedRun(1, {std::string(80, 'x')}).run());
  }
  buffer->Store(OwnedRun(2, {"new"}).run());
  const std::vector<StoredPacket> packets = Snapshot(buffer.get());
  EXPECT_EQ(packets.front().loss, kOverwrittenMark);
  EXPECT_EQ(packets.back(), (StoredPacket{2, "new", 0}));
}

TEST(TargetBufferTest, PacketLargerThanTheBufferIsRefusedAndEmptiesNothing) {
  for (const FillPolicy policy : {FillPolicy::kRing, FillPolicy::kDiscard}) {
    const auto buffer = MakeBuffer(4096, policy);
    buffer->Store(OwnedRun(1, {"kept"}).run());
    const StoreResult result =
        buffer->Store(OwnedRun(1, {std::string(4096 - 24 + 1, 'x')},
                               MarkOf(LossCause::kRingFull))
                          .run());
    EXPECT_EQ(result.too_large, 1u);
    EXPECT_EQ(result.stored + result.refused, 0u);
    buffer->Store(OwnedRun(1, {"next"}).run());
    // The next packet tells of the refused one, and of what it told.
    EXPECT_THAT(Snapshot(buffer.get()),
                ElementsAre(StoredPacket{1, "kept"},
                            StoredPacket{1, "next",
                                         MarkOf(LossCause::kPacketTooLarge) |
                                             MarkOf(LossCause::kRingFull)}));
    EXPECT_EQ(buffer->stats().packets_too_large, 1u);
    EXPECT_EQ(buffer->stats().bytes_too_large, 4073u);
    EXPECT_FALSE(buffer->is_closed());
  }
}

TEST(TargetBufferTest, PacketAsLargeAsTheBufferFits) {
  for (const FillPolicy policy : {FillPolicy::kRing, FillPolicy::kDiscard}) {
    const auto buffer = MakeBuffer(4096, policy);
    const std::string bytes(4096 - 24, 'x');
    EXPECT_EQ(buffer->Store(OwnedRun(1, {bytes}).run()).stored, 1u);
    EXPECT_THAT(Snapshot(buffer.get()), ElementsAre(StoredPacket{1, bytes}));
    EXPECT_EQ(buffer->bytes_used(), 4096u);
  }
}

TEST(TargetBufferTest, LargeRunIsCutSoThatOverwritingStaysFineGrained) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  // Each packet bears its number, 40 * 100 bytes in a run.
  const auto run = [](char round) {
    std::vector<std::string> packets;
    for (int i = 0; i < 40; ++i) {
      packets.push_back(std::string(99, round) + static_cast<char>(i));
    }
    return packets;
  };
  EXPECT_EQ(
      buffer->Store(OwnedRun(1, run('a'), MarkOf(LossCause::kReadGap)).run())
          .stored,
      40u);
  EXPECT_EQ(buffer->Store(OwnedRun(1, run('b')).run()).stored, 40u);
  const std::vector<StoredPacket> packets = Snapshot(buffer.get());
  // Seven eighths of the buffer hold whole packets at any time.
  EXPECT_GE(packets.size() * 100, 3400u);
  EXPECT_EQ(packets.back().bytes, run('b').back());
  EXPECT_EQ(packets.front().loss, kOverwrittenMark);
  EXPECT_EQ(buffer->stats().packets_overwritten + packets.size(), 80u);
}

TEST(TargetBufferTest, WhatWouldBeCutRefusedOrWrappedHasNoPlace) {
  const auto ring = MakeBuffer(4096, FillPolicy::kRing);
  EXPECT_EQ(ring->PlaceFor(OwnedRun(1, {std::string(600, 'x')}).run(), nullptr),
            nullptr);  // more than an eighth
  const OwnedRun run(1, {std::string(480, 'x')});
  int placed = 0;
  for (int i = 0; i < 8; ++i) {
    if (ring->PlaceFor(run.run(), nullptr) != nullptr) ++placed;
    ring->Store(run.run());
  }
  EXPECT_EQ(placed, 8);  // 8 times 504 bytes end before the memory does
  EXPECT_EQ(ring->PlaceFor(run.run(), nullptr), nullptr);
  EXPECT_EQ(ring->stats().packets_evicted, 0u);

  const auto discard = MakeBuffer(4096, FillPolicy::kDiscard);
  while (!discard->is_closed()) discard->Store(run.run());
  EXPECT_EQ(discard->PlaceFor(OwnedRun(1, {"x"}).run(), nullptr), nullptr);
}

TEST(TargetBufferTest, DiscardKeepsWhatFitsOfARunAndRefusesAllThatFollows) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kDiscard);
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    packets.push_back(std::string(99, 'x') + static_cast<char>(i));
  }
  const StoreResult result = buffer->Store(OwnedRun(1, packets).run());
  EXPECT_EQ(result.stored + result.refused, 60u);
  EXPECT_GE(result.stored, 37u);
  EXPECT_TRUE(buffer->is_closed());
  const std::vector<StoredPacket> kept = Snapshot(buffer.get());
  ASSERT_EQ(kept.size(), result.stored);
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i], (StoredPacket{1, packets[i], 0}));
  }
  // A smaller one would fit, and would leave a hole before it.
  ASSERT_LE(buffer->bytes_used() + 24, 4096u);
  EXPECT_EQ(buffer->Store(OwnedRun(2, {""}).run()).refused, 1u);
  EXPECT_EQ(buffer->Store(OwnedRun(2, {"a", "b"}).run()).refused, 2u);
  EXPECT_EQ(Snapshot(buffer.get()).size(), result.stored);
  EXPECT_EQ(buffer->stats().packets_refused, result.refused + 3u);
  EXPECT_EQ(buffer->stats().packets_overwritten, 0u);
}

TEST(TargetBufferTest, DiscardFillsToTheLastByte) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kDiscard);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(buffer->Store(OwnedRun(1, {"12345678"}).run()).stored, 1u) << i;
  }
  EXPECT_EQ(buffer->bytes_used(), 4096u);
  EXPECT_FALSE(buffer->is_closed());
  EXPECT_EQ(buffer->Store(OwnedRun(1, {""}).run()).refused, 1u);
}

TEST(TargetBufferTest, StreamMakesRoomUnderDiscard) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kDiscard);
  SequenceProgress progress;
  ReadCursor stream = buffer->BeginStream();
  RecordSlice slice;
  std::vector<StoredPacket> streamed;
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(buffer->Store(OwnedRun(1, {std::string(100, 'x')}).run()).stored,
              1u);
    if (i % 10 != 0) continue;
    while (buffer->CopyRecords(&stream, 300, &slice)) {
      Unpack(slice, &progress, &streamed);
    }
  }
  EXPECT_EQ(streamed.size(), 191u);
  for (const StoredPacket& packet : streamed) EXPECT_EQ(packet.loss, 0u);
  EXPECT_EQ(buffer->stats().packets_overwritten, 0u);
  EXPECT_EQ(buffer->stats().packets_consumed, 191u);
}

TEST(TargetBufferTest, StreamAndSnapshotDoNotDisturbEachOther) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  buffer->Store(OwnedRun(1, {"a", "b"}).run());
  SequenceProgress progress;
  ReadCursor stream = buffer->BeginStream();
  RecordSlice slice;
  std::vector<StoredPacket> streamed;
  ASSERT_TRUE(buffer->CopyRecords(&stream, 1000, &slice));
  Unpack(slice, &progress, &streamed);
  EXPECT_FALSE(buffer->CopyRecords(&stream, 1000, &slice));
  EXPECT_TRUE(slice.empty());
  buffer->Store(OwnedRun(1, {"c"}).run());
  EXPECT_EQ(Snapshot(buffer.get()).size(), 3u) << "what was streamed is there";
  ASSERT_TRUE(buffer->CopyRecords(&stream, 1000, &slice));
  Unpack(slice, &progress, &streamed);
  EXPECT_THAT(streamed, ElementsAre(StoredPacket{1, "a"}, StoredPacket{1, "b"},
                                    StoredPacket{1, "c"}));
}

// An idle writer whose packets were streamed and then lapped lost nothing.
TEST(TargetBufferTest, StreamedDataThatIsLappedIsNoLoss) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  SequenceProgress progress;
  ReadCursor stream = buffer->BeginStream();
  RecordSlice slice;
  std::vector<StoredPacket> streamed;
  const auto drain = [&] {
    while (buffer->CopyRecords(&stream, 1000, &slice)) {
      Unpack(slice, &progress, &streamed);
    }
  };
  buffer->Store(OwnedRun(1, {"idle"}).run());
  drain();
  for (int i = 0; i < 100; ++i) {
    buffer->Store(OwnedRun(2, {std::string(200, 'x')}).run());
    if (i % 10 == 9) drain();
  }
  EXPECT_EQ(buffer->stats().packets_overwritten, 0u);
  EXPECT_EQ(buffer->stats().packets_evicted,
            101u - Snapshot(buffer.get()).size());
  buffer->Store(OwnedRun(1, {"awake"}).run());
  drain();
  EXPECT_EQ(streamed.size(), 102u);
  for (const StoredPacket& packet : streamed)
    EXPECT_EQ(packet.loss, 0u) << packet;
  // In a snapshot the predecessor is missing: marks are relative to the file.
  EXPECT_EQ(Snapshot(buffer.get()).back(),
            (StoredPacket{1, "awake", kOverwrittenMark}));
}

TEST(TargetBufferTest, StreamThatIsLappedMarksWhatItMissed) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  SequenceProgress progress;
  ReadCursor stream = buffer->BeginStream();
  RecordSlice slice;
  std::vector<StoredPacket> streamed;
  for (int i = 0; i < 100; ++i) {
    buffer->Store(OwnedRun(1, {std::string(200, 'x')}).run());
  }
  while (buffer->CopyRecords(&stream, 500, &slice)) {
    Unpack(slice, &progress, &streamed);
  }
  EXPECT_EQ(streamed.front().loss, kOverwrittenMark);
  EXPECT_EQ(buffer->stats().packets_overwritten + streamed.size(), 100u);
}

TEST(TargetBufferTest, SnapshotThatIsLappedBetweenSlicesSkipsAndMarks) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  const auto store = [&](SequenceIndex sequence, char name) {
    buffer->Store(OwnedRun(sequence, {std::string(200, name)}).run());
  };
  for (char name = 'a'; name < 'a' + 18; ++name) store(1, name);
  SequenceProgress progress;
  std::vector<StoredPacket> packets;
  ReadCursor cursor = buffer->BeginSnapshot();
  RecordSlice slice;
  ASSERT_TRUE(buffer->CopyRecords(&cursor, 224, &slice));
  Unpack(slice, &progress, &packets);
  ASSERT_TRUE(buffer->CopyRecords(&cursor, 500, &slice));
  Unpack(slice, &progress, &packets);
  EXPECT_EQ(packets.size(), 3u);
  for (int i = 0; i < 8; ++i) store(2, 'X');
  while (buffer->CopyRecords(&cursor, 1000, &slice)) {
    Unpack(slice, &progress, &packets);
  }
  // Of 18 records the first 8 were overwritten, three of them after they had
  // been copied; nothing of what came later is returned.
  ASSERT_EQ(packets.size(), 3u + 10u);
  EXPECT_EQ(packets[2], (StoredPacket{1, std::string(200, 'c')}));
  EXPECT_EQ(packets[3],
            (StoredPacket{1, std::string(200, 'i'), kOverwrittenMark}));
  EXPECT_EQ(packets[4], (StoredPacket{1, std::string(200, 'j')}));
  EXPECT_EQ(packets.back(), (StoredPacket{1, std::string(200, 'r')}));

  // Lapped altogether, it ends.
  cursor = buffer->BeginSnapshot();
  for (int i = 0; i < 30; ++i) store(2, 'Y');
  EXPECT_FALSE(buffer->CopyRecords(&cursor, 1000, &slice));
  EXPECT_TRUE(slice.empty());
}

TEST(TargetBufferTest, SliceHoldsAtLeastOneRecordHoweverLarge) {
  const auto buffer = MakeBuffer(64 * 1024, FillPolicy::kRing);
  const std::string large(50'000, 'x');
  buffer->Store(OwnedRun(1, {"a"}).run());
  buffer->Store(OwnedRun(1, {large}).run());
  ReadCursor cursor = buffer->BeginSnapshot();
  RecordSlice slice;
  ASSERT_TRUE(buffer->CopyRecords(&cursor, 0, &slice));
  EXPECT_EQ(slice.size(), 32u);
  ASSERT_TRUE(buffer->CopyRecords(&cursor, 0, &slice));
  EXPECT_EQ(slice.size(), 24u + 50'000u);
  EXPECT_FALSE(buffer->CopyRecords(&cursor, 0, &slice));
}

TEST(TargetBufferTest, RejectedPacketIsCountedOnceHoweverOftenItIsRead) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  buffer->Store(OwnedRun(1, {"a", "b", "c"}).run());
  EXPECT_TRUE(buffer->CountRejected(1, 0));
  EXPECT_TRUE(buffer->CountRejected(1, 2));
  EXPECT_FALSE(buffer->CountRejected(1, 0));
  EXPECT_FALSE(buffer->CountRejected(1, 2));
  EXPECT_FALSE(buffer->CountRejected(2, 0)) << "no such sequence";
  EXPECT_EQ(buffer->stats().packets_rejected, 2u);
}

TEST(TargetBufferTest, KnowsWhichSequencesItHolds) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  EXPECT_FALSE(buffer->Holds(1));
  buffer->Store(OwnedRun(1, {"a"}).run());
  buffer->Store(OwnedRun(2, {std::string(5000, 'x')}).run());
  EXPECT_TRUE(buffer->Holds(1));
  EXPECT_FALSE(buffer->Holds(2)) << "its only packet was refused";
  for (int i = 0; i < 3; ++i) {
    buffer->Store(OwnedRun(3, {std::string(1900, 'x')}).run());
  }
  EXPECT_FALSE(buffer->Holds(1)) << "overwritten";
  EXPECT_TRUE(buffer->Holds(3));
  buffer->Forget(1);
  EXPECT_FALSE(buffer->Holds(1));
}

// A chunk is scraped, what was taken of it is evicted, and then its writer
// publishes the rest.
TEST(TargetBufferTest, RestOfAScrapedChunkComesOnceAndTellsOfWhatWasEvicted) {
  const auto buffer = MakeBuffer(4096, FillPolicy::kRing);
  class Sink : public PacketSink {
   public:
    explicit Sink(TargetBuffer* target) : target_(target) {}
    bool Resolve(WriterId writer, BufferId, Route* route) override {
      route->sequence = writer.value();
      return true;
    }
    void OnRun(const PacketRun& run) override { target_->Store(run); }

   private:
    TargetBuffer* const target_;
  } sink(buffer.get());
  PartialBudget budget;
  PacketAssembler assembler(&sink, &budget);
  assembler.OnChunk(OwnedChunk(1, 1, 0, {"first", "second"}).view());
  for (int i = 0; i < 30; ++i) {
    assembler.OnChunk(OwnedChunk(2, 1, 0, {std::string(200, 'x')}).view());
  }
  ASSERT_FALSE(buffer->Holds(1));
  assembler.OnChunk(OwnedChunk(1, 1, 0, {"third", "fourth"}).view());
  std::vector<StoredPacket> packets = Snapshot(buffer.get());
  ASSERT_GE(packets.size(), 2u);
  packets.erase(packets.begin(), packets.end() - 2);
  EXPECT_THAT(packets, ElementsAre(StoredPacket{1, "third", kOverwrittenMark},
                                   StoredPacket{1, "fourth"}));
}

// A naive model: every packet that was stored, in order, and for each output
// which of them it got.
class Checker {
 public:
  explicit Checker(TargetBuffer* buffer) : buffer_(buffer) {}

  // With `in_place` the payload is written to its place first, if it has one.
  void Store(SequenceIndex sequence, const std::vector<std::string>& packets,
             LossMask loss, bool in_place) {
    const OwnedRun owned(sequence, packets, loss);
    PacketRun run = owned.run();
    uint8_t* const place = in_place ? buffer_->PlaceFor(run, nullptr) : nullptr;
    if (place != nullptr) {
      std::copy_n(run.payload, run.payload_size, place);
      run.payload = place;
      ++num_placed_;
    }
    const StoreResult result = buffer_->Store(run);
    ASSERT_EQ(result.stored + result.refused + result.too_large,
              packets.size());
    // Packets too large can be anywhere in a run, refused ones at its end.
    size_t accepted = 0;
    for (const std::string& packet : packets) {
      pending_[sequence] |= std::exchange(loss, 0);
      if (24 + packet.size() > buffer_->capacity()) {
        pending_[sequence] |= MarkOf(LossCause::kPacketTooLarge);
        continue;
      }
      if (accepted == result.stored) {
        ASSERT_EQ(buffer_->policy(), FillPolicy::kDiscard);
        pending_[sequence] |= MarkOf(LossCause::kBufferRefused);
        continue;
      }
      ++accepted;
      stored_.push_back(
          {sequence, packet, std::exchange(pending_[sequence], 0)});
    }
    ASSERT_EQ(accepted, result.stored);
  }

  // The output of one reader.
  struct Reader {
    ReadCursor cursor;
    SequenceProgress progress;
    std::map<SequenceIndex, size_t> last;  // index + 1 in stored_
    size_t next = 0;                       // in stored_
    size_t end = SIZE_MAX;
    size_t count = 0;
  };

  Reader Begin(bool stream) {
    Reader reader;
    reader.cursor = stream ? buffer_->BeginStream() : buffer_->BeginSnapshot();
    if (!stream) reader.end = stored_.size();
    return reader;
  }

  // Reads one slice and checks each packet: the next one that was stored, or
  // one further on if what lies between was overwritten; marked if and only if
  // its predecessor was not read here.
  bool Read(Reader* reader, size_t max_bytes) {
    RecordSlice slice;
    if (!buffer_->CopyRecords(&reader->cursor, max_bytes, &slice)) return false;
    EXPECT_FALSE(slice.empty());
    std::vector<StoredPacket> packets;
    Unpack(slice, &reader->progress, &packets);
    // What is there now is the end of all that was stored.
    const size_t oldest = stored_.size() - InBuffer();
    for (size_t i = 0; i < packets.size(); ++i) {
      if (i == 0) reader->next = std::max(reader->next, oldest);
      CheckPacket(packets[i], reader);
      if (testing::Test::HasFailure()) return false;
    }
    reader->count += packets.size();
    return true;
  }

  size_t InBuffer() const {
    return buffer_->stats().packets_stored - buffer_->stats().packets_evicted;
  }
  size_t num_stored() const { return stored_.size(); }
  size_t num_placed() const { return num_placed_; }

 private:
  void CheckPacket(const StoredPacket& packet, Reader* reader) {
    const size_t index = reader->next++;
    ASSERT_LT(index, std::min(reader->end, stored_.size()));
    StoredPacket expected = stored_[index];
    size_t predecessor = 0;
    for (size_t i = index; i-- != 0 && predecessor == 0;) {
      if (stored_[i].sequence == packet.sequence) predecessor = i + 1;
    }
    if (predecessor != reader->last[packet.sequence]) {
      expected.loss |= kOverwrittenMark;
    }
    reader->last[packet.sequence] = index + 1;
    ASSERT_EQ(packet, expected) << index;
  }

  TargetBuffer* const buffer_;
  std::vector<StoredPacket> stored_;
  size_t num_placed_ = 0;
  std::map<SequenceIndex, LossMask> pending_;
};

class TargetBufferModelTest : public testing::TestWithParam<uint32_t> {};

TEST_P(TargetBufferModelTest, RandomStoringAndReadingAgreesWithTheModel) {
  std::mt19937 random(GetParam());
  const FillPolicy policy =
      GetParam() % 3 == 0 ? FillPolicy::kDiscard : FillPolicy::kRing;
  // Odd sizes of the memory make records wrap at every offset.
  const auto buffer = MakeBuffer(4096 + 8 * (random() % 40), policy);
  Checker checker(buffer.get());
  Checker::Reader stream = checker.Begin(true);
  std::vector<Checker::Reader> snapshots;
  for (int i = 0; i < 1200; ++i) {
    const auto sequence = static_cast<SequenceIndex>(random() % 5 * 100);
    std::vector<std::string> packets(random() % 8 == 0 ? 1 + random() % 60
                                                       : 1 + random() % 4);
    const size_t largest = random() % 50 == 0   ? 5000
                           : random() % 10 == 0 ? 1500
                                                : 70;
    for (std::string& packet : packets) {
      packet.assign(random() % largest, static_cast<char>(random()));
    }
    const LossMask loss =
        random() % 5 == 0 ? MarkOf(LossCause::kRingFull) : LossMask{0};
    checker.Store(sequence, packets, loss, random() % 2 == 0);
    ASSERT_LE(buffer->bytes_used(), buffer->capacity());
    // A stream that sometimes stalls for long enough to be lapped.
    if (i % 200 < 120) {
      while (random() % 8 != 0 && checker.Read(&stream, random() % 3000)) {
      }
    }
    if (snapshots.size() < 3 && random() % 10 == 0) {
      snapshots.push_back(checker.Begin(false));
    }
    for (Checker::Reader& snapshot : snapshots) {
      if (random() % 3 == 0 && !checker.Read(&snapshot, random() % 1500)) {
        snapshot = checker.Begin(false);
      }
    }
    ASSERT_FALSE(HasFailure()) << "seed " << GetParam() << " step " << i;
  }
  while (checker.Read(&stream, 2000)) {
  }
  const TargetBufferStats& stats = buffer->stats();
  EXPECT_GT(checker.num_placed(), 0u);
  EXPECT_EQ(stats.packets_stored, checker.num_stored());
  EXPECT_EQ(stats.packets_consumed, stream.count);
  EXPECT_EQ(stats.packets_stored, stream.count + stats.packets_overwritten);
  if (policy == FillPolicy::kDiscard) {
    EXPECT_EQ(stats.packets_overwritten, 0u);
  } else {
    EXPECT_GT(stats.wraps, 10u);
    EXPECT_GT(stats.packets_overwritten, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TargetBufferModelTest, testing::Range(1u, 13u));

TEST(TargetBufferModelTest, ReadingToTheEndGivesAllThatIsThere) {
  std::mt19937 random(77);
  const auto buffer = MakeBuffer(8192, FillPolicy::kRing);
  Checker checker(buffer.get());
  for (int i = 0; i < 500; ++i) {
    checker.Store(random() % 3, {std::string(random() % 300, 'x'), "y"}, 0,
                  /*in_place=*/false);
    Checker::Reader snapshot = checker.Begin(false);
    while (checker.Read(&snapshot, 700)) {
    }
    ASSERT_EQ(snapshot.count, checker.InBuffer());
    ASSERT_FALSE(HasFailure()) << i;
  }
}

}  // namespace
}  // namespace tracering::internal
