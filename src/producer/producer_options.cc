// The rules; see producer_options.h.
#include "src/producer/producer_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include "src/common/control/messages.h"
#include "src/common/os/process.h"
#include "tracering/buffer_config.h"

namespace tracering::internal {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kMaxOwnRings = 62;
constexpr size_t kMaxRingSize = size_t{1} << 30;
constexpr size_t kMaxSocketPathSize = 107;

absl::Status CheckChunkSize(size_t chunk_size) {
  if (chunk_size >= abi::kMinChunkSize && chunk_size <= abi::kMaxChunkSize &&
      abi::IsPowerOfTwo(static_cast<uint32_t>(chunk_size))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "chunk_size is {} bytes; it must be a power of two from {} to {}",
      chunk_size, abi::kMinChunkSize, abi::kMaxChunkSize));
}

absl::Status CheckWriterOptions(const WriterOptions& options) {
  if (options.stall_timeout >= nanoseconds(0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("stall_timeout is {} ns; it must be 0 or more",
                  options.stall_timeout.count()));
}

absl::Status CheckBuffers(const std::vector<BufferOptions>& buffers) {
  if (buffers.size() > kMaxBuffers - 1) {
    return absl::InvalidArgumentError(
        fmt::format("{} buffers; at most {}", buffers.size(), kMaxBuffers - 1));
  }
  size_t own_rings = 0;
  std::set<std::string_view> seen;
  for (const BufferOptions& buffer : buffers) {
    if (absl::Status status = CheckBufferName(buffer.name); !status.ok()) {
      return status;
    }
    if (buffer.name == kMetadataBufferName) {
      return absl::InvalidArgumentError(fmt::format(
          "buffer name '{}' is built in and cannot be declared", buffer.name));
    }
    if (!seen.insert(buffer.name).second) {
      return absl::InvalidArgumentError(fmt::format(
          "buffer name '{}' is there twice; it must be unique", buffer.name));
    }
    if (!buffer.own_ring && buffer.ring_size != 0) {
      return absl::InvalidArgumentError(
          fmt::format("ring_size of buffer '{}' is {} bytes; without own_ring "
                      "it must be 0",
                      buffer.name, buffer.ring_size));
    }
    if (buffer.writer_options.has_value()) {
      if (absl::Status status = CheckWriterOptions(*buffer.writer_options);
          !status.ok()) {
        return status;
      }
    }
    if (buffer.own_ring) ++own_rings;
  }
  if (own_rings > kMaxOwnRings) {
    return absl::InvalidArgumentError(
        fmt::format("{} buffers with a ring of their own; at most {}",
                    own_rings, kMaxOwnRings));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<abi::Geometry> CheckRingSize(const std::string& what,
                                            size_t ring_size,
                                            size_t chunk_size) {
  if (ring_size > kMaxRingSize || ring_size % chunk_size != 0 ||
      abi::CheckGeometry(static_cast<uint32_t>(ring_size / chunk_size),
                         static_cast<uint32_t>(chunk_size)) !=
          abi::GeometryError::kNone) {
    return absl::InvalidArgumentError(fmt::format(
        "ring_size{} is {} bytes; it must be chunk_size ({}) times a power of "
        "two, at least 2 chunks and at most {} bytes",
        what, ring_size, chunk_size, kMaxRingSize));
  }
  return abi::Geometry(static_cast<uint32_t>(ring_size / chunk_size),
                       static_cast<uint32_t>(chunk_size));
}

bool IsBufferName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxBufferNameSize;
}

absl::Status CheckBufferName(std::string_view name) {
  if (IsBufferName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("buffer name '{}' has {} bytes; it must have 1 to {}", name,
                  name.size(), kMaxBufferNameSize));
}

absl::Status CompleteOptions(ProducerOptions* options) {
  if (options->name.empty()) options->name = os::ProcessName();
  if (options->name.size() > control::kMaxNameSize) {
    return absl::InvalidArgumentError(
        fmt::format("name '{}' has {} bytes; at most {}", options->name,
                    options->name.size(), control::kMaxNameSize));
  }
  options->socket_path = os::ResolveSocketPath(options->socket_path);
  for (size_t at = 0;
       (at = options->ring_file.find("%p", at)) != std::string::npos;) {
    options->ring_file.replace(at, 2, fmt::to_string(getpid()));
  }
  if (options->socket_path.size() > kMaxSocketPathSize) {
    return absl::InvalidArgumentError(fmt::format(
        "socket path '{}' has {} bytes; at most {}", options->socket_path,
        options->socket_path.size(), kMaxSocketPathSize));
  }
  if (!options->ring_file.empty() && options->startup == StartupMode::kOff) {
    return absl::InvalidArgumentError(
        fmt::format("ring_file '{}' with StartupMode::kOff: there is no "
                    "consumer that would switch it on",
                    options->ring_file));
  }
  if (absl::Status status = CheckChunkSize(options->chunk_size); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckWriterOptions(options->writer_options);
      !status.ok()) {
    return status;
  }
  return CheckBuffers(options->buffers);
}

}  // namespace tracering::internal
