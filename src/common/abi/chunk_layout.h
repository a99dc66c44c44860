// What lies inside one chunk, format 00.
//
//   byte 0     3 4   5 6                                     chunk_size - 1
//   +-----------+-----+--------------------+------+----------------------+
//   |state word | bid | payloads --------> | free | <------ size entries |
//   +-----------+-----+--------------------+------+----------------------+
//                                          ^      ^
//                             payload_cursor      dir_cursor
//
// Fragment i's size sits in [chunk_size - (i + 1) * w, chunk_size - i * w),
// little-endian, read and written byte by byte. Publishing num_fragments = n
// publishes the first n payloads and the last n * w bytes; neither moves
// afterwards. Pure byte rules: no atomics, no bounds other than those stated.
#ifndef TRACERING_SRC_COMMON_ABI_CHUNK_LAYOUT_H_
#define TRACERING_SRC_COMMON_ABI_CHUNK_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "src/common/abi/geometry.h"
#include "src/common/abi/state_word.h"

namespace tracering::abi {

inline constexpr uint32_t kStateWordOffset = 0;
inline constexpr uint32_t kTargetBufferIdOffset = 4;
inline constexpr uint32_t kPayloadStart = 6;

// Bytes that payload and directory share.
constexpr uint32_t PayloadCapacity(uint32_t chunk_size) {
  return chunk_size - kPayloadStart;
}

constexpr uint32_t DirEntryOffset(const Geometry& geometry, uint32_t fragment) {
  return geometry.chunk_size() - (fragment + 1) * geometry.dir_entry_size();
}

// The largest single fragment that one chunk takes.
constexpr uint32_t MaxFragmentSize(const Geometry& geometry) {
  return PayloadCapacity(geometry.chunk_size()) - geometry.dir_entry_size();
}

// Most fragments that one chunk takes, all of them empty.
constexpr uint32_t MaxFragments(const Geometry& geometry) {
  const uint32_t by_directory =
      PayloadCapacity(geometry.chunk_size()) / geometry.dir_entry_size();
  return by_directory < kMaxFragmentsPerChunk ? by_directory
                                              : kMaxFragmentsPerChunk;
}

// Stores `size` as the entry at `entry`, `width` (1 or 2) bytes wide.
constexpr void StoreDirEntry(uint8_t* entry, uint32_t width, uint32_t size) {
  entry[0] = static_cast<uint8_t>(size);
  if (width == 2) entry[1] = static_cast<uint8_t>(size >> 8);
}

constexpr uint32_t LoadDirEntry(const uint8_t* entry, uint32_t width) {
  uint32_t size = entry[0];
  if (width == 2) size |= uint32_t{entry[1]} << 8;
  return size;
}

constexpr void StoreBufferId(uint8_t* chunk, BufferId id) {
  chunk[kTargetBufferIdOffset] = static_cast<uint8_t>(id.value());
  chunk[kTargetBufferIdOffset + 1] = static_cast<uint8_t>(id.value() >> 8);
}

constexpr BufferId LoadBufferId(const uint8_t* chunk) {
  return BufferId(static_cast<uint16_t>(chunk[kTargetBufferIdOffset] |
                                        chunk[kTargetBufferIdOffset + 1] << 8));
}

static_assert(PayloadCapacity(256) == 250);
static_assert(PayloadCapacity(32 * 1024) == 32762);
static_assert(MaxFragments(Geometry(2, 256)) == 250);
static_assert(MaxFragments(Geometry(2, 512)) == 253);
static_assert(MaxFragments(Geometry(2, 1024)) == 255);

}  // namespace tracering::abi

#endif  // TRACERING_SRC_COMMON_ABI_CHUNK_LAYOUT_H_
