// tracering stat: what a running service takes from whom, again and again.
//
// One connection for each look: see tracering/service_stats.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/command_line.h"
#include "tools/record_report.h"
#include "tools/subcommands.h"
#include "tracering/consumer.h"
#include "tracering/service_stats.h"

namespace tracering::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kStatUsage =
    R"(usage: tracering stat [OPTION...]

Shows, for each program that traces into a running service, packets and bytes
a second, how full the fullest of its rings is, and what it has lost since it
connected, by cause: on a terminal as a table that is drawn anew, elsewhere as
one table after the other. Ends with the service, or by Ctrl-C.

      --socket PATH     of the service. Default: $TRACERING_SOCKET,
                        $XDG_RUNTIME_DIR/tracering.sock or
                        /tmp/tracering-UID.sock
  -i, --interval TIME   between two looks; default: 1s
  -n, --count N         end after N tables
  -h, --help            this text

Exit status: 0; 1 if there is no service, or none that answers; 2 if an argument
is wrong.
)";

constexpr milliseconds kTimeout{5000};
constexpr milliseconds kMinInterval{10};
constexpr milliseconds kMaxInterval = std::chrono::hours(1);
constexpr size_t kNameWidth = 20;

// One row of the table, of two looks `elapsed` seconds apart.
std::string Row(std::string_view name, std::string_view pid,
                const PacketCounts& now, const PacketCounts& before,
                double elapsed, std::string_view rings) {
  const auto rate = [elapsed](uint64_t after, uint64_t earlier) {
    return static_cast<double>(after - std::min(after, earlier)) / elapsed;
  };
  const std::string lost = DescribeLosses(now.lost);
  return fmt::format(
      "{:<{}.{}} {:>8} {:>10} {:>12} {:>6} {:>10}{}{}\n", name, kNameWidth,
      kNameWidth, pid, ReadableCount(rate(now.delivered, before.delivered)),
      ReadableBytes(rate(now.delivered_bytes, before.delivered_bytes)), rings,
      now.lost.total(), lost.empty() ? "" : "  ", lost);
}

std::string Percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

std::string Table(const ConsumerStats& now, const ConsumerStats& before,
                  double elapsed) {
  std::map<uint64_t, PacketCounts> earlier;
  for (const ProducerStats& producer : before.producers) {
    earlier[producer.id] = producer.packets;
  }
  std::string text = fmt::format(
      "{:<{}} {:>8} {:>10} {:>12} {:>6} {:>10}  {}\n", "program", kNameWidth,
      "pid", "packets/s", "bytes/s", "ring", "lost", "by cause");
  double fullest = 0;
  for (const ProducerStats& producer : now.producers) {
    const double occupancy = RingOccupancy(producer);
    fullest = std::max(fullest, occupancy);
    const bool stopped =
        std::any_of(producer.rings.begin(), producer.rings.end(),
                    [](const RingStats& ring) { return ring.stopped; });
    text += Row(Printable(producer.name), fmt::to_string(producer.pid),
                producer.packets, earlier[producer.id], elapsed,
                stopped ? "broken" : Percent(occupancy));
  }
  text += Row(fmt::format("all {}, of {} so far", now.producers_connected,
                          now.producers_seen),
              "", now.packets, before.packets, elapsed, Percent(fullest));
  return text;
}

// What shows `text` from the top of the terminal, as much as fits.
std::string Drawn(const std::string& text) {
  winsize size{};
  size_t rows = SIZE_MAX;
  size_t columns = SIZE_MAX;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
      size.ws_col > 0) {
    rows = size.ws_row - size_t{1};
    columns = size.ws_col - size_t{1};
  }
  std::string out = "\x1b[H";
  for (size_t at = 0; at < text.size() && rows != 0; --rows) {
    const size_t end = text.find('\n', at);
    out += text.substr(at, std::min(end - at, columns)) + "\x1b[K\n";
    at = end + 1;
  }
  out += "\x1b[J";
  return out;
}

void Sleep(milliseconds time) {
  timespec left{};
  left.tv_sec = time.count() / 1000;
  left.tv_nsec = time.count() % 1000 * 1'000'000;
  while (nanosleep(&left, &left) != 0) {
  }
}

}  // namespace

int Stat(std::vector<std::string> arguments) {
  CommandLine line("stat", kStatUsage, std::move(arguments));
  std::string socket_path = DefaultSocketPath();
  milliseconds interval{1000};
  uint64_t tables = UINT64_MAX;
  while (line.Next()) {
    if (line.Is("--socket")) {
      socket_path = line.Value();
    } else if (line.Is("--interval", "-i")) {
      interval = line.Time(kMinInterval, kMaxInterval);
    } else if (line.Is("--count", "-n")) {
      tables = line.Number(1, UINT64_MAX);
    } else {
      line.FailUnknown();
    }
  }
  if (!line.Rest().empty()) line.Fail("there are no operands");

  const bool on_terminal = isatty(STDOUT_FILENO) == 1;
  absl::StatusOr<ConsumerStats> before =
      QueryServiceStats(socket_path, kTimeout);
  if (!before.ok()) {
    Complain("stat", before.status());
    return kExitFailure;
  }
  auto time_before = steady_clock::now();
  for (uint64_t i = 0; i < tables; ++i) {
    Sleep(interval);
    absl::StatusOr<ConsumerStats> now =
        QueryServiceStats(socket_path, kTimeout);
    const auto time = steady_clock::now();
    if (!now.ok()) {
      Complain("stat", now.status());
      const bool is_gone =
          absl::IsUnavailable(now.status()) || absl::IsNotFound(now.status());
      return i != 0 && is_gone ? EXIT_SUCCESS : kExitFailure;
    }
    const double elapsed =
        std::chrono::duration<double>(time - time_before).count();
    const std::string text = Table(*now, *before, elapsed);
    if (!Print("stat", on_terminal ? Drawn(text) : text)) return kExitFailure;
    before = std::move(now);
    time_before = time;
  }
  return EXIT_SUCCESS;
}

}  // namespace tracering::tools
