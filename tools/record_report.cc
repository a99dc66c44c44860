// See record_report.h.
#include "tools/record_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/command_line.h"
#include "tracering/buffer_config.h"
#include "tracering/data_loss.h"

namespace tracering::tools {
namespace {

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::string Progress::Describe(const ConsumerStats& stats) {
  const Clock::time_point now = Clock::now();
  const double elapsed =
      std::chrono::duration<double>(now - last_time_).count();
  const auto rate = [elapsed](uint64_t after, uint64_t before) {
    return elapsed > 0 ? static_cast<double>(after - before) / elapsed : 0;
  };
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
  std::string line =
      fmt::format("{}:{:02}  {} producer{}  {} packets  {}/s  {}/s ",
                  seconds / 60, seconds % 60, stats.producers_connected,
                  stats.producers_connected == 1 ? "" : "s",
                  ReadableCount(static_cast<double>(stats.packets.delivered)),
                  ReadableCount(rate(stats.packets.delivered, last_.delivered)),
                  ReadableBytes(rate(stats.packets.delivered_bytes,
                                     last_.delivered_bytes)));
  uint64_t overwritten = 0;
  for (const BufferStats& buffer : stats.buffers) {
    if (buffer.name == kMetadataBufferName) continue;
    fmt::format_to(std::back_inserter(line), " {} {:.0f}%",
                   Printable(buffer.name),
                   100 * Share(buffer.used_bytes, buffer.size));
    overwritten += buffer.overwritten_packets;
  }
  double rings = 0;
  for (const ProducerStats& producer : stats.producers) {
    rings = std::max(rings, RingOccupancy(producer));
  }
  fmt::format_to(
      std::back_inserter(line), "  rings {:.0f}%  lost {}", 100 * rings,
      ReadableCount(static_cast<double>(stats.packets.lost.total())));
  if (overwritten != 0) {
    fmt::format_to(std::back_inserter(line), "  overwritten {}",
                   ReadableCount(static_cast<double>(overwritten)));
  }
  last_ = stats.packets;
  last_time_ = now;
  return line;
}

std::string DescribeFile(const TraceFileInfo& info) {
  std::string text =
      fmt::format("{}: {} packets, {}", Printable(info.path), info.packets,
                  ReadableBytes(static_cast<double>(info.bytes)));
  if (info.files != 1) {
    fmt::format_to(std::back_inserter(text), " in {} files", info.files);
  }
  if (info.lost.total() != 0) {
    fmt::format_to(std::back_inserter(text), "; lost {}: {}", info.lost.total(),
                   DescribeLosses(info.lost));
  }
  return text;
}

double RingOccupancy(const ProducerStats& producer) {
  double occupancy = 0;
  for (const RingStats& ring : producer.rings) {
    occupancy = std::max(occupancy, Share(ring.outstanding, ring.num_chunks));
  }
  return occupancy;
}

std::string DescribeLosses(const LossCounts& lost) {
  std::string text;
  for (size_t i = 0; i < kNumLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    if (lost[cause] == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{} {}",
                   text.empty() ? "" : ", ", LossCauseName(cause), lost[cause]);
  }
  return text;
}

}  // namespace tracering::tools
