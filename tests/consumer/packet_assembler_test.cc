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

#include "tests/consumer/chunk_fixture.h"

namespace tracering::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint16_t kA = 1;
constexpr uint16_t kB = 2;
constexpr uint16_t kUnknown = 9;

struct Packet {
  std::string bytes;
  LossMask loss = 0;
  uint16_t writer = 1;
  uint32_t target = kA;

  friend bool operator==(const Packet& a, const Packet& b) {
    return a.bytes == b.bytes && a.loss == b.loss && a.writer == b.writer &&
           a.target == b.target;
  }
  friend std::ostream& operator<<(std::ostream& out, const Packet& packet) {
    return out << packet.writer << "->" << packet.target << " \""
               << packet.bytes << "\" loss " << packet.loss;
  }
};

// Grants the buffers A and B, and keeps what comes.
class Recorder : public PacketSink {
 public:
  bool Resolve(WriterId, BufferId buffer, Route* route) override {
    ++resolved;
    if (buffer.value() != kA && buffer.value() != kB && !grant_all) {
      return false;
    }
    route->target = buffer.value();
    route->sequence = next_sequence++;
    return true;
  }
  void OnRun(const PacketRun& run) override {
    ++runs;
    uint32_t size = 0;
    for (uint32_t i = 0; i < run.num_packets; ++i) {
      packets.push_back({PacketOf(run, i), i == 0 ? run.loss : 0,
                         run.writer.value(), run.route.target});
      size += run.SizeOf(i);
    }
    EXPECT_EQ(size, run.payload_size);
  }

  std::vector<Packet> packets;
  bool grant_all = false;
  int resolved = 0;
  int runs = 0;
  SequenceIndex next_sequence = 0;
};

std::map<LossCause, uint64_t> CausesOf(const PacketAssembler& assembler) {
  std::map<LossCause, uint64_t> causes;
  for (uint32_t i = 0; i < kNumLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    if (assembler.losses()[cause] != 0) {
      causes[cause] = assembler.losses()[cause];
    }
  }
  return causes;
}

class PacketAssemblerTest : public testing::Test {
 protected:
  void Chunk(uint32_t flags, const std::vector<std::string>& fragments,
             uint16_t buffer = kA, uint16_t writer = 1) {
    assembler_.OnChunk(OwnedChunk(writer, buffer, flags, fragments).view());
  }
  std::vector<Packet> Take() { return std::exchange(sink_.packets, {}); }
  std::map<LossCause, uint64_t> Lost() const { return CausesOf(assembler_); }

  Recorder sink_;
  PartialBudget budget_;
  PacketAssembler assembler_{&sink_, &budget_};
};

using Causes = std::map<LossCause, uint64_t>;

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

// What the chunks of one writer mean, said without a state machine: fragments
// that are linked are one packet; it is whole if it has a start and an end and
// nothing happened to it; each packet that is not whole is one loss.
struct Step {
  bool dropped = false;
  uint16_t buffer = kA;
  uint32_t flags = 0;
  std::vector<std::string> fragments;
  bool read_gap_before = false;
};

class Model {
 public:
  Model(const std::vector<Step>& steps, uint16_t writer) : writer_(writer) {
    for (size_t i = 0; i < steps.size(); ++i) AddStep(steps, i);
    for (const Chain& chain : chains_) {
      if (const auto cause = CauseOf(steps, chain)) ++lost[*cause];
    }
    Deliver(steps);
  }

  std::vector<Packet> delivered;
  Causes lost;

 private:
  struct Part {
    size_t step;
    size_t fragment;
  };
  struct Chain {
    std::vector<Part> parts;
    bool headless = false;
  };

  static bool LinksToPrevious(const std::vector<Step>& steps, size_t i) {
    return i != 0 && (steps[i].flags & kPrev) != 0 &&
           (steps[i - 1].flags & kNext) != 0 && !steps[i].read_gap_before;
  }
  static bool Ends(const std::vector<Step>& steps, const Part& part) {
    const Step& step = steps[part.step];
    return part.fragment + 1 != step.fragments.size() ||
           (step.flags & kNext) == 0;
  }

