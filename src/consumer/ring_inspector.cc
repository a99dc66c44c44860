// Judges a copy of a ring, and drains another copy of it with a consumer of its
// own. See ring_inspector.h.
#include "tracering/ring_inspector.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "src/common/abi/geometry.h"
#include "src/common/abi/state_word.h"
#include "src/common/os/memfd.h"
#include "src/common/os/unique_fd.h"

namespace tracering {
namespace {

constexpr size_t kMaxImageSize = (size_t{1} << 30) + abi::kControlHeaderSize;
constexpr size_t kMaxProblems = 100;
constexpr const char* kSalvaged = "salvaged";
// What a record of a buffer takes besides its packets, and records of a chunk.
constexpr size_t kBytesPerFragment = 32;
constexpr size_t kBytesPerChunk = 128;
constexpr auto kForever = std::chrono::hours(24);

template <typename Word>
Word Load(const std::string& image, size_t offset) {
  Word word;
  std::memcpy(&word, image.data() + offset, sizeof(word));
  return word;
}

// What the header in `image` says, checked, or why there is no ring.
absl::StatusOr<abi::Geometry> GeometryIn(const std::string& image) {
  if (image.size() < abi::kControlHeaderSize) {
    return absl::InvalidArgumentError(
        fmt::format("is no ring: {} bytes are less than its header of {}",
                    image.size(), abi::kControlHeaderSize));
  }
  const auto magic = Load<uint32_t>(image, abi::kMagicOffset);
  if (magic != abi::kMagic) {
    return absl::InvalidArgumentError(
        fmt::format("is no ring: it has {:#010x} where {:#010x} should stand",
                    magic, abi::kMagic));
  }
  const auto version = Load<uint32_t>(image, abi::kAbiVersionOffset);
  if (version != abi::kAbiVersion) {
    return absl::UnimplementedError(
        fmt::format("is a ring of version {}; this library reads version {}",
                    version, abi::kAbiVersion));
  }
  const auto num_chunks = Load<uint32_t>(image, abi::kNumChunksOffset);
  const auto chunk_size = Load<uint32_t>(image, abi::kChunkSizeOffset);
  const abi::GeometryError error = abi::CheckGeometry(num_chunks, chunk_size);
  if (error != abi::GeometryError::kNone) {
    return absl::InvalidArgumentError(
        fmt::format("claims to be a ring of {} chunks of {} bytes: {}",
                    num_chunks, chunk_size, abi::GeometryRule(error)));
  }
  return abi::Geometry(num_chunks, chunk_size);
}

absl::Status Annotate(const std::string& path, const absl::Status& status) {
  return absl::Status(
      status.code(),
      fmt::format("'{}' {}", path, std::string(status.message())));
}

// Sets what the payload of a chunk in the states 1 to 3 is, or the problem.
void InspectPayload(const abi::Geometry& geometry, const uint8_t* chunk,
                    InspectedChunk* out) {
  const uint32_t word = out->word;
  out->writer = abi::WriterIdOf(word);
  out->num_fragments = abi::NumFragmentsOf(word);
  const uint32_t flags = abi::FlagsOf(word);
  out->continues_from_previous = (flags & abi::kFlagContinuesFromPrevious) != 0;
  out->continues_on_next = (flags & abi::kFlagContinuesOnNext) != 0;
  out->data_loss = (flags & abi::kFlagDataLoss) != 0;
  if (abi::FormatOf(word) != abi::Format::kTargetBuffer) {
    out->problem = "unknown format";
    return;
  }
  if (out->writer.value() == 0) out->problem = "no writer";
  // Written before the first fragment is published.
  if (out->num_fragments != 0) out->buffer = abi::LoadBufferId(chunk);
  const uint32_t width = geometry.dir_entry_size();
  const uint32_t capacity = abi::PayloadCapacity(geometry.chunk_size());
  uint32_t size = out->num_fragments * width;
  for (uint32_t i = 0; i < out->num_fragments && size <= capacity; ++i) {
    const uint32_t bytes =
        abi::LoadDirEntry(chunk + abi::DirEntryOffset(geometry, i), width);
    size += bytes;
    out->payload_size += bytes;
  }
  if (size > capacity) out->problem = "fragments larger than the chunk";
  if (out->num_fragments == 0 && out->state == ChunkState::kComplete) {
    out->problem = "complete without a fragment";
  }
}

InspectedChunk InspectChunk(const abi::Geometry& geometry,
                            const std::string& image, uint32_t index,
                            const InspectedRing& ring) {
  const size_t offset = geometry.ChunkOffset(abi::ChunkIndex(index));
  InspectedChunk out;
  out.index = index;
  out.word = Load<uint32_t>(image, offset);
  out.state = std::min(static_cast<ChunkState>(abi::StateOf(out.word)),
                       ChunkState::kReserved);
  // The one position of those outstanding that is this chunk's, if any.
  const uint32_t ahead = (index - ring.read_pos) & (geometry.num_chunks() - 1);
  const abi::Position position(ring.read_pos + ahead);
  out.outstanding =
      ahead < ring.outstanding() && ring.outstanding() <= geometry.num_chunks();
  if (out.outstanding) out.position = position.value();
  switch (out.state) {
    case ChunkState::kFree: {
      const abi::WrapCount wrap = abi::WrapCountOf(out.word);
      out.wrap_count = wrap.value();
      if (out.outstanding && !(wrap == geometry.WrapOf(position)) &&
          !(wrap == geometry.NextWrapOf(position))) {
        out.problem = "free for a wrap that is not due";
      }
      break;
    }
    case ChunkState::kAcquired:
    case ChunkState::kComplete:
    case ChunkState::kRewriteRequested:
      InspectPayload(geometry,
                     reinterpret_cast<const uint8_t*>(image.data()) + offset,
                     &out);
      break;
    case ChunkState::kAcknowledged:
      if (out.word != abi::kAcknowledgedWord) {
        out.problem = "bits below the state";
      }
      break;
    case ChunkState::kReserved:
      out.problem = "no state";
      break;
  }
  return out;
}

}  // namespace

std::string_view ChunkStateName(ChunkState state) {
  switch (state) {
    case ChunkState::kFree:
      return "free";
    case ChunkState::kAcquired:
      return "acquired";
    case ChunkState::kComplete:
      return "complete";
    case ChunkState::kRewriteRequested:
      return "rewrite requested";
    case ChunkState::kAcknowledged:
      return "acknowledged";
    case ChunkState::kReserved:
      break;
  }
  return "reserved";
}

absl::StatusOr<RingInspector> RingInspector::Open(const std::string& path) {
  // Without blocking: it may be a pipe.
  const os::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot open '{}'", path));
  }
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no ring: it is no file", path));
  }
  const auto read_up_to = [&](size_t size, std::string* image) {
    size_t have = image->size();
    image->resize(size);
    while (have < size) {
      const ssize_t got = pread(fd.get(), image->data() + have, size - have,
                                static_cast<off_t>(have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    image->resize(have);
  };
  std::string image;
  read_up_to(abi::kControlHeaderSize, &image);
  const absl::StatusOr<abi::Geometry> geometry = GeometryIn(image);
  if (!geometry.ok()) return Annotate(path, geometry.status());
  const size_t size = geometry->RingSize();
  // Allocates no more than there is.
  if (size <= kMaxImageSize && static_cast<size_t>(file.st_size) >= size) {
    read_up_to(size, &image);
  }
  absl::StatusOr<RingInspector> inspector = FromImage(std::move(image));
  if (!inspector.ok()) return Annotate(path, inspector.status());
  return inspector;
}

absl::StatusOr<RingInspector> RingInspector::FromImage(std::string image) {
  const absl::StatusOr<abi::Geometry> geometry = GeometryIn(image);
  if (!geometry.ok()) return geometry.status();
  const size_t size = geometry->RingSize();
  if (size > kMaxImageSize) {
    return absl::ResourceExhaustedError(fmt::format(
        "is a ring of {} bytes; at most {} are read", size, kMaxImageSize));
  }
  if (image.size() < size) {
    return absl::DataLossError(fmt::format(
        "is cut off: the ring of {} chunks of {} bytes does not "
        "end within {} bytes",
        geometry->num_chunks(), geometry->chunk_size(), image.size()));
  }
  image.resize(size);
  return RingInspector(std::move(image));
}

RingInspector::RingInspector(std::string image) : image_(std::move(image)) {
  const abi::Geometry geometry = *GeometryIn(image_);
  const auto word = [this](size_t offset) {
    return Load<uint32_t>(image_, offset);
  };
  InspectedRing& ring = contents_;
  ring.abi_version = word(abi::kAbiVersionOffset);
  ring.num_chunks = geometry.num_chunks();
  ring.chunk_size = geometry.chunk_size();
  ring.producer_pid = static_cast<pid_t>(word(abi::kProducerPidOffset));
  ring.read_pos = word(abi::kReadPosOffset);
  ring.write_pos = word(abi::kWritePosOffset);
  ring.reader_epoch = word(abi::kReaderEpochOffset);
  ring.reader_left = ring.reader_epoch != 0 &&
                     word(abi::kReaderLeftOffset) == ring.reader_epoch;
  ring.reader_loss = Load<uint64_t>(image_, abi::kReaderLossOffset);
  ring.reader_armed = word(abi::kReaderArmedOffset) != 0;
  ring.wakeup_threshold = word(abi::kWakeupThresholdOffset);
  ring.writers_waiting = word(abi::kNumWritersWaitingOffset);
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    ring.writer_loss.by_cause[i] =
        Load<uint64_t>(image_, abi::kWriterLossOffset + i * sizeof(uint64_t));
  }
  if (ring.outstanding() > ring.num_chunks) {
    ring.problems.push_back(
        fmt::format("{} positions are outstanding in {} chunks",
                    ring.outstanding(), ring.num_chunks));
  }
  ring.chunks.reserve(ring.num_chunks);
  for (uint32_t index = 0; index < ring.num_chunks; ++index) {
    ring.chunks.push_back(InspectChunk(geometry, image_, index, ring));
    const std::string_view problem = ring.chunks.back().problem;
    if (problem.empty() || ring.problems.size() == kMaxProblems) continue;
    ring.problems.push_back(fmt::format("chunk {}: {} ({:#010x})", index,
                                        problem, ring.chunks.back().word));
  }
}

absl::StatusOr<TraceFileInfo> SalvageRings(
    const std::vector<const RingInspector*>& rings, const std::string& path,
    const SaveOptions& options) {
  // Sized so that nothing is refused for lack of room. Nobody knows what the
  // target buffers were called: there is one for all.
  size_t bytes = kMinBufferSize;
  for (const RingInspector* ring : rings) {
    for (const InspectedChunk& chunk : ring->contents().chunks) {
      bytes += kBytesPerChunk + chunk.payload_size +
               kBytesPerFragment * chunk.num_fragments;
    }
  }
  ConsumerOptions consumer_options;
  consumer_options.buffers = {{kSalvaged, bytes, FillPolicy::kDiscard}};
  consumer_options.limits.buffers_per_producer = 1 << 16;
  absl::StatusOr<std::unique_ptr<Consumer>> consumer =
      Consumer::Create(std::move(consumer_options));
  if (!consumer.ok()) return consumer.status();

  for (const RingInspector* ring : rings) {
    const InspectedRing& contents = ring->contents();
    absl::StatusOr<os::UniqueFd> memory =
        os::CreateSealedMemory("tracering-salvage", ring->image().size());
    if (!memory.ok()) return memory.status();
    for (size_t at = 0; at < ring->image().size();) {
      const ssize_t put =
          pwrite(memory->get(), ring->image().data() + at,
                 ring->image().size() - at, static_cast<off_t>(at));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        return absl::ErrnoToStatus(errno, "cannot copy a ring");
      }
      at += static_cast<size_t>(put);
    }
    std::set<uint16_t> buffers;
    for (const InspectedChunk& chunk : contents.chunks) {
      buffers.insert(chunk.buffer.value());
    }
    AttachRingOptions attach;
    attach.memfd = memory->get();
    attach.num_chunks = contents.num_chunks;
    attach.chunk_size = contents.chunk_size;
    for (const uint16_t id : buffers) {
      attach.buffers.emplace_back(BufferId(id), kSalvaged);
    }
    attach.name = kSalvaged;
    attach.pid = contents.producer_pid;
    attach.uid = geteuid();
    const absl::StatusOr<RingHandle> handle = (*consumer)->AttachRing(attach);
    if (!handle.ok()) return handle.status();
    (*consumer)->Flush(kForever);
    if (absl::Status status = (*consumer)->DetachRing(*handle); !status.ok()) {
      return status;
    }
  }
  return (*consumer)->WriteTrace(path, options);
}

}  // namespace tracering
