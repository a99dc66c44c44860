// See record_options.h; the usage below is what users read.
#include "tools/record_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "tools/command_line.h"

namespace tracering::tools {
namespace {

using std::chrono::milliseconds;

constexpr const char* kRecordUsage =
    R"(usage: tracering record [OPTION...] [-- COMMAND [ARGUMENT...]]

Starts a tracing service, records what programs trace, and saves it: when
COMMAND ends, else on Ctrl-C (SIGINT, SIGTERM, SIGHUP) or after --duration.
COMMAND finds the service by $TRACERING_SOCKET.

  -o, --output FILE     where the trace goes; default: trace.pftrace
  -b, --buffer NAME=SIZE[:ring|discard]
                        a buffer in memory for what programs write to NAME; may
                        be given several times. SIZE in bytes, or with K, M or
                        G. 'ring' overwrites the oldest packets, 'discard'
                        refuses the newest. Without any: main=32M:ring
  -c, --categories GLOB,...
                        the categories of track events to switch on; the last
                        GLOB that matches decides, and one that begins with '-'
                        switches off. Default: '*', all of them
  -s, --stream PERIOD   write to FILE while recording, at least every PERIOD
                        (such as 500ms or 2s): for traces larger than the
                        buffers, and what is left if this program is killed
  -r, --rotate SIZE:COUNT
                        stream to files of at most SIZE, and keep COUNT of them:
                        FILE, FILE.1 (the one before) and so on. Each opens
                        alone. Implies --stream 1s
  -z, --compress        deflate the packets; viewers read such files as well
  -t, --trigger NAME[:GRACE_MS]
                        save a snapshot when a program pulls the trigger NAME
                        (Producer::Trigger), GRACE_MS milliseconds later; may be
                        given several times. Not with --stream
  -d, --duration TIME   end after TIME, such as 10s or 5m; COMMAND gets SIGTERM
      --socket PATH     where programs connect. Default: with COMMAND a path of
                        its own, else $TRACERING_SOCKET,
                        $XDG_RUNTIME_DIR/tracering.sock or
                        /tmp/tracering-UID.sock
  -q, --quiet           say nothing but what went wrong
  -h, --help            this text

SIGUSR1 saves a snapshot of the buffers beside FILE and recording goes on. At
Ctrl-C COMMAND has five seconds to end; again: it is killed.

Exit status: that of COMMAND (128 and the signal's number if one ended it; 127
or 126 if it cannot be run), 0 without COMMAND and after --duration, 1 if there
is no trace, 2 if an argument is wrong.
)";

constexpr milliseconds kMillisecond{1};
constexpr milliseconds kMaxPeriod = std::chrono::hours(1);
constexpr milliseconds kMaxDuration = std::chrono::hours(24 * 365);
constexpr uint64_t kMinFileBytes = 1 << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
constexpr uint64_t kMaxFiles = 1000;
constexpr uint64_t kMaxGraceMs = 3'600'000;
constexpr size_t kMaxTriggerName = 255;

BufferConfig ParseBuffer(CommandLine& line) {
  const std::string text = line.Value();
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    line.FailValue("it must be NAME=SIZE, NAME=SIZE:ring or NAME=SIZE:discard");
  }
  BufferConfig buffer;
  buffer.name = text.substr(0, equals);
  std::string_view size = std::string_view(text).substr(equals + 1);
  if (const size_t colon = size.find(':'); colon != std::string_view::npos) {
    const std::string_view policy = size.substr(colon + 1);
    if (policy == "discard") {
      buffer.policy = FillPolicy::kDiscard;
    } else if (policy != "ring") {
      line.FailValue(
          fmt::format("'{}' must be 'ring' or 'discard'", Printable(policy)));
    }
    size = size.substr(0, colon);
  }
  buffer.size = line.BytesFrom(size, kMinBufferSize, kMaxBufferSize);
  return buffer;
}