  void AddStep(const std::vector<Step>& steps, size_t i) {
    for (size_t f = 0; f < steps[i].fragments.size(); ++f) {
      if (f != 0 || !LinksToPrevious(steps, i)) {
        chains_.emplace_back();
        chains_.back().headless = f == 0 && (steps[i].flags & kPrev) != 0;
      }
      chains_.back().parts.push_back({i, f});
    }
  }

  // The loss that `chain` is, if it is one; noticed at the start of *step.
  static std::optional<LossCause> CauseOf(const std::vector<Step>& steps,
                                          const Chain& chain,
                                          size_t* noticed = nullptr) {
    size_t ignored = 0;
    if (noticed == nullptr) noticed = &ignored;
    for (size_t p = 0; p < chain.parts.size(); ++p) {
      const size_t i = chain.parts[p].step;
      const Step& step = steps[i];
      *noticed = i;
      if (p != 0 && (step.flags & kLoss) != 0) return LossCause::kReassemblyGap;
      if (p == 0 && chain.headless && AfterGap(steps, i)) {
        return LossCause::kReadGap;
      }
      if (step.dropped) return LossCause::kChunkCorrupted;
      if (step.buffer == kUnknown) return LossCause::kUnknownBuffer;
      if (p == 0 && chain.headless) return LossCause::kOrphanContinuation;
      if (step.buffer != steps[chain.parts[0].step].buffer) {
        return LossCause::kBrokenChain;
      }
    }
    if (Ends(steps, chain.parts.back())) return std::nullopt;
    *noticed = chain.parts.back().step + 1;
    const bool by_gap =
        *noticed != steps.size() && steps[*noticed].read_gap_before;
    return by_gap ? LossCause::kReadGap : LossCause::kReassemblyGap;
  }

  // True if step `i` is the writer's first behind a read gap.
  static bool AfterGap(const std::vector<Step>& steps, size_t i) {
    return steps[i].read_gap_before;
  }

  void Deliver(const std::vector<Step>& steps) {
    std::map<size_t, LossMask> marks;  // by the step that takes note
    for (const Chain& chain : chains_) {
      size_t noticed = 0;
      if (const auto cause = CauseOf(steps, chain, &noticed)) {
        marks[noticed] |= MarkOf(*cause);
      }
    }
    LossMask pending = 0;
    std::map<uint16_t, bool> needs_gap_mark;
    auto chain = chains_.begin();
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].read_gap_before) {
        for (const uint16_t buffer : {kA, kB}) needs_gap_mark[buffer] = true;
      }
      pending |= marks[i];
      if ((steps[i].flags & kLoss) != 0) pending |= kLossMarked;
      for (; chain != chains_.end() && chain->parts.back().step == i; ++chain) {
        if (CauseOf(steps, *chain)) continue;
        Packet packet;
        for (const Part& part : chain->parts) {
          packet.bytes += steps[part.step].fragments[part.fragment];
        }
        packet.writer = writer_;
        packet.target = steps[i].buffer;
        packet.loss = std::exchange(pending, 0);
        if (std::exchange(needs_gap_mark[steps[i].buffer], false)) {
          packet.loss |= MarkOf(LossCause::kReadGap);
        }
        delivered.push_back(packet);
      }
    }
  }

  const uint16_t writer_;
  std::vector<Chain> chains_;
};

void Apply(const Step& step, uint16_t writer, PacketAssembler* assembler) {
  if (step.dropped) {
    assembler->OnChunkDropped(WriterId(writer),
                              static_cast<uint32_t>(step.fragments.size()),
                              step.flags);
  } else {
    assembler->OnChunk(
        OwnedChunk(writer, step.buffer, step.flags, step.fragments).view());
  }
}

std::string Describe(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += step.read_gap_before ? " GAP" : "";
    text += step.dropped ? " dropped" : " chunk";
    text += std::to_string(step.buffer) + "[";
    text += (step.flags & kLoss) != 0 ? "L" : "";
    text += (step.flags & kPrev) != 0 ? "P" : "";
    text += (step.flags & kNext) != 0 ? "N" : "";
    text += " " + std::to_string(step.fragments.size()) + "]";
  }
  return text;
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
      budget.used() == 0 && assembler.open_partials() == 0;
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
