// The assembler: each rule by example, and all short sequences of chunks
// against a model that knows links between fragments and no states.
#include "src/consumer/packet_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/consumer/assembler_model.h"

namespace tracering::internal {
namespace {

using Model = AssemblerModel;
using Packet = AssembledPacket;
using Recorder = AssemblerSink;
using Step = ChunkStep;
using testing::ElementsAre;
using testing::IsEmpty;

class PacketAssemblerTest : public testing::Test {
 protected:
  ~PacketAssemblerTest() override { EXPECT_TRUE(sink_.sizes_add_up); }

  void Chunk(uint32_t flags, const std::vector<std::string>& fragments,
             uint16_t buffer = kA, uint16_t writer = 1) {
    assembler_.OnChunk(OwnedChunk(writer, buffer, flags, fragments).view());
  }
  std::vector<Packet> Take() { return std::exchange(sink_.packets, {}); }
  Causes Lost() const { return CausesOf(assembler_); }

  Recorder sink_;
  PartialBudget budget_;
  PacketAssembler assembler_{&sink_, &budget_};
};

TEST_F(PacketAssemblerTest, WholePacketsOfAChunkTravelAsOneRun) {
  Chunk(0, {"a", "", "ccc"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"a"}, Packet{""}, Packet{"ccc"}));
  EXPECT_EQ(sink_.runs, 1);
  EXPECT_EQ(assembler_.packets_assembled(), 3u);
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(PacketAssemblerTest, JoinsAPacketOverThreeChunks) {
  Chunk(kNext, {"whole", "he"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"whole"}));
  EXPECT_EQ(assembler_.open_partials(), 1u);
  Chunk(kPrev | kNext, {"l"});
  EXPECT_THAT(Take(), IsEmpty());
  Chunk(kPrev, {"lo", "next", "more"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"hello"}, Packet{"next"}, Packet{"more"}));
  EXPECT_EQ(sink_.runs, 3);
  EXPECT_EQ(assembler_.open_partials(), 0u);
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(PacketAssemblerTest, ChunkMayEndOnePacketAndBeginAnother) {
  Chunk(kNext, {"a"});
  Chunk(kPrev | kNext, {"a", "b"});
  Chunk(kPrev | kNext, {"b", "c", "d"});
  Chunk(kPrev, {"d"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"aa"}, Packet{"bb"}, Packet{"c"},
                                  Packet{"dd"}));
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(PacketAssemblerTest, PacketOfEmptyPartsIsAnEmptyPacket) {
  Chunk(kNext, {""});
  Chunk(kPrev | kNext, {""});
  Chunk(kPrev, {""});
  EXPECT_THAT(Take(), ElementsAre(Packet{""}));
}

TEST_F(PacketAssemblerTest, WritersDoNotMix) {
  Chunk(kNext, {"one"}, kA, 1);
  Chunk(kNext, {"two"}, kA, 2);
  Chunk(kPrev, {"!"}, kA, 1);
  Chunk(kPrev, {"?"}, kA, 2);
  EXPECT_THAT(Take(), ElementsAre(Packet{"one!", 0, 1}, Packet{"two?", 0, 2}));
}

TEST_F(PacketAssemblerTest, MissingContinuationIsOneLossAndOneMark) {
  Chunk(kNext, {"head"});
  Chunk(0, {"x", "y"});
  EXPECT_THAT(
      Take(),
      ElementsAre(Packet{"x", MarkOf(LossCause::kReassemblyGap)}, Packet{"y"}));
  EXPECT_EQ(Lost(), (Causes{{LossCause::kReassemblyGap, 1}}));
}

TEST_F(PacketAssemblerTest, OrphanTailIsSkippedAndTheRestOfTheChunkKept) {
  Chunk(kPrev, {"tail", "x", "y"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"x", MarkOf(LossCause::kOrphanContinuation)},
                          Packet{"y"}));
  EXPECT_EQ(Lost(), (Causes{{LossCause::kOrphanContinuation, 1}}));
}

TEST_F(PacketAssemblerTest, OrphanOfManyPartsIsOneLoss) {
  Chunk(kPrev | kNext, {"middle"});
  Chunk(kPrev | kNext, {"middle"});
  Chunk(kPrev, {"tail"});
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(Lost(), (Causes{{LossCause::kOrphanContinuation, 1}}));
}

