// Payloads that are copied straight to where they are stored: whatever the
// writers' flags say, the target buffers hold byte for byte what they hold if
// every chunk is copied, judged and then stored.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/common/abi/state_word.h"
#include "src/consumer/chunk_reader.h"
#include "src/consumer/packet_assembler.h"
#include "src/consumer/target_buffer.h"
#include "tests/support/ring_image.h"

namespace tracering::internal {
namespace {

using test::ForgedChunk;
using test::RingImage;

constexpr uint16_t kNumBuffers = 2;

// A ring and all that stands behind it.
class Pipeline : public PacketSink {
 public:
  Pipeline(uint32_t chunk_size, uint64_t target_size, FillPolicy policy,
           size_t max_partial, bool placing)
      : placing_(placing), assembler_(this, &budget_, max_partial) {
    test::RingImageOptions options;
    options.num_chunks = 8;
    options.chunk_size = chunk_size;
    image_ = std::make_unique<RingImage>(RingImage::InPlainMemory(options));
    reader_ =
        std::make_unique<ChunkReader>(Ring(image_->base(), image_->geometry()));
    for (auto& buffer : buffers_) {
      buffer = *TargetBuffer::Create(target_size, policy);
    }
  }

  void Publish(const ForgedChunk& chunk) { image_->Publish(chunk); }

  void Drain() {
    struct Sink {
      PacketAssembler* assembler;
      void OnChunk(const ChunkView& chunk) { assembler->OnChunk(chunk); }
      void OnDroppedChunk(const DroppedChunk&) { FAIL(); }
      void BeforePublication() {}
    } sink{&assembler_};
    EXPECT_EQ(reader_->DrainTo(reader_->CaptureEnd(), sink,
                               placing_ ? &assembler_ : nullptr),
              DrainOutcome::kDrained);
  }

  // All records that are there, with headers and sizes.
  std::string Records(size_t buffer) {
    std::string records;
    ReadCursor cursor = buffers_[buffer]->BeginSnapshot();
    RecordSlice slice;
    while (buffers_[buffer]->CopyRecords(&cursor, 1 << 20, &slice)) {
      RecordView record;
      for (RecordSlice::Reader reader(slice); reader.Next(&record);) {
        const RecordHeader& header = record.header;
        records.append(reinterpret_cast<const char*>(&header), sizeof(header));
        if (record.sizes != nullptr) {
          records.append(reinterpret_cast<const char*>(record.sizes),
                         RecordSizesBytes(header.num_packets));
        }
        records.append(reinterpret_cast<const char*>(record.payload),
                       header.payload_size);
      }
    }
    return records;
  }

  const TargetBufferStats& stats(size_t buffer) const {
    return buffers_[buffer]->stats();
  }
  const LossCounts& losses() const { return assembler_.losses(); }
  int num_placed() const { return num_placed_; }
  // Of these, behind a packet that was joined.
  int num_placed_behind() const { return num_placed_behind_; }

 private:
  bool Resolve(WriterId writer, BufferId buffer, Route* route) override {
    *route = {buffer.value(), writer.value() * 10u + buffer.value()};
    return buffer.value() < kNumBuffers;
  }
  void OnRun(const PacketRun& run) override {
    const StoreResult result = buffers_[run.route.target]->Store(run);
    EXPECT_EQ(result.stored + result.refused + result.too_large,
              run.num_packets);
  }
  uint8_t* PlaceFor(const PacketRun& run, const PacketRun* joined) override {
    uint8_t* const place = buffers_[run.route.target]->PlaceFor(run, joined);
    if (place != nullptr)
      ++(joined != nullptr ? num_placed_behind_ : num_placed_);
    return place;
  }

