// mmap and munmap of memory files; see shared_mapping.h.
#include "src/common/os/shared_mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "absl/status/status.h"
#include "src/common/os/errno_saver.h"

namespace tracering::os {

absl::StatusOr<SharedMapping> SharedMapping::Map(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(
        errno, fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  return SharedMapping(data, bytes);
}

void SharedMapping::Unmap() noexcept {
  if (data_ == nullptr) return;
  ErrnoSaver saver;
  munmap(data_, size_);
}

bool ReplaceWithPrivateZeroes(void* base, size_t bytes) noexcept {
  ErrnoSaver saver;
  // Without a reservation of swap: the child of a large program should not
  // fail for memory that nobody is going to use.
  return mmap(base, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
              0) != MAP_FAILED;
}

}  // namespace tracering::os
