// The assembler on chunks of several hostile writers: exactly against its
// model, and once more with little memory, where only the accounts are held
// against it.
//
//   input := limit for partial packets, memory for them, then for each chunk
//            what it is, what it bears, and its fragments
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/consumer/packet_assembler.h"
#include "tests/consumer/assembler_model.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tracering::test {
namespace {

using internal::AssembledPacket;
using internal::AssemblerModel;
using internal::AssemblerSink;
using internal::Causes;
using internal::ChunkStep;
using internal::PacketAssembler;
using internal::PartialBudget;

constexpr std::array<uint16_t, 4> kWriters = {0, 1, 700, 65535};
constexpr std::array<uint16_t, 4> kBuffers = {internal::kA, internal::kA,
                                              internal::kB, internal::kUnknown};
// The model is quadratic.
constexpr size_t kMaxChunks = 100;

struct ScriptStep {
  uint16_t writer = 0;
  bool gap_first = false;  // for all writers
  ChunkStep chunk;
};

struct Script {
  size_t max_partial = 0;
  size_t budget = 0;
  std::vector<ScriptStep> steps;
};

Script ReadScript(FuzzInput input) {
  Script script;
  script.max_partial = input.Byte() * size_t{4};
  script.budget = input.Byte() * size_t{16};
  std::map<uint16_t, bool> gap_before;
  while (!input.done() && script.steps.size() < kMaxChunks) {
    const uint8_t what = input.Byte();
    ScriptStep step;
    step.writer = kWriters[what % 4];
    step.gap_first = what >= 0xf0;
    if (step.gap_first) {
      for (const uint16_t writer : kWriters) gap_before[writer] = true;
    }
    step.chunk.buffer = kBuffers[what / 4 % 4];
    step.chunk.dropped = what / 16 % 8 == 7;
    step.chunk.read_gap_before = std::exchange(gap_before[step.writer], false);
    const uint8_t bears = input.Byte();
    step.chunk.flags = (bears & 7u) << abi::kFlagsShift;
    for (int i = bears >> 3; i >= 0; --i) {
      step.chunk.fragments.push_back(input.Bytes(input.Byte()));
    }
    script.steps.push_back(std::move(step));
  }
  // The model sees a gap only if a chunk follows it.
  for (const auto& [writer, owed] : gap_before) {
    if (!owed) continue;
    script.steps.push_back(
        {writer, false, {false, internal::kA, 0, {"end"}, true}});
  }
  return script;
}

void Apply(const Script& script, PacketAssembler* assembler) {
  for (const ScriptStep& step : script.steps) {
    if (step.gap_first) assembler->MarkReadGap();
    internal::Apply(step.chunk, step.writer, assembler);
  }
  assembler->Finish();
}

std::string CheckAgainstModel(const Script& script, uint64_t* attempted) {
  std::map<uint16_t, std::vector<ChunkStep>> of_writers;
  for (const ScriptStep& step : script.steps) {
    of_writers[step.writer].push_back(step.chunk);
  }
  AssemblerSink sink;
  PartialBudget budget;
  PacketAssembler assembler(&sink, &budget, script.max_partial);
  Apply(script, &assembler);
  Causes lost;
  for (const auto& [writer, steps] : of_writers) {
    const AssemblerModel model(steps, writer, script.max_partial);
    std::vector<AssembledPacket> delivered;
    for (const AssembledPacket& packet : sink.packets) {
      if (packet.writer == writer) delivered.push_back(packet);
    }
    if (delivered != model.delivered) {
      return fmt::format("writer {} delivered {} packets, the model {}:{}",
                         writer, delivered.size(), model.delivered.size(),
                         internal::Describe(steps));
    }
    for (const auto& [cause, count] : model.lost) {
      lost[cause] += count;
      *attempted += count;
    }
    *attempted += model.delivered.size();
  }
  if (internal::CausesOf(assembler) != lost) return "other losses";
  if (!sink.sizes_add_up) return "sizes of a run do not add up";
  if (budget.used() != 0 || assembler.open_partials() != 0) {
    return "something is still held";
  }
  return "";
}

// Which packet finds no memory depends on how that grows; that each is counted
// once does not.
std::string CheckLittleMemory(const Script& script, uint64_t attempted) {
  AssemblerSink sink;
  PartialBudget budget(script.budget);
  {
    PacketAssembler assembler(&sink, &budget, script.max_partial);
    Apply(script, &assembler);
    const uint64_t told =
        assembler.packets_assembled() + assembler.losses().total();
    if (told != attempted ||
        sink.packets.size() != assembler.packets_assembled()) {
      return fmt::format("{} of {} packets are accounted for", told, attempted);
    }
  }
  return budget.used() == 0 ? "" : "memory is not given back";
}

}  // namespace

std::string FuzzAssembler(const uint8_t* bytes, size_t size) {
  const Script script = ReadScript(FuzzInput(bytes, size));
  uint64_t attempted = 0;
  std::string wrong = CheckAgainstModel(script, &attempted);
  if (wrong.empty()) wrong = CheckLittleMemory(script, attempted);
  return wrong;
}

}  // namespace tracering::test
