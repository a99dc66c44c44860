// The recording half of the bundled demo: waits for producers, shows what
// comes in, and saves a trace on Ctrl-C or when the last producer has gone.
//
// Also an example of embedding the consumer library: everything about tracing
// is in Record() and Save(), the rest is a well-behaved command-line program.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "examples/command_line.h"
#include "tracering/consumer.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kWaitForFirstProducer{30};
constexpr seconds kFlushTimeout{5};
constexpr milliseconds kTick{50};

constexpr std::string_view kUsage =
    "usage: demo_consumer --output FILE [options]\n"
    "\n"
    "Records what producers trace, and saves it on Ctrl-C.\n"
    "\n"
    "  --output FILE           where the trace goes\n"
    "  --buffer NAME:SIZE:POLICY\n"
    "                          a target buffer; may be given several times.\n"
    "                          SIZE in bytes, or with K, M or G; POLICY is\n"
    "                          'ring' (overwrite the oldest packets) or\n"
    "                          'discard' (refuse the newest).\n"
    "                          Default: main:32M:ring\n"
    "  --exit-when-idle        save and exit when the last producer has gone\n"
    "  --socket PATH           where producers connect; default:\n"
    "                          $TRACERING_SOCKET, else\n"
    "                          $XDG_RUNTIME_DIR/tracering.sock, else\n"
    "                          /tmp/tracering-UID.sock\n"
    "  --help                  this text\n"
    "\n"
    "The last line on standard output is for machines:\n"
    "  delivered=N lost=N file=PATH\n"
    "where delivered packets are in the file, lost ones are all others.\n";

struct Arguments {
  std::string output;
  std::string socket_path;
  std::vector<tracering::BufferConfig> buffers;
  bool exit_when_idle = false;
};

// "512K", "32M", "1G", or plain bytes.
std::optional<size_t> ParseSize(std::string_view text) {
  size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  int shift = 0;
  if (rest != end) {
    if (*rest == 'K') shift = 10;
    if (*rest == 'M') shift = 20;
    if (*rest == 'G') shift = 30;
    if (shift == 0 || rest + 1 != end) return std::nullopt;
  }
  if (value > (SIZE_MAX >> shift)) return std::nullopt;
  return value << shift;
}

tracering::BufferConfig ParseBuffer(CommandLine& line) {
  const std::string text = line.Value();
  const auto fail = [&line, &text](const std::string& rule) {
    line.Fail("--buffer '" + text + "': " + rule);
  };
  // From the right: a name may contain colons.
  const size_t policy_at = text.rfind(':');
  const size_t size_at = policy_at == std::string::npos || policy_at == 0
                             ? std::string::npos
                             : text.rfind(':', policy_at - 1);
  if (size_at == std::string::npos) {
    fail("it must be NAME:SIZE:ring or NAME:SIZE:discard");
  }
  tracering::BufferConfig buffer;
  buffer.name = text.substr(0, size_at);
  const std::string size = text.substr(size_at + 1, policy_at - size_at - 1);
  const std::string policy = text.substr(policy_at + 1);
  const std::optional<size_t> bytes = ParseSize(size);
  if (!bytes.has_value()) {
    fail("SIZE '" + size + "' must be a number, or one with K, M or G");
  }
  if (*bytes < tracering::kMinBufferSize ||
      *bytes > tracering::kMaxBufferSize) {
    fail("SIZE '" + size + "' must be from " +
         std::to_string(tracering::kMinBufferSize) + " to " +
         std::to_string(tracering::kMaxBufferSize) + " bytes");
  }
  buffer.size = *bytes;
  if (policy == "ring") {
    buffer.policy = tracering::FillPolicy::kRing;
  } else if (policy == "discard") {
    buffer.policy = tracering::FillPolicy::kDiscard;
  } else {
    fail("POLICY '" + policy + "' must be 'ring' or 'discard'");
  }
  return buffer;
}

// Found out now rather than after hours of recording.
void CheckOutput(const CommandLine& line, const std::string& output) {
  const std::filesystem::path path(output);
  const std::filesystem::path directory =
      path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  if (std::filesystem::is_directory(path, error) || !path.has_filename()) {
    line.Fail("--output '" + output + "' is a directory, not a file");
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    line.Fail("--output '" + output + "': cannot create files in '" +
              directory.string() + "'");
  }
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  CommandLine line("demo_consumer", argc, argv);
  while (line.Next()) {
    if (line.name() == "--output") {
      arguments.output = line.Value();
    } else if (line.name() == "--socket") {
      arguments.socket_path = line.Value();
    } else if (line.name() == "--buffer") {
      arguments.buffers.push_back(ParseBuffer(line));
    } else if (line.name() == "--exit-when-idle") {
      line.NoValue();
      arguments.exit_when_idle = true;
    } else if (line.name() == "--help") {
      line.NoValue();
      std::cout << kUsage;
      std::exit(EXIT_SUCCESS);
    } else {
      line.FailUnknown();
    }
  }
  if (arguments.output.empty()) {
    line.Fail("--output FILE is needed: where the trace goes");
  }
  CheckOutput(line, arguments.output);
  if (arguments.socket_path.empty()) {
    arguments.socket_path = tracering::DefaultSocketPath();
  }
  return arguments;
}

std::string Readable(double value, const char* const (&units)[4], double base) {
  size_t unit = 0;
  while (value >= base && unit < 3) {
    value /= base;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f%s" : "%.1f%s", value,
                units[unit]);
  return text;
}

std::string ReadableCount(double value) {
  return Readable(value, {"", "k", "M", "G"}, 1000);
}

