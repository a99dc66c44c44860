// Owns the memory with plain system calls rather than with src/common/os, so
// that a fault there cannot hide in the images that tests compare against.
#include "tests/support/ring_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "tests/support/require.h"

namespace tracering::test {
namespace {

template <typename T>
T LoadWord(const uint8_t* address) {
  return __atomic_load_n(reinterpret_cast<const T*>(address), __ATOMIC_SEQ_CST);
}

template <typename T>
void StoreWord(uint8_t* address, T value) {
  __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_SEQ_CST);
}

uint8_t* Map(size_t size, int flags, int fd) {
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  Require(base != MAP_FAILED, "mmap of a ring image");
  return static_cast<uint8_t*>(base);
}

abi::Geometry CheckedGeometry(const RingImageOptions& options) {
  Require(abi::CheckGeometry(options.num_chunks, options.chunk_size) ==
              abi::GeometryError::kNone,
          "geometry of a ring image");
  return abi::Geometry(options.num_chunks, options.chunk_size);
}

}  // namespace

RingImage::RingImage(const RingImageOptions& options, uint8_t* base, int fd)
    : geometry_(CheckedGeometry(options)), base_(base), fd_(fd) {
  if (options.with_identity) {
    SetWord32(abi::kMagicOffset, abi::kMagic);
    SetWord32(abi::kAbiVersionOffset, abi::kAbiVersion);
    SetWord32(abi::kNumChunksOffset, options.num_chunks);
    SetWord32(abi::kChunkSizeOffset, options.chunk_size);
    SetWord32(abi::kProducerPidOffset, static_cast<uint32_t>(getpid()));
  }
  Seed(options.position, options.position);
}

RingImage RingImage::InPlainMemory(const RingImageOptions& options) {
  const size_t size = CheckedGeometry(options).RingSize();
  return RingImage(options, Map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1), -1);
}

RingImage RingImage::InMemfd(const RingImageOptions& options) {
  return InMemfd(options, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

RingImage RingImage::InMemfd(const RingImageOptions& options, int seals) {
  const size_t size = CheckedGeometry(options).RingSize();
  const int fd = memfd_create("ring-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Require(fd >= 0, "memfd_create");
  Require(ftruncate(fd, static_cast<off_t>(size)) == 0, "ftruncate");
  Require(fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0, "fallocate");
  Require(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS");
  return RingImage(options, Map(size, MAP_SHARED, fd), fd);
}

RingImage::RingImage(RingImage&& other) noexcept
    : geometry_(other.geometry_),
      base_(std::exchange(other.base_, nullptr)),
      fd_(std::exchange(other.fd_, -1)) {}

RingImage::~RingImage() {
  if (base_ != nullptr) munmap(base_, size());
  if (fd_ >= 0) close(fd_);
}

int RingImage::DupFd() const {
  const int copy = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  Require(copy >= 0, "F_DUPFD_CLOEXEC of a ring image");
  return copy;
}

void RingImage::Seed(uint32_t read_position, uint32_t write_position) {
  for (uint32_t i = 0; i < geometry_.num_chunks(); ++i) {
    const abi::Position position(read_position + i);
    set_state_word(geometry_.IndexOf(position).value(),
                   abi::FreeForWrap(geometry_.WrapOf(position)));
  }
  set_read_pos(read_position);
  set_write_pos(write_position);
}

uint32_t RingImage::read_pos() const { return Word32(abi::kReadPosOffset); }
uint32_t RingImage::write_pos() const { return Word32(abi::kWritePosOffset); }

void RingImage::set_read_pos(uint32_t value) {
  SetWord32(abi::kReadPosOffset, value);
}

void RingImage::set_write_pos(uint32_t value) {
  SetWord32(abi::kWritePosOffset, value);
}

uint32_t RingImage::state_word(uint32_t chunk_index) const {
  return LoadWord<uint32_t>(chunk(chunk_index));
}

void RingImage::set_state_word(uint32_t chunk_index, uint32_t word) {
  StoreWord<uint32_t>(chunk(chunk_index), word);
}

uint32_t RingImage::Word32(size_t offset) const {
  return LoadWord<uint32_t>(base_ + offset);
}

void RingImage::SetWord32(size_t offset, uint32_t value) {
  StoreWord<uint32_t>(base_ + offset, value);
}

uint64_t RingImage::Word64(size_t offset) const {
  return LoadWord<uint64_t>(base_ + offset);
}

void RingImage::SetWord64(size_t offset, uint64_t value) {
  StoreWord<uint64_t>(base_ + offset, value);
}

uint64_t RingImage::WriterLoss() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    sum += Word64(abi::kWriterLossOffset + i * sizeof(uint64_t));
  }
  return sum;
}

uint8_t* RingImage::chunk(uint32_t chunk_index) const {
  return base_ + geometry_.ChunkOffset(abi::ChunkIndex(chunk_index));
}

void RingImage::PutChunk(uint32_t chunk_index, abi::State state,
                         const ForgedChunk& forged) {
  uint8_t* const bytes = chunk(chunk_index);
  const auto count = static_cast<uint32_t>(forged.fragments.size());
  Require(count <= abi::MaxFragments(geometry_), "fragments of a chunk");
  uint32_t cursor = abi::kPayloadStart;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string& fragment = forged.fragments[i];
    const auto size = static_cast<uint32_t>(fragment.size());
    Require(cursor + size <= abi::DirEntryOffset(geometry_, count - 1),
            "payload of a chunk");
    std::memcpy(bytes + cursor, fragment.data(), size);
    abi::StoreDirEntry(bytes + abi::DirEntryOffset(geometry_, i),
                       geometry_.dir_entry_size(), size);
    cursor += size;
  }
  abi::StoreBufferId(bytes, BufferId(forged.buffer));
  set_state_word(chunk_index, abi::MakeDataWord(state, WriterId(forged.writer),
                                                count, forged.flags));
}

uint32_t RingImage::Publish(const ForgedChunk& forged) {
  const uint32_t position = write_pos();
  PutChunk(geometry_.IndexOf(abi::Position(position)).value(),
           abi::State::kComplete, forged);
  set_write_pos(position + 1);
  return position;
}

std::string RingImage::Snapshot() const {
  return std::string(reinterpret_cast<const char*>(base_), size());
}

}  // namespace tracering::test