  const bool placing_;
  std::unique_ptr<RingImage> image_;
  std::unique_ptr<ChunkReader> reader_;
  std::unique_ptr<TargetBuffer> buffers_[kNumBuffers];
  PartialBudget budget_;
  PacketAssembler assembler_;
  int num_placed_ = 0;
  int num_placed_behind_ = 0;
};

class PlacementModelTest : public testing::TestWithParam<uint32_t> {};

TEST_P(PlacementModelTest, BuffersHoldByteForByteWhatTwoCopiesPutThere) {
  std::mt19937 random(GetParam());
  const auto below = [&](uint32_t n) { return random() % n; };
  const uint32_t chunk_size = 512u << below(4);
  const uint64_t target_size = 4096 * (1 + below(16)) + 8 * below(50);
  const FillPolicy policy =
      below(3) == 0 ? FillPolicy::kDiscard : FillPolicy::kRing;
  const size_t max_partial = below(2) == 0 ? 700 : size_t{1} << 20;
  Pipeline placing(chunk_size, target_size, policy, max_partial, true);
  Pipeline copying(chunk_size, target_size, policy, max_partial, false);

  char fill = 'a';
  // What honest writers would say next; now and then it is something else.
  bool open[4] = {};
  for (int round = 0; round < 200; ++round) {
    for (uint32_t chunks = 1 + below(8); chunks != 0; --chunks) {
      ForgedChunk chunk;
      chunk.writer = static_cast<uint16_t>(1 + below(3));
      chunk.buffer = below(20) == 0 ? static_cast<uint16_t>(below(3)) : 0;
      bool& continues = open[chunk.writer];
      if (continues != (below(30) == 0)) {
        chunk.flags |= abi::kFlagContinuesFromPrevious;
      }
      continues = below(3) != 0;
      if (continues) chunk.flags |= abi::kFlagContinuesOnNext;
      if (below(30) == 0) chunk.flags |= abi::kFlagDataLoss;
      uint32_t room = chunk_size - 16;
      const uint32_t largest = below(4) == 0 ? chunk_size : 90;
      while (chunk.fragments.size() < 200) {
        const uint32_t size = below(largest);
        if (size + 2 > room || (below(40) == 0 && !chunk.fragments.empty())) {
          break;
        }
        room -= size + 2;
        chunk.fragments.emplace_back(size, fill++);
      }
      if (chunk.fragments.empty()) chunk.fragments.emplace_back();
      placing.Publish(chunk);
      copying.Publish(chunk);
    }
    placing.Drain();
    copying.Drain();
    for (size_t buffer = 0; buffer < kNumBuffers; ++buffer) {
      ASSERT_EQ(placing.Records(buffer), copying.Records(buffer))
          << "seed " << GetParam() << ", round " << round;
      ASSERT_EQ(placing.stats(buffer).packets_stored,
                copying.stats(buffer).packets_stored);
      ASSERT_EQ(placing.stats(buffer).packets_refused,
                copying.stats(buffer).packets_refused);
    }
  }
  for (size_t cause = 0; cause < kNumLossCauses; ++cause) {
    EXPECT_EQ(placing.losses().by_cause[cause],
              copying.losses().by_cause[cause]);
  }
  EXPECT_GT(placing.num_placed(), 0);
  EXPECT_EQ(copying.num_placed(), 0);
  RecordProperty("placed_behind", placing.num_placed_behind());
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlacementModelTest, testing::Range(1u, 25u));

// What busy writers do: every chunk ends one packet and begins another.
TEST(PlacementTest, ChunksOfABusyWriterArePlacedBehindTheJoinedPacket) {
  Pipeline pipeline(4096, 128 * 1024, FillPolicy::kRing, size_t{1} << 20, true);
  const std::vector<std::string> fragments(60, std::string(64, 'x'));
  pipeline.Publish({1, 0, abi::kFlagContinuesOnNext, fragments});
  for (int i = 0; i < 6; ++i) {
    pipeline.Publish(
        {1, 0, abi::kFlagContinuesFromPrevious | abi::kFlagContinuesOnNext,
         fragments});
  }
  pipeline.Drain();
  // The first one makes the writer known.
  EXPECT_EQ(pipeline.num_placed_behind(), 6);
  EXPECT_EQ(pipeline.stats(0).packets_stored, 59u + 6 * 59);
}

}  // namespace
}  // namespace tracering::internal