std::string ReadableBytes(double value) {
  return Readable(value, {" B", " KiB", " MiB", " GiB"}, 1024);
}

// Standard error, as one line that is written again and again on a terminal,
// and as lines below each other elsewhere. Thread-safe.
class StatusLine {
 public:
  // How often a new one is worth it.
  milliseconds period() const { return milliseconds(terminal_ ? 200 : 1000); }

  void Show(const std::string& text) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::cerr << (terminal_ ? "\r\x1b[K" : "") << text
              << (terminal_ ? "" : "\n") << std::flush;
    shown_ = terminal_;
  }

  // A line that stays.
  void Print(std::string_view text) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (shown_) std::cerr << "\r\x1b[K";
    shown_ = false;
    std::cerr << text << std::endl;
  }

  // Keeps what is shown.
  void Finish() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (shown_) std::cerr << std::endl;
    shown_ = false;
  }

 private:
  std::mutex mutex_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

// Turns two looks at the consumer's counts into a line.
class Progress {
 public:
  std::string Describe(const tracering::ConsumerStats& stats) {
    const auto now = steady_clock::now();
    const double elapsed =
        std::chrono::duration<double>(now - last_time_).count();
    const auto rate = [elapsed](uint64_t after, uint64_t before) {
      return elapsed > 0 ? static_cast<double>(after - before) / elapsed : 0;
    };
    std::ostringstream line;
    line << stats.producers_connected << " producers, "
         << ReadableCount(static_cast<double>(stats.packets.delivered))
         << " packets, "
         << ReadableCount(rate(stats.packets.delivered, last_.delivered))
         << "/s, "
         << ReadableBytes(
                rate(stats.packets.delivered_bytes, last_.delivered_bytes))
         << "/s;";
    uint64_t overwritten = 0;
    for (const tracering::BufferStats& buffer : stats.buffers) {
      if (buffer.name == tracering::kMetadataBufferName) continue;
      line << ' ' << buffer.name << ' '
           << 100 * buffer.used_bytes / std::max<size_t>(buffer.size, 1)
           << "% full,";
      overwritten += buffer.overwritten_packets;
    }
    line << " lost " << stats.packets.lost.total() << ", overwritten "
         << overwritten;
    last_ = stats.packets;
    last_time_ = now;
    return line.str();
  }

 private:
  tracering::PacketCounts last_;
  steady_clock::time_point last_time_ = steady_clock::now();
};

// Blocks the signals that end a recording, in this thread and those that it
// starts, so that they are taken one by one in Record().
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// True if one of `signals` came within a tick.
bool WaitForSignal(const sigset_t& signals) {
  timespec timeout{};
  timeout.tv_nsec = std::chrono::nanoseconds(kTick).count();
  return sigtimedwait(&signals, nullptr, &timeout) > 0;
}

// Returns when it is time to save; false if there is nothing to save.
bool Record(tracering::Consumer& consumer, const Arguments& arguments,
            const sigset_t& signals, StatusLine& status) {
  Progress progress;
  const auto start = steady_clock::now();
  auto next_line = start;
  while (!WaitForSignal(signals)) {
    const tracering::ConsumerStats stats = consumer.stats();
    const auto now = steady_clock::now();
    if (now >= next_line && stats.producers_seen != 0) {
      status.Show(progress.Describe(stats));
      next_line = now + status.period();
    }
    if (!arguments.exit_when_idle) continue;
    if (stats.producers_seen == 0 && now - start >= kWaitForFirstProducer) {
      status.Print("demo_consumer: no producer connected within 30 s");
      return false;
    }
    if (stats.producers_seen != 0 && stats.producers_connected == 0) break;
  }
  // A second Ctrl-C ends even a save that hangs.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  consumer.Flush(kFlushTimeout);
  consumer.Stop();
  status.Show(progress.Describe(consumer.stats()));
  status.Finish();
  return true;
}

int Save(tracering::Consumer& consumer, const std::string& path) {
  const absl::StatusOr<tracering::TraceFileInfo> info =
      consumer.WriteTrace(path);
  if (!info.ok()) {
    std::cerr << "demo_consumer: " << info.status().message() << std::endl;
    return kExitFailure;
  }
  for (size_t i = 0; i < tracering::kNumLossCauses; ++i) {
    const auto cause = static_cast<tracering::LossCause>(i);
    if (info->lost[cause] == 0) continue;
    std::cerr << "lost " << info->lost[cause] << ": "
              << tracering::LossCauseName(cause) << std::endl;
  }
  std::cout << "delivered=" << info->packets << " lost=" << info->lost.total()
            << " file=" << info->path << std::endl;
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  const sigset_t signals = BlockEndSignals();
  StatusLine status;
  tracering::ConsumerOptions options;
  options.socket_path = arguments.socket_path;
  if (!arguments.buffers.empty()) options.buffers = arguments.buffers;
  options.log = [&status](std::string_view line) { status.Print(line); };
  absl::StatusOr<std::unique_ptr<tracering::Consumer>> consumer =
      tracering::Consumer::Create(options);
  if (!consumer.ok()) {
    std::cerr << "demo_consumer: " << consumer.status().message() << std::endl;
    return consumer.status().code() == absl::StatusCode::kInvalidArgument
               ? kExitUsage
               : kExitFailure;
  }
  if (const absl::Status started = (*consumer)->Start(); !started.ok()) {
    std::cerr << "demo_consumer: " << started.message() << std::endl;
    return kExitFailure;
  }
  status.Print("recording; producers connect to " + arguments.socket_path +
               "; Ctrl-C saves");
  if (!Record(**consumer, arguments, signals, status)) return kExitFailure;
  return Save(**consumer, arguments.output);
}
