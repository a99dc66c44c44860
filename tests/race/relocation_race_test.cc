// Relocation in every variant. Each program of packets below is run once for
// each publication in it: right before that one the reader takes the chunk, and
// then its replacements as often as the test says. Whatever had been published,
// whichever flags the chunk carried and whatever the suffix consists of, each
// packet is delivered once and in order, and flags move only with a suffix of
// which nothing was taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "tests/race/race_harness.h"
#include "tests/support/step_sequencer.h"

namespace tracering::internal {
namespace {

using test::Actor;
using test::RingImageOptions;
using test::StepSequencer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Larger than a chunk of 512 bytes, and than two.
constexpr size_t kTwoChunks = 600;
constexpr size_t kThreeChunks = 1200;

RingImageOptions SmallChunks(uint32_t num_chunks) {
  RingImageOptions options;
  options.num_chunks = num_chunks;
  options.chunk_size = 512;
  // The first traversal crosses the roll-over of positions.
  options.position = 0xffff'fffe;
  return options;
}

// The actor runs until it stands before the publication of what it holds.
bool RunBeforePublication(const RaceHarness& harness, Actor& actor) {
  do {
    if (!actor.Step()) return false;
  } while (actor.pending().kind != SharedAccess::kCompareExchange ||
           !harness.IsChunkIn(abi::State::kAcquired, actor.pending().word));
  return true;
}

struct Program {
  const char* name;
  std::function<void(RaceHarness&, TraceWriterImpl&)> run;
};

void WriteMany(RaceHarness& harness, TraceWriterImpl& writer, int count) {
  for (int i = 0; i < count; ++i) harness.Write(writer);
}

void WriteAndDiscard(TraceWriterImpl& writer) {
  Packet packet = writer.NewPacket();
  AppendNumbered(packet, 999, 20);
  packet.Discard();
}

const Program kPrograms[] = {
    {"SinglePackets",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       WriteMany(harness, writer, 5);
     }},
    {"Batches",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       for (int i = 0; i < 2; ++i) {
         const WriterBatch batch = writer.Batch();
         WriteMany(harness, writer, 4);
       }
     }},
    // The suffix is finalised packets and an open one.
    {"BatchThatFillsItsChunk",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       WriteMany(harness, writer, 2);
       const WriterBatch batch = writer.Batch();
       WriteMany(harness, writer, 3);
       harness.Write(writer, kThreeChunks);
       WriteMany(harness, writer, 2);
     }},
    {"PacketsOfSeveralChunks",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       harness.Write(writer, kTwoChunks);
       harness.Write(writer);
       harness.Write(writer, kThreeChunks);
       harness.Write(writer);
     }},
    // The tail of a packet is part of a batch's suffix.
    {"BatchOfPacketsOfSeveralChunks",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       const WriterBatch batch = writer.Batch();
       harness.Write(writer, kTwoChunks);
       WriteMany(harness, writer, 2);
       harness.Write(writer, kTwoChunks);
     }},
    {"DiscardedPackets",
     [](RaceHarness& harness, TraceWriterImpl& writer) {
       harness.Write(writer);
       WriteAndDiscard(writer);
       harness.Write(writer);
       const WriterBatch batch = writer.Batch();
       harness.Write(writer);
       WriteAndDiscard(writer);
       harness.Write(writer);
     }},
};

// Program, whether the first chunk carries the data loss flag, and how often
// the reader takes what the writer is about to publish.
class RelocationRaceTest
    : public ::testing::TestWithParam<std::tuple<size_t, bool, int>> {
 protected:
  const Program& program() const { return kPrograms[std::get<0>(GetParam())]; }
  bool flagged() const { return std::get<1>(GetParam()); }
  int scrapes() const { return std::get<2>(GetParam()); }
};

TEST_P(RelocationRaceTest, EveryPacketArrivesOnceAndInOrder) {
  int relocations = 0;
  for (int target = 0;; ++target) {
    SCOPED_TRACE(target);
    // Each relocation uses up a chunk until the reader has come round.
    RaceHarness harness(SmallChunks(128));
    auto writer = harness.MakeWriter(1, {}, flagged());
    bool reached = true;
    {
      StepSequencer sequencer;
      Actor& actor =
          sequencer.Start("writer", [&] { program().run(harness, *writer); });
      for (int i = 0; reached && i <= target; ++i) {
        reached = RunBeforePublication(harness, actor);
      }
      for (int i = 0; reached && i < scrapes(); ++i) {
        const uint64_t before = harness.reader().stats().scrapes;
        harness.DrainAll();
        ASSERT_EQ(harness.reader().stats().scrapes, before + 1);
        ++relocations;
        // The publication fails, the suffix moves, and is to be published. An
        // abandoned reuse ends instead: there is nothing to move.
        if (!RunBeforePublication(harness, actor)) break;
      }
      actor.RunToEnd();
    }
    std::vector<uint64_t> expected;
    for (uint64_t i = 0, end = harness.TakeNumber(*writer); i < end; ++i) {
      expected.push_back(i);
    }
    EXPECT_EQ(harness.DeliveredOf(1), expected);
    if (flagged()) {
      EXPECT_THAT(harness.MarkedOf(1), ElementsAre(0));
    } else {
      EXPECT_THAT(harness.MarkedOf(1), IsEmpty());
    }
    harness.ExpectExact(*writer);
    harness.ExpectRingExact();
    if (!reached) break;
  }
  EXPECT_GE(relocations, scrapes());
}