void ParseRotation(CommandLine& line, StreamOptions* stream) {
  const std::string_view text = line.Value();
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    line.FailValue("it must be SIZE:COUNT, such as 100M:10");
  }
  stream->max_file_bytes =
      line.BytesFrom(text.substr(0, colon), kMinFileBytes, kMaxFileBytes);
  stream->max_files = static_cast<uint32_t>(
      line.NumberFrom(text.substr(colon + 1), 1, kMaxFiles));
}

std::vector<std::string> ParseCategories(CommandLine& line) {
  std::vector<std::string> patterns;
  std::string_view rest = line.Value();
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    if (rest.substr(0, comma).empty()) {
      line.FailValue("a GLOB may not be empty");
    }
    patterns.emplace_back(rest.substr(0, comma));
    if (more) rest.remove_prefix(comma + 1);
  }
  return patterns;
}

SnapshotTrigger ParseTrigger(CommandLine& line) {
  const std::string& text = line.Value();
  const size_t colon = text.rfind(':');
  SnapshotTrigger trigger;
  trigger.name = text.substr(0, colon);
  if (colon != std::string::npos) {
    trigger.grace = milliseconds(line.NumberFrom(
        std::string_view(text).substr(colon + 1), 0, kMaxGraceMs));
  }
  if (trigger.name.empty() || trigger.name.size() > kMaxTriggerName) {
    line.FailValue(
        fmt::format("NAME must have 1 to {} bytes", kMaxTriggerName));
  }
  return trigger;
}

// Found out now rather than after hours of recording.
void CheckOutput(const CommandLine& line, const std::string& output) {
  const std::string problem = OutputProblem(output);
  if (problem.empty()) return;
  line.Fail(fmt::format("--output '{}': {}", Printable(output), problem));
}

StreamOptions& StreamOf(RecordOptions* options) {
  if (!options->stream.has_value()) options->stream.emplace();
  return *options->stream;
}

}  // namespace

RecordOptions ParseRecordOptions(std::vector<std::string> arguments) {
  CommandLine line("record", kRecordUsage, std::move(arguments));
  RecordOptions options;
  while (line.Next()) {
    if (line.Is("--output", "-o")) {
      options.output = line.Value();
    } else if (line.Is("--buffer", "-b")) {
      options.buffers.push_back(ParseBuffer(line));
    } else if (line.Is("--categories", "-c")) {
      options.categories = ParseCategories(line);
    } else if (line.Is("--stream", "-s")) {
      StreamOf(&options).period = line.Time(kMillisecond, kMaxPeriod);
    } else if (line.Is("--rotate", "-r")) {
      ParseRotation(line, &StreamOf(&options));
    } else if (line.Is("--compress", "-z")) {
      line.NoValue();
      options.compress = true;
    } else if (line.Is("--duration", "-d")) {
      options.duration = line.Time(kMillisecond, kMaxDuration);
    } else if (line.Is("--trigger", "-t")) {
      options.triggers.push_back(ParseTrigger(line));
    } else if (line.Is("--socket")) {
      options.socket_path = line.Value();
    } else if (line.Is("--quiet", "-q")) {
      line.NoValue();
      options.quiet = true;
    } else if (line.option().empty()) {
      line.Fail(
          fmt::format("unexpected argument '{}'; a command comes after "
                      "'--'",
                      Printable(line.operand())));
    } else {
      line.FailUnknown();
    }
  }
  options.command = line.Rest();
  if (line.HasRest() && options.command.empty()) {
    line.Fail("there is no COMMAND behind '--'");
  }
  if (options.stream.has_value()) {
    options.stream->compress = options.compress;
    if (!options.triggers.empty()) {
      line.Fail(
          "--trigger saves what is in the buffers, and --stream and "
          "--rotate leave nothing there: one or the other");
    }
  }
  CheckOutput(line, options.output);
  return options;
}

}  // namespace tracering::tools