TEST_F(PacketAssemblerTest, DataLossBreaksAPacketWhoseTailIsNotCountedAgain) {
  Chunk(kNext, {"head"});
  Chunk(kPrev | kLoss, {"tail", "x"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"x", MarkOf(LossCause::kReassemblyGap)}));
  EXPECT_EQ(Lost(), (Causes{{LossCause::kReassemblyGap, 1}}));
}

TEST_F(PacketAssemblerTest, WritersOwnLossesMarkAndAreNotCounted) {
  assembler_.OnChunk(
      OwnedChunk(1, kA, kLoss, {"x", "y"}, MaskOf(LossCause::kRingFull))
          .view());
  Chunk(kLoss, {"z"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"x", MarkOf(LossCause::kRingFull)},
                                  Packet{"y"}, Packet{"z", kLossMarked}));
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(PacketAssemblerTest, WriterLossWithoutTheFlagIsIgnored) {
  assembler_.OnChunk(
      OwnedChunk(1, kA, 0, {"x"}, MaskOf(LossCause::kRingFull)).view());
  EXPECT_THAT(Take(), ElementsAre(Packet{"x"}));
}

TEST_F(PacketAssemblerTest, MarkGoesToTheFirstPacketThatIsWhole) {
  assembler_.OnChunk(
      OwnedChunk(1, kA, kLoss | kNext, {"he"}, MaskOf(LossCause::kStallTimeout))
          .view());
  Chunk(kPrev, {"ad", "x"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"head", MarkOf(LossCause::kStallTimeout)},
                          Packet{"x"}));
}

TEST_F(PacketAssemblerTest, ChangingBufferIsOneLossAndLandsNowhere) {
  Chunk(kNext, {"for a"}, kA);
  Chunk(kPrev, {"for b?", "x"}, kB);
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"x", MarkOf(LossCause::kBrokenChain), 1, kB}));
  EXPECT_EQ(Lost(), (Causes{{LossCause::kBrokenChain, 1}}));
  // The tail in the first buffer again belongs to the same lost packet.
  Chunk(kNext, {"for a"}, kA);
  Chunk(kPrev | kNext, {"for b?"}, kB);
  Chunk(kPrev, {"for a", "y"}, kA);
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"y", MarkOf(LossCause::kBrokenChain)}));
  EXPECT_EQ(Lost(), (Causes{{LossCause::kBrokenChain, 2}}));
}

TEST_F(PacketAssemblerTest, WriterMayGoToAnotherBufferBetweenPackets) {
  for (int round = 0; round < 3; ++round) {
    Chunk(0, {"a"}, kA);
    Chunk(0, {"b"}, kB);
  }
  EXPECT_THAT(Take(), ElementsAre(Packet{"a"}, Packet{"b", 0, 1, kB},
                                  Packet{"a"}, Packet{"b", 0, 1, kB},
                                  Packet{"a"}, Packet{"b", 0, 1, kB}));
  EXPECT_EQ(sink_.resolved, 2) << "a pair is resolved once";
}

TEST_F(PacketAssemblerTest, UnknownBufferLosesEveryPacketOnce) {
  Chunk(0, {"x", "y"}, kUnknown);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kUnknownBuffer, 2}}));
  Chunk(kNext, {"head"}, kUnknown);
  Chunk(kPrev | kNext, {"middle"}, kUnknown);
  Chunk(kPrev, {"tail"}, kUnknown);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kUnknownBuffer, 3}}));
  Chunk(0, {"z"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"z", MarkOf(LossCause::kUnknownBuffer)}));
}

TEST_F(PacketAssemblerTest, BufferThatIsGrantedLaterIsUsedFromThenOn) {
  Chunk(0, {"x"}, kUnknown);
  sink_.grant_all = true;
  Chunk(0, {"y"}, kUnknown);
  EXPECT_THAT(Take(), ElementsAre(Packet{"y", MarkOf(LossCause::kUnknownBuffer),
                                         1, kUnknown}));
}

TEST_F(PacketAssemblerTest, DroppedChunkCountsEachPacketThatHasAPartInIt) {
  assembler_.OnChunkDropped(WriterId(1), 3, 0);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kChunkCorrupted, 3}}));
  // The first fragment belongs to a packet that is open: still three packets.
  Chunk(kNext, {"head"});
  assembler_.OnChunkDropped(WriterId(1), 3, kPrev | kNext);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kChunkCorrupted, 6}}));
  // The tail of the last one was counted with that chunk.
  assembler_.OnChunkDropped(WriterId(1), 1, kPrev);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kChunkCorrupted, 6}}));
  // A packet that is open and not continued is one more, for its own reason.
  Chunk(kNext, {"head"});
  assembler_.OnChunkDropped(WriterId(1), 1, 0);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kChunkCorrupted, 7},
                            {LossCause::kReassemblyGap, 1}}));
  assembler_.OnChunkDropped(WriterId(1), 0, kPrev | kNext | kLoss);
  Chunk(0, {"x"});
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"x", MarkOf(LossCause::kChunkCorrupted) |
                                          MarkOf(LossCause::kReassemblyGap)}));
}

