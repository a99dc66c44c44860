// tracering dump: the packets of a file as text or JSON, or what is in it as a
// table.
//
// See trace_reader.h for what the file may be.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "tools/command_line.h"
#include "tools/packet_printer.h"
#include "tools/subcommands.h"
#include "tools/trace_reader.h"
#include "tools/trace_summary.h"

namespace tracering::tools {
namespace {

constexpr const char* kDumpUsage =
    R"(usage: tracering dump [--json | --summary] FILE

Prints the packets of a trace file, also of one that is still being written or
was cut off. FILE may be '-' for standard input.

      --json     one JSON object per packet and line, in protobuf's mapping
                 (64-bit numbers are strings, bytes are base64). Default: the
                 text format of protobuf
  -s, --summary  no packets, but a table: what each thread, counter and other
                 track holds, how long slices took, and what was lost
  -h, --help     this text

Exit status: 0, also where the last packet is not all there, which is said on
standard error; 1 if the file cannot be read or is no trace from some byte on,
after what precedes it was printed; 2 if an argument is wrong.
)";

// What is printed in one go.
constexpr size_t kPrintSize = 64 * 1024;

// False where nobody takes it any more, which has been said. Where the packets
// end is for the caller to ask the reader, here as below.
bool PrintPackets(TraceReader& reader, bool json) {
  std::string text;
  std::string_view packet;
  bool printed = true;
  while (printed && reader.Next(&packet)) {
    if (json) {
      PrintJson(packet, &text);
    } else {
      PrintText(packet, &text);
    }
    if (text.size() < kPrintSize) continue;
    printed = Print("dump", text);
    text.clear();
  }
  return printed && Print("dump", text);
}

bool PrintSummary(TraceReader& reader, const std::string& path) {
  TraceSummary summary;
  std::string_view packet;
  bool is_empty = true;
  while (reader.Next(&packet)) {
    is_empty = false;
    summary.Add(packet);
  }
  if (is_empty && !reader.status().ok()) return true;  // it is no trace
  return Print("dump", summary.Describe(path, reader.bytes_read()));
}

}  // namespace

int Dump(std::vector<std::string> arguments) {
  CommandLine line("dump", kDumpUsage, std::move(arguments));
  std::string path;
  bool json = false;
  bool summary = false;
  while (line.Next()) {
    if (line.Is("--json")) {
      line.NoValue();
      json = true;
    } else if (line.Is("--summary", "-s")) {
      line.NoValue();
      summary = true;
    } else if (line.option().empty() && path.empty()) {
      path = line.operand();
    } else {
      line.FailUnknown();
    }
  }
  for (const std::string& operand : line.Rest()) {
    if (!path.empty()) line.Fail("only one FILE can be printed");
    path = operand;
  }
  if (path.empty()) line.Fail("which FILE?");
  if (json && summary) line.Fail("--json or --summary, not both");

  absl::StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(path);
  if (!reader.ok()) {
    Complain("dump", reader.status());
    return kExitFailure;
  }
  const bool printed =
      summary ? PrintSummary(**reader, path) : PrintPackets(**reader, json);
  if (!printed) return kExitFailure;
  if (!(*reader)->status().ok()) {
    Complain("dump", (*reader)->status());
    return kExitFailure;
  }
  if ((*reader)->cut_bytes() != 0) {
    Complain("dump",
             fmt::format("'{}' was cut off, or is still being written: "
                         "its last packet begins at byte {}, and only "
                         "{} bytes of it are there",
                         path, (*reader)->offset(), (*reader)->cut_bytes()));
  }
  return EXIT_SUCCESS;
}

}  // namespace tracering::tools