INSTANTIATE_TEST_SUITE_P(
    Programs, RelocationRaceTest,
    ::testing::Combine(::testing::Range<size_t>(0, std::size(kPrograms)),
                       ::testing::Bool(), ::testing::Values(1, 2, 100)),
    [](const auto& test) {
      return std::string(kPrograms[std::get<0>(test.param)].name) +
             (std::get<1>(test.param) ? "AfterLoss" : "") + "Scraped" +
             std::to_string(std::get<2>(test.param));
    });

// --- The words of single relocations ---

class RelocatedWordTest : public ::testing::Test {
 protected:
  // The word of the chunk that position `n` of the ring maps to.
  uint32_t WordAt(uint32_t n) {
    return harness_.state_word((0xffff'fffe + n) & 7);
  }

  RaceHarness harness_{SmallChunks(8)};
};

TEST_F(RelocatedWordTest, LossFlagMovesWithASuffixOfWhichNothingWasTaken) {
  auto writer = harness_.MakeWriter(1, {}, /*owes_loss=*/true);
  {
    Packet packet = writer->NewPacket();
    EXPECT_EQ(WordAt(0), 0x2100'0001u);
    harness_.DrainAll();
    EXPECT_EQ(WordAt(0), 0x6100'0001u);
  }
  EXPECT_EQ(WordAt(0), 0x8000'0000u);
  EXPECT_EQ(WordAt(1), 0x4101'0001u);
}

TEST_F(RelocatedWordTest, LossFlagStaysWithAPrefixThatWasTaken) {
  auto writer = harness_.MakeWriter(1, {}, /*owes_loss=*/true);
  harness_.Write(*writer);
  {
    Packet packet = writer->NewPacket();
    harness_.DrainAll();
    EXPECT_EQ(WordAt(0), 0x6101'0001u);
  }
  EXPECT_EQ(WordAt(1), 0x4001'0001u);
}

TEST_F(RelocatedWordTest, ContinuationFlagMovesOnlyWithItsFragment) {
  for (const bool tail_published : {false, true}) {
    SCOPED_TRACE(tail_published);
    RaceHarness harness(SmallChunks(8));
    auto writer = harness.MakeWriter(1);
    const auto word_at = [&](uint32_t n) {
      return harness.state_word((0xffff'fffe + n) & 7);
    };
    if (tail_published) harness.Write(*writer, kTwoChunks);
    {
      const uint64_t number = harness.TakeNumber(*writer);
      Packet packet = writer->NewPacket();
      AppendNumbered(packet, number, tail_published ? 10 : kTwoChunks);
      EXPECT_EQ(word_at(1), tail_published ? 0x2401'0001u : 0x2400'0001u);
      harness.DrainAll();
    }
    EXPECT_EQ(word_at(2), tail_published ? 0x4001'0001u : 0x4401'0001u);
    harness.ExpectExact(*writer);
    harness.ExpectRingExact();
  }
}

TEST_F(RelocatedWordTest, OnlyATailThatContinuesSaysSo) {
  auto writer = harness_.MakeWriter(1);
  harness_.Write(*writer);
  {
    const uint64_t number = harness_.TakeNumber(*writer);
    Packet packet = writer->NewPacket();
    harness_.DrainAll();
    // The prefix that was taken ends on a packet boundary.
    EXPECT_EQ(WordAt(0), 0x6001'0001u);
    AppendNumbered(packet, number, kTwoChunks);
    EXPECT_EQ(WordAt(0), 0x8000'0000u);
    EXPECT_EQ(WordAt(1), 0x4201'0001u);
    EXPECT_EQ(WordAt(2), 0x2400'0001u);
  }
  harness_.ExpectExact(*writer);
  harness_.ExpectRingExact();
}

TEST_F(RelocatedWordTest, ChunkOfARelocatedFinalisedSuffixIsNotReused) {
  auto writer = harness_.MakeWriter(1);
  {
    const WriterBatch batch = writer->Batch();
    harness_.Write(*writer);
    harness_.Write(*writer);
    harness_.DrainAll();
  }
  EXPECT_EQ(WordAt(1), 0x4002'0001u);
  harness_.Write(*writer);
  EXPECT_EQ(WordAt(1), 0x4002'0001u);
  EXPECT_EQ(WordAt(2), 0x4001'0001u);
  harness_.ExpectExact(*writer);
  harness_.ExpectRingExact();
}

}  // namespace
}  // namespace tracering::internal