TEST_F(PacketAssemblerTest, ViewWithoutFragmentsIsIgnored) {
  Chunk(kNext, {"he"});
  Chunk(kLoss, {});
  Chunk(kPrev, {"ad"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"head"}));
}

TEST_F(PacketAssemblerTest, FinishCountsEachOpenPacketOnce) {
  Chunk(kNext, {"a"}, kA, 1);
  Chunk(kNext, {"b"}, kA, 2);
  Chunk(0, {"c"}, kA, 3);
  assembler_.Finish();
  assembler_.Finish();
  EXPECT_EQ(Lost(), (Causes{{LossCause::kReassemblyGap, 2}}));
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_EQ(assembler_.open_partials(), 0u);
}

TEST_F(PacketAssemblerTest, FinishOfAStoppedRingSaysSo) {
  Chunk(kNext, {"a"});
  assembler_.Finish(LossCause::kRingStopped);
  EXPECT_EQ(Lost(), (Causes{{LossCause::kRingStopped, 1}}));
}

TEST_F(PacketAssemblerTest, AfterAReadGapEachSequenceBeginsWithAMark) {
  assembler_.MarkReadGap();
  Chunk(0, {"x", "y"}, kA, 1);
  Chunk(0, {"z"}, kA, 2);
  Chunk(0, {"w"}, kB, 2);
  Chunk(0, {"v"}, kA, 2);
  const LossMask gap = MarkOf(LossCause::kReadGap);
  EXPECT_THAT(Take(),
              ElementsAre(Packet{"x", gap}, Packet{"y"}, Packet{"z", gap, 2},
                          Packet{"w", gap, 2, kB}, Packet{"v", 0, 2}));
  EXPECT_THAT(Lost(), IsEmpty());
}

class TailsAfterAReadGapTest : public PacketAssemblerTest {
 protected:
  // The predecessor had the heads of one packet of each writer.
  void ExpectLost(PacketAssembler::SplitPackets split, const Causes& lost) {
    assembler_.MarkReadGap(split);
    Chunk(kPrev | kNext, {"middle"});
    Chunk(kPrev, {"tail", "x"});
    // Later orphans are what they are.
    Chunk(kPrev, {"tail", "y"});
    assembler_.OnChunkDropped(WriterId(2), 2, kPrev);
    EXPECT_THAT(
        Take(),
        ElementsAre(Packet{"x", MarkOf(LossCause::kReadGap)},
                    Packet{"y", MarkOf(LossCause::kOrphanContinuation)}));
    EXPECT_EQ(Lost(), lost);
  }
};

TEST_F(TailsAfterAReadGapTest, BelongToItIfThePredecessorDied) {
  ExpectLost(PacketAssembler::SplitPackets::kCountHere,
             {{LossCause::kReadGap, 2},
              {LossCause::kOrphanContinuation, 1},
              {LossCause::kChunkCorrupted, 1}});
}

TEST_F(TailsAfterAReadGapTest, AreNotCountedAgainIfThePredecessorLeft) {
  ExpectLost(
      PacketAssembler::SplitPackets::kCountedThere,
      {{LossCause::kOrphanContinuation, 1}, {LossCause::kChunkCorrupted, 1}});
}

TEST_F(PacketAssemblerTest, ReadGapLosesWhatIsOpen) {
  Chunk(kNext, {"x", "head"});
  Take();
  assembler_.MarkReadGap();
  Chunk(kPrev, {"tail", "y"});
  EXPECT_THAT(Take(), ElementsAre(Packet{"y", MarkOf(LossCause::kReadGap)}));
  // The head is one packet, and the tail, behind the gap, another.
  EXPECT_EQ(Lost(), (Causes{{LossCause::kReadGap, 2}}));
}

