// The rules for options; see consumer_options.h.
#include "src/consumer/consumer_options.h"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <string_view>

#include "absl/strings/escaping.h"
#include "src/common/control/messages.h"
#include "src/consumer/packet_compressor.h"

namespace tracering::internal {
namespace {

constexpr size_t kMaxBuffers = 256;
constexpr auto kMinPeriod = std::chrono::milliseconds(1);
constexpr auto kMaxPeriod = std::chrono::hours(1);
constexpr uint64_t kMinFileBytes = 1 << 20;
// Each of them is renamed whenever another one begins.
constexpr uint32_t kMaxFiles = 1000;
// Names of descriptors and what they cost beside their bytes.
constexpr size_t kMinMetadataSize = 4096;
constexpr size_t kMaxPartialPacket = size_t{1} << 30;
constexpr size_t kMaxNestingDepth = 1 << 20;
// Of patterns for categories: half of what a message may hold.
constexpr size_t kMaxPatternBytes = control::kMaxMessageSize / 2;

absl::Status CheckBuffer(const BufferConfig& buffer) {
  const auto error = [&](std::string_view rule) {
    return absl::InvalidArgumentError(
        fmt::format("buffer '{}' of {} bytes: {}",
                    absl::CEscape(buffer.name.substr(0, kMaxBufferNameSize)),
                    buffer.size, rule));
  };
  if (buffer.name.empty() || buffer.name.size() > kMaxBufferNameSize) {
    return error(
        fmt::format("the name must have 1 to {} bytes", kMaxBufferNameSize));
  }
  if (buffer.name == kMetadataBufferName) {
    return error("the name is that of the built-in buffer");
  }
  if (buffer.size < kMinBufferSize || buffer.size > kMaxBufferSize) {
    return error(fmt::format("the size must be from {} to {} bytes",
                             kMinBufferSize, kMaxBufferSize));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const ConsumerLimits& limits) {
  struct Rule {
    std::string_view name;
    size_t value;
    size_t min;
    size_t max;
  };
  constexpr size_t kAny = SIZE_MAX;
  for (const Rule& rule : {
           Rule{"producers", limits.producers, 1, kAny},
           Rule{"rings_per_producer", limits.rings_per_producer, 1, kAny},
           Rule{"ring_bytes_per_producer", limits.ring_bytes_per_producer, 1,
                kAny},
           Rule{"buffers_per_producer", limits.buffers_per_producer, 1, kAny},
           Rule{"partial_packet_bytes", limits.partial_packet_bytes, 1,
                kMaxPartialPacket},
           Rule{"partial_bytes_per_producer", limits.partial_bytes_per_producer,
                1, kAny},
           Rule{"nesting_depth", limits.nesting_depth, 1, kMaxNestingDepth},
           Rule{"metadata_buffer_size", limits.metadata_buffer_size,
                kMinMetadataSize, kMaxBufferSize},
       }) {
    if (rule.value < rule.min || rule.value > rule.max) {
      return absl::InvalidArgumentError(
          fmt::format("limit {} of {}: it must be from {} to {}", rule.name,
                      rule.value, rule.min, rule.max));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPeriod(std::string_view name,
                         std::chrono::milliseconds period) {
  if (period >= kMinPeriod && period <= kMaxPeriod) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} of {} ms: it must be from 1 ms to 1 hour", name, period.count()));
}

}  // namespace

absl::Status CheckCategories(const std::vector<std::string>& patterns) {
  if (patterns.size() > control::kMaxNamesPerMessage) {
    return absl::InvalidArgumentError(
        fmt::format("{} patterns for categories: at most {}", patterns.size(),
                    control::kMaxNamesPerMessage));
  }
  size_t bytes = 0;
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.size() > control::kMaxNameSize) {
      return absl::InvalidArgumentError(fmt::format(
          "pattern '{}' for categories has {} bytes: it must have 1 to {}",
          absl::CEscape(pattern.substr(0, control::kMaxNameSize)),
          pattern.size(), control::kMaxNameSize));
    }
    bytes += pattern.size();
  }
  if (bytes > kMaxPatternBytes) {
    return absl::InvalidArgumentError(
        fmt::format("patterns for categories of {} bytes in all: at most {}",
                    bytes, kMaxPatternBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ConsumerOptions& options) {
  if (options.buffers.empty() || options.buffers.size() > kMaxBuffers) {
    return absl::InvalidArgumentError(
        fmt::format("{} buffers: there must be 1 to {}", options.buffers.size(),
                    kMaxBuffers));
  }
  std::set<std::string_view> names;
  for (const BufferConfig& buffer : options.buffers) {
    if (absl::Status status = CheckBuffer(buffer); !status.ok()) return status;
    if (!names.insert(buffer.name).second) {
      return absl::InvalidArgumentError(fmt::format(
          "buffer '{}' is given twice", absl::CEscape(buffer.name)));
    }
  }
  if (absl::Status status = CheckPeriod("drain_period", options.drain_period);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckCategories(options.enabled_categories);
      !status.ok()) {
    return status;
  }
  return CheckLimits(options.limits);
}

absl::Status CheckOptions(const SaveOptions& options) {
  if (options.compress && !CanCompressPackets()) {
    return absl::UnimplementedError(
        "traces cannot be compressed: the library was built without zlib");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const StreamOptions& options) {
  if (absl::Status status = CheckPeriod("stream period", options.period);
      !status.ok()) {
    return status;
  }
  if (options.max_file_bytes != 0 && options.max_file_bytes < kMinFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("files of at most {} bytes: it must be {} or more",
                    options.max_file_bytes, kMinFileBytes));
  }
  if (options.max_files < 1 || options.max_files > kMaxFiles) {
    return absl::InvalidArgumentError(
        fmt::format("at most {} files: it must be from 1 to {}",
                    options.max_files, kMaxFiles));
  }
  SaveOptions save;
  save.compress = options.compress;
  return CheckOptions(save);
}

}  // namespace tracering::internal
