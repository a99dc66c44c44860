// What the packet assembler does, said by a model that knows links between
// fragments and no states, and the sink whose packets are held against it.
//
// For a test that goes through all short sequences of chunks and for a fuzzer;
// knows nothing of rings and of gtest. One thread.
#ifndef TRACERING_TESTS_CONSUMER_ASSEMBLER_MODEL_H_
#define TRACERING_TESTS_CONSUMER_ASSEMBLER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "src/consumer/packet_assembler.h"
#include "tests/consumer/chunk_fixture.h"

namespace tracering::internal {

// Buffers that are granted, and one that is not.
inline constexpr uint16_t kA = 1;
inline constexpr uint16_t kB = 2;
inline constexpr uint16_t kUnknown = 9;

struct AssembledPacket {
  std::string bytes;
  LossMask loss = 0;
  uint16_t writer = 1;
  uint32_t target = kA;

  friend bool operator==(const AssembledPacket& a, const AssembledPacket& b) {
    return a.bytes == b.bytes && a.loss == b.loss && a.writer == b.writer &&
           a.target == b.target;
  }
  friend std::ostream& operator<<(std::ostream& out,
                                  const AssembledPacket& packet) {
    return out << packet.writer << "->" << packet.target << " \""
               << packet.bytes << "\" loss " << packet.loss;
  }
};

// Grants the buffers A and B, and keeps what comes.
class AssemblerSink : public PacketSink {
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
    sizes_add_up &= size == run.payload_size;
  }

  std::vector<AssembledPacket> packets;
  bool grant_all = false;
  int resolved = 0;
  int runs = 0;
  SequenceIndex next_sequence = 0;
  bool sizes_add_up = true;  // of each run
};

using Causes = std::map<LossCause, uint64_t>;

inline Causes CausesOf(const PacketAssembler& assembler) {
  Causes causes;
  for (uint32_t i = 0; i < kNumLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    if (assembler.losses()[cause] != 0) {
      causes[cause] = assembler.losses()[cause];
    }
  }
  return causes;
}

// What the chunks of one writer mean, said without a state machine: fragments
// that are linked are one packet; it is whole if it has a start and an end and
// nothing happened to it; each packet that is not whole is one loss.
struct ChunkStep {
  bool dropped = false;
  uint16_t buffer = kA;
  uint32_t flags = 0;
  std::vector<std::string> fragments;
  bool read_gap_before = false;
};

class AssemblerModel {
 public:
  AssemblerModel(const std::vector<ChunkStep>& steps, uint16_t writer,
                 size_t max_partial = PacketAssembler::kDefaultMaxPartial)
      : writer_(writer), max_partial_(max_partial) {
    for (size_t i = 0; i < steps.size(); ++i) AddStep(steps, i);
    for (const Chain& chain : chains_) {
      if (const auto cause = CauseOf(steps, chain)) ++lost[*cause];
    }
    Deliver(steps);
  }

  std::vector<AssembledPacket> delivered;
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

  static bool LinksToPrevious(const std::vector<ChunkStep>& steps, size_t i) {
    return i != 0 && (steps[i].flags & kPrev) != 0 &&
           (steps[i - 1].flags & kNext) != 0 && !steps[i].read_gap_before;
  }
  static bool Ends(const std::vector<ChunkStep>& steps, const Part& part) {
    const ChunkStep& step = steps[part.step];
    return part.fragment + 1 != step.fragments.size() ||
           (step.flags & kNext) == 0;
  }

  void AddStep(const std::vector<ChunkStep>& steps, size_t i) {
    for (size_t f = 0; f < steps[i].fragments.size(); ++f) {
      if (f != 0 || !LinksToPrevious(steps, i)) {
        chains_.emplace_back();
        chains_.back().headless = f == 0 && (steps[i].flags & kPrev) != 0;
      }
      chains_.back().parts.push_back({i, f});
    }
  }

  // The loss that `chain` is, if it is one; noticed at the start of *step.
  std::optional<LossCause> CauseOf(const std::vector<ChunkStep>& steps,
                                   const Chain& chain,
                                   size_t* noticed = nullptr) const {
    size_t ignored = 0;
    if (noticed == nullptr) noticed = &ignored;
    const bool joined =
        chain.parts.size() != 1 || !Ends(steps, chain.parts.back());
    size_t bytes = 0;
    for (size_t p = 0; p < chain.parts.size(); ++p) {
      const size_t i = chain.parts[p].step;
      const ChunkStep& step = steps[i];
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
      bytes += step.fragments[chain.parts[p].fragment].size();
      if (joined && bytes > max_partial_) {
        // The head is looked at behind the whole packets of its chunk.
        if (p == 0) *noticed = i + 1;
        return LossCause::kPacketTooLarge;
      }
    }
    if (Ends(steps, chain.parts.back())) return std::nullopt;
    *noticed = chain.parts.back().step + 1;
    const bool by_gap =
        *noticed != steps.size() && steps[*noticed].read_gap_before;
    return by_gap ? LossCause::kReadGap : LossCause::kReassemblyGap;
  }

  // True if step `i` is the writer's first behind a read gap.
  static bool AfterGap(const std::vector<ChunkStep>& steps, size_t i) {
    return steps[i].read_gap_before;
  }

  void Deliver(const std::vector<ChunkStep>& steps) {
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
        AssembledPacket packet;
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
  const size_t max_partial_;
  std::vector<Chain> chains_;
};

inline void Apply(const ChunkStep& step, uint16_t writer,
                  PacketAssembler* assembler) {
  if (step.dropped) {
    assembler->OnChunkDropped(WriterId(writer),
                              static_cast<uint32_t>(step.fragments.size()),
                              step.flags);
  } else {
    assembler->OnChunk(
        OwnedChunk(writer, step.buffer, step.flags, step.fragments).view());
  }
}

inline std::string Describe(const std::vector<ChunkStep>& steps) {
  std::string text;
  for (const ChunkStep& step : steps) {
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

}  // namespace tracering::internal

#endif  // TRACERING_TESTS_CONSUMER_ASSEMBLER_MODEL_H_