TEST(PacketAssemblerLimitsTest, PartialPacketsAreBoundedEach) {
  Recorder sink;
  PartialBudget budget;
  PacketAssembler assembler(&sink, &budget, 10);
  const auto chunk = [&](uint32_t flags,
                         const std::vector<std::string>& fragments) {
    assembler.OnChunk(OwnedChunk(1, kA, flags, fragments).view());
  };
  chunk(kNext, {"01234"});
  chunk(kPrev, {"56789"});
  EXPECT_THAT(sink.packets, ElementsAre(Packet{"0123456789"}));
  chunk(kNext, {"01234"});
  chunk(kPrev | kNext, {"567890"});
  EXPECT_EQ(CausesOf(assembler), (Causes{{LossCause::kPacketTooLarge, 1}}));
  EXPECT_EQ(assembler.open_partials(), 0u);
  chunk(kPrev | kNext, {"x"});
  chunk(kPrev, {"x", "a whole packet may be larger"});
  EXPECT_EQ(CausesOf(assembler), (Causes{{LossCause::kPacketTooLarge, 1}}));
  EXPECT_EQ(sink.packets.back(), (Packet{"a whole packet may be larger",
                                         MarkOf(LossCause::kPacketTooLarge)}));
  // Too large with its first part.
  chunk(kNext, {"01234567890"});
  chunk(kPrev, {"x"});
  EXPECT_EQ(CausesOf(assembler), (Causes{{LossCause::kPacketTooLarge, 2}}));
}

