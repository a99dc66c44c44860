// tracering ring: a ring post mortem, as text, and what can be saved of it.
//
// See tracering/ring_inspector.h for what the ring may be.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/command_line.h"
#include "tools/record_report.h"
#include "tools/subcommands.h"
#include "tracering/ring_inspector.h"

namespace tracering::tools {
namespace {

constexpr const char* kRingUsage =
    R"(usage: tracering ring [OPTION...] PATH...

Shows the rings in the files PATH: its header, its cursors, and the state of
each chunk. PATH is a file that a program keeps its ring in, or /proc/PID/fd/N
where a process, the program or another one, has it open. The ring is copied and
never written to.

  -o, --output FILE  save the packets that were published and never taken, of
                     all PATHs, as a trace
  -z, --compress     deflate the packets of FILE
  -s, --summary      do not list the chunks
  -h, --help         this text

A full ring refuses the newest packets: it holds the first ones since somebody
last read it.

Exit status: 0; 1 if a PATH is no ring or FILE cannot be written; 2 if an
argument is wrong.
)";

void AppendSummary(const std::string& path, const InspectedRing& ring,
                   std::string* text) {
  const auto out = std::back_inserter(*text);
  fmt::format_to(out,
                 "{}: ring of {} chunks of {} bytes, version {}, made by "
                 "process {}\n",
                 Printable(path), ring.num_chunks, ring.chunk_size,
                 ring.abi_version, ring.producer_pid);
  fmt::format_to(out,
                 "  read_pos {}, write_pos {}: {} of {} chunks wait for a "
                 "reader\n",
                 ring.read_pos, ring.write_pos, ring.outstanding(),
                 ring.num_chunks);
  fmt::format_to(
      out, "  readers: {}{}\n",
      ring.reader_epoch == 0 ? "none ever"
                             : fmt::format("{} so far", ring.reader_epoch),
      ring.reader_epoch == 0 ? ""
      : ring.reader_left     ? "; the last one has left"
      : ring.reader_armed    ? "; the last one sleeps, or died asleep"
                             : "; the last one is at work, or died at it");
  if (ring.writers_waiting != 0) {
    fmt::format_to(out, "  {} writers wait for room\n", ring.writers_waiting);
  }
  const std::string lost = DescribeLosses(ring.writer_loss);
  fmt::format_to(out, "  lost: {}; counted by readers {}\n",
                 lost.empty() ? "nothing that writers noted" : lost,
                 ring.reader_loss);
  std::array<uint32_t, 6> states{};
  uint64_t fragments = 0;
  uint64_t bytes = 0;
  for (const InspectedChunk& chunk : ring.chunks) {
    ++states[static_cast<size_t>(chunk.state)];
    if (!chunk.outstanding) continue;
    fragments += chunk.num_fragments;
    bytes += chunk.payload_size;
  }
  fmt::format_to(out, "  chunks:");
  const char* separator = " ";
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == 0) continue;
    fmt::format_to(out, "{}{} {}", separator, states[i],
                   ChunkStateName(static_cast<ChunkState>(i)));
    separator = ", ";
  }
  fmt::format_to(out, "\n  waiting: {} fragments of packets, {}\n", fragments,
                 ReadableBytes(static_cast<double>(bytes)));
  for (const std::string& problem : ring.problems) {
    fmt::format_to(out, "  problem: {}\n", problem);
  }
}

void AppendChunk(const InspectedChunk& chunk, std::string* text) {
  const auto out = std::back_inserter(*text);
  fmt::format_to(out, "  {:>8}  {:>10}  {:#010x}  {:<17}", chunk.index,
                 chunk.outstanding ? fmt::to_string(chunk.position) : "-",
                 chunk.word, ChunkStateName(chunk.state));
  if (chunk.state == ChunkState::kFree) {
    fmt::format_to(out, "  for wrap {}", chunk.wrap_count);
  } else if (chunk.state < ChunkState::kAcknowledged) {
    fmt::format_to(out, "  writer {}, buffer {}, {} fragments, {} bytes",
                   chunk.writer.value(), chunk.buffer.value(),
                   chunk.num_fragments, chunk.payload_size);
    if (chunk.continues_from_previous) *text += ", continues";
    if (chunk.continues_on_next) *text += ", to be continued";
    if (chunk.data_loss) *text += ", after a loss";
  }
  if (!chunk.problem.empty()) fmt::format_to(out, "  ({})", chunk.problem);
  *text += '\n';
}

void AppendChunks(const std::vector<InspectedChunk>& chunks,
                  std::string* text) {
  fmt::format_to(std::back_inserter(*text), "  {:>8}  {:>10}  {:<10}  {}\n",
                 "chunk", "position", "word", "state");
  for (size_t i = 0; i < chunks.size();) {
    const InspectedChunk& first = chunks[i];
    size_t next = i + 1;
    // Free chunks are many and all alike.
    const bool is_plain = first.state == ChunkState::kFree &&
                          !first.outstanding && first.problem.empty();
    while (is_plain && next < chunks.size() &&
           chunks[next].word == first.word && !chunks[next].outstanding) {
      ++next;
    }
    AppendChunk(first, text);
    if (next - i > 1) {
      fmt::format_to(std::back_inserter(*text),
                     "  {:>8}  {:>10}  and {} more like it\n", "...", "",
                     next - i - 1);
    }
    i = next;
  }
}

}  // namespace

int Ring(std::vector<std::string> arguments) {
  CommandLine line("ring", kRingUsage, std::move(arguments));
  std::vector<std::string> paths;
  std::string output;
  SaveOptions save;
  bool summary = false;
  while (line.Next()) {
    if (line.Is("--output", "-o")) {
      output = line.Value();
      if (const std::string problem = OutputProblem(output); !problem.empty()) {
        line.FailValue(problem);
      }
    } else if (line.Is("--compress", "-z")) {
      line.NoValue();
      save.compress = true;
    } else if (line.Is("--summary", "-s")) {
      line.NoValue();
      summary = true;
    } else if (line.option().empty()) {
      paths.push_back(line.operand());
    } else {
      line.FailUnknown();
    }
  }
  for (std::string& path : line.Rest()) paths.push_back(std::move(path));
  if (paths.empty()) line.Fail("which PATH?");
  if (save.compress && output.empty()) line.Fail("--compress needs --output");

  int status = EXIT_SUCCESS;
  std::vector<RingInspector> rings;
  for (const std::string& path : paths) {
    absl::StatusOr<RingInspector> ring = RingInspector::Open(path);
    if (!ring.ok()) {
      Complain("ring", ring.status());
      status = kExitFailure;
      continue;
    }
    std::string text;
    AppendSummary(path, ring->contents(), &text);
    if (!summary) AppendChunks(ring->contents().chunks, &text);
    if (!Print("ring", text)) status = kExitFailure;
    rings.push_back(*std::move(ring));
  }
  if (output.empty() || rings.empty()) return status;

  std::vector<const RingInspector*> pointers;
  pointers.reserve(rings.size());
  for (const RingInspector& ring : rings) pointers.push_back(&ring);
  const absl::StatusOr<TraceFileInfo> info =
      SalvageRings(pointers, output, save);
  if (!info.ok()) {
    Complain("ring", info.status());
    return kExitFailure;
  }
  const bool printed =
      Print("ring", fmt::format("saved {}\n", DescribeFile(*info)));
  return printed ? status : kExitFailure;
}

}  // namespace tracering::tools
