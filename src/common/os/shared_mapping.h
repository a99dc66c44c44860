// The owner of one shared mapping of a memory file.
//
// Words in the mapping are touched through SharedWord only, by src/common/ring;
// this room knows addresses and sizes.
#ifndef TRACERING_SRC_COMMON_OS_SHARED_MAPPING_H_
#define TRACERING_SRC_COMMON_OS_SHARED_MAPPING_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"

namespace tracering::os {

class SharedMapping {
 public:
  SharedMapping() noexcept = default;
  ~SharedMapping() { Unmap(); }

  SharedMapping(SharedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    if (this != &other) {
      Unmap();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  // Maps the first `bytes` bytes of `fd` for reading and writing, page
  // aligned. The mapping does not need `fd` any longer. A descriptor from a
  // peer must have passed CheckSealedMemory with the same size, or the first
  // touch may be a SIGBUS.
  static absl::StatusOr<SharedMapping> Map(int fd, size_t bytes);

  // Null and 0 for a default-constructed or moved-from object.
  void* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  SharedMapping(void* data, size_t size) noexcept : data_(data), size_(size) {}
  void Unmap() noexcept;

  void* data_ = nullptr;
  size_t size_ = 0;
};

// Puts private zeroed memory in place of the mapping at `base` (page aligned,
// as Map returned it). Whoever still writes there harms nobody, and a later
// unmap works as before. For the child handler of fork: async-signal-safe,
// keeps errno.
//
// Returns false if the kernel refused (out of memory). The old mapping may
// then be gone or still in place: nothing may touch the range any more.
[[nodiscard]] bool ReplaceWithPrivateZeroes(void* base, size_t bytes) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_SHARED_MAPPING_H_