TEST(PacketAssemblerLimitsTest, RingsOfAProducerShareABudget) {
  Recorder sink;
  PartialBudget budget(6000);
  PacketAssembler first(&sink, &budget);
  auto second = std::make_unique<PacketAssembler>(&sink, &budget);
  const std::string part(2500, 'x');
  first.OnChunk(OwnedChunk(1, kA, kNext, {part}).view());
  second->OnChunk(OwnedChunk(1, kA, kNext, {part}).view());
  EXPECT_EQ(budget.used(), 5000u);
  first.OnChunk(OwnedChunk(1, kA, kPrev, {part}).view());
  EXPECT_EQ(CausesOf(first), (Causes{{LossCause::kPacketTooLarge, 1}}));
  EXPECT_EQ(budget.used(), 2500u);
  // What one gave back the other can have, and a ring that goes gives it back.
  second->OnChunk(OwnedChunk(1, kA, kPrev | kNext, {part}).view());
  EXPECT_EQ(second->losses().total(), 0u);
  EXPECT_EQ(budget.used(), 5000u);
  second.reset();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(PacketAssemblerLimitsTest, SpareMemoryIsChargedWhenItIsUsedAgain) {
  Recorder sink;
  PartialBudget budget(1000);
  PacketAssembler assembler(&sink, &budget);
  assembler.OnChunk(OwnedChunk(1, kA, kNext, {std::string(900, 'x')}).view());
  assembler.OnChunk(OwnedChunk(1, kA, kPrev, {"x"}).view());
  EXPECT_EQ(budget.used(), 0u);
  assembler.OnChunk(OwnedChunk(1, kA, kNext, {"x"}).view());
  EXPECT_GE(budget.used(), 900u);
  // No room for a second one; the first is not harmed.
  assembler.OnChunk(OwnedChunk(2, kA, kNext, {std::string(900, 'y')}).view());
  EXPECT_EQ(CausesOf(assembler), (Causes{{LossCause::kPacketTooLarge, 1}}));
  assembler.OnChunk(OwnedChunk(1, kA, kPrev, {"z"}).view());
  EXPECT_EQ(sink.packets.back(), (Packet{"xz"}));
}

// False at the first sequence that goes wrong, which is then printed.
bool Agrees(const std::vector<Step>& steps) {
  Recorder sink;
  PartialBudget budget;
  PacketAssembler assembler(&sink, &budget);
  uint64_t attempted = 0;
  for (const Step& step : steps) Apply(step, 1, &assembler);
  assembler.Finish();
  const Model model(steps, 1);
  for (const auto& [cause, count] : model.lost) attempted += count;
  attempted += model.delivered.size();
  const bool agrees =
      sink.packets == model.delivered && CausesOf(assembler) == model.lost &&
      assembler.packets_assembled() + assembler.losses().total() == attempted &&
      budget.used() == 0 && assembler.open_partials() == 0 && sink.sizes_add_up;
  if (!agrees) {
    EXPECT_EQ(sink.packets, model.delivered) << Describe(steps);
    EXPECT_EQ(CausesOf(assembler), model.lost) << Describe(steps);
    EXPECT_EQ(budget.used(), 0u) << Describe(steps);
  }
  return agrees;
}

// All sequences of up to `length` steps from `alphabet`.
void ExpectAgreementOnAll(const std::vector<Step>& alphabet, size_t length) {
  std::vector<Step> steps;
  std::vector<size_t> letters(length, 0);
  uint64_t checked = 0;
  for (;;) {
    steps.clear();
    for (size_t i = 0; i < length; ++i) {
      steps.push_back(alphabet[letters[i]]);
      for (std::string& fragment : steps.back().fragments) {
        fragment.push_back(static_cast<char>('0' + i));
      }
    }
    if (!Agrees(steps)) return;
    ++checked;
    size_t digit = 0;
    while (digit != length && ++letters[digit] == alphabet.size()) {
      letters[digit++] = 0;
    }
    if (digit == length) break;
  }
  EXPECT_GT(checked, 1000u);
}

std::vector<Step> Alphabet(const std::vector<size_t>& fragment_counts,
                           const std::vector<uint16_t>& buffers,
                           bool with_dropped) {
  std::vector<Step> alphabet;
  for (const size_t count : fragment_counts) {
    std::vector<std::string> fragments;
    for (size_t f = 0; f < count; ++f) {
      fragments.emplace_back(1, static_cast<char>('a' + f));
    }
    for (uint32_t flags = 0; flags < 8; ++flags) {
      const uint32_t bits = flags << abi::kFlagsShift;
      for (const uint16_t buffer : buffers) {
        alphabet.push_back({false, buffer, bits, fragments, false});
      }
      if (with_dropped) alphabet.push_back({true, kA, bits, fragments, false});
    }
  }
  return alphabet;
}

TEST(PacketAssemblerModelTest, AgreesOnAllSequencesOfThreeChunks) {
  const auto alphabet = Alphabet({1, 2}, {kA, kB, kUnknown}, true);
  ASSERT_EQ(alphabet.size(), 64u);
  ExpectAgreementOnAll(alphabet, 3);
}

TEST(PacketAssemblerModelTest, AgreesOnAllSequencesOfFourChunks) {
  ExpectAgreementOnAll(Alphabet({1, 2}, {kA}, false), 4);
}

TEST(PacketAssemblerModelTest, AgreesOnAllSequencesOfFiveSingleFragments) {
  ExpectAgreementOnAll(Alphabet({1}, {kA}, false), 5);
}

TEST(PacketAssemblerModelTest, AgreesOnRandomInterleavingsWithReadGaps) {
  std::mt19937_64 random(1234);
  const auto alphabet = Alphabet({1, 2, 3, 5}, {kA, kA, kB, kUnknown}, true);
  for (int round = 0; round < 300; ++round) {
    Recorder sink;
    PartialBudget budget;
    PacketAssembler assembler(&sink, &budget);
    std::map<uint16_t, std::vector<Step>> steps;
    std::map<uint16_t, bool> gap_before;
    if (round % 2 == 0) {
      assembler.MarkReadGap();
      for (const uint16_t writer : {1, 2, 700}) gap_before[writer] = true;
    }
    for (int i = 0; i < 60; ++i) {
      const uint16_t writer = std::vector<uint16_t>{1, 2, 700}[random() % 3];
      if (random() % 40 == 0) {
        assembler.MarkReadGap();
        for (const uint16_t each : {1, 2, 700}) gap_before[each] = true;
      }
      Step step = alphabet[random() % alphabet.size()];
      // Losses are rarer than packets that go on.
      if (random() % 4 != 0) step.flags &= ~kLoss;
      if (random() % 4 != 0) step.buffer = kA;
      step.read_gap_before = std::exchange(gap_before[writer], false);
      for (std::string& fragment : step.fragments) {
        fragment = std::string(random() % 3, static_cast<char>(random()));
      }
      Apply(step, writer, &assembler);
      steps[writer].push_back(std::move(step));
    }
    // The models see a gap only if a chunk follows it.
    for (auto& [writer, of_writer] : steps) {
      if (!gap_before[writer]) continue;
      of_writer.push_back({false, kA, 0, {"end"}, true});
      Apply(of_writer.back(), writer, &assembler);
    }
    assembler.Finish();
    Causes lost;
    for (const auto& [writer, of_writer] : steps) {
      const Model model(of_writer, writer);
      std::vector<Packet> delivered;
      for (const Packet& packet : sink.packets) {
        if (packet.writer == writer) delivered.push_back(packet);
      }
      ASSERT_EQ(delivered, model.delivered) << Describe(of_writer);
      for (const auto& [cause, count] : model.lost) lost[cause] += count;
    }
    ASSERT_EQ(CausesOf(assembler), lost);
    ASSERT_EQ(budget.used(), 0u);
  }
}

}  // namespace
}  // namespace tracering::internal
