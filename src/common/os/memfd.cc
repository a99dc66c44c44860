// Sealed memory files; see memfd.h for who may pass what.
#include "src/common/os/memfd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

#include "src/common/os/available_memory.h"

// Newer than the C library's headers.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace tracering::os {
namespace {

constexpr size_t kMaxNameSize = 249;
constexpr int kRequiredSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Before Linux 6.9 a signal makes the kernel undo a call of fallocate and
// return EINTR. Slices this small get done between two ticks of even a 10 kHz
// profiling timer.
constexpr off_t kAllocationSlice = 64 * 1024;
constexpr uint64_t kBlockSize = 512;  // of stat's st_blocks

// Allocates every page of the memory file `fd` of `size` bytes.
absl::Status Allocate(int fd, off_t size) {
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return absl::ErrnoToStatus(errno, "fstat of shared memory");
  }
  constexpr uint64_t kStatBlock = 512;
  const auto wanted = static_cast<uint64_t>(size);
  const uint64_t present = static_cast<uint64_t>(file.st_blocks) * kStatBlock;
  const uint64_t available = AvailableMemory();
  if (wanted > present && wanted - present > available) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot allocate {} bytes of shared memory: only {} bytes "
                    "are available",
                    wanted - present, available));
  }
  for (off_t offset = 0; offset < size; offset += kAllocationSlice) {
    const off_t length = std::min(kAllocationSlice, size - offset);
    while (fallocate(fd, 0, offset, length) != 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(
          errno, fmt::format("cannot allocate {} bytes of shared memory "
                             "(got {})",
                             size, offset));
    }
  }
  return absl::OkStatus();
}

// ftruncate beyond this limit raises SIGXFSZ, which kills the program.
absl::Status CheckFileSizeLimit(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      fmt::format("{} bytes of shared memory exceed the file size limit "
                  "(RLIMIT_FSIZE) of {} bytes",
                  bytes, limit.rlim_cur));
}

int CreateMemfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(name, kFlags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(name, kFlags);  // a kernel before 6.3
}

absl::Status CheckSize(size_t bytes) {
  if (bytes == 0 ||
      bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    return absl::InvalidArgumentError(fmt::format(
        "shared memory of {} bytes: the size must be from 1 to 2^63 - 1",
        bytes));
  }
  return CheckFileSizeLimit(bytes);
}

// Gives the new file `fd` its size and all of its memory.
absl::Status SizeAndAllocate(int fd, size_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(fd, size) != 0) {
    return absl::ErrnoToStatus(
        errno, fmt::format("cannot size shared memory to {} bytes", bytes));
  }
  return Allocate(fd, size);
}

}  // namespace

absl::StatusOr<UniqueFd> CreateSealedMemory(const char* debug_name,
                                            size_t bytes) {
  if (absl::Status status = CheckSize(bytes); !status.ok()) return status;
  const std::string name = std::string(debug_name).substr(0, kMaxNameSize);
  UniqueFd fd(CreateMemfd(name.c_str()));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno,
                               fmt::format("memfd_create for {} bytes", bytes));
  }
  if (absl::Status status = SizeAndAllocate(fd.get(), bytes); !status.ok()) {
    return status;
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kRequiredSeals) != 0) {
    return absl::ErrnoToStatus(errno, "cannot seal shared memory");
  }
  return fd;
}

absl::StatusOr<UniqueFd> CreateFileMemory(const std::string& path,
                                          size_t bytes) {
  if (absl::Status status = CheckSize(bytes); !status.ok()) return status;
  struct stat existing {};
  if (lstat(path.c_str(), &existing) == 0 && S_ISREG(existing.st_mode)) {
    unlink(path.c_str());
  }
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot create '{}'", path));
  }
  if (absl::Status status = SizeAndAllocate(fd.get(), bytes); !status.ok()) {
    unlink(path.c_str());
    return absl::Status(
        status.code(),
        fmt::format("'{}': {}", path, std::string(status.message())));
  }
  return fd;
}

absl::Status CheckSealedMemory(int fd, size_t expected_bytes) {
  // First, because the kernel answers it from the open file alone, and only
  // for memory files: fstat and fstatfs ask the file system, which for FUSE is
  // a process that need not answer.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "shared memory must be a sealed memfd; fd {} has no seals (errno {})",
        fd, errno));
  }
  if ((seals & kRequiredSeals) != kRequiredSeals) {
    return absl::InvalidArgumentError(fmt::format(
        "shared memory must be sealed against shrinking, growing and further "
        "seals ({:#x}); its seals are {:#x}",
        kRequiredSeals, seals));
  }
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "shared memory must not be sealed against writing; its seals are "
        "{:#x}",
        seals));
  }
  struct statfs file_system {};
  if (fstatfs(fd, &file_system) != 0) {
    return absl::ErrnoToStatus(errno, "fstatfs of shared memory");
  }
  if (static_cast<uint64_t>(file_system.f_type) != TMPFS_MAGIC) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory must be on tmpfs ({:#x}), not on a file "
                    "system of type {:#x}",
                    TMPFS_MAGIC, static_cast<uint64_t>(file_system.f_type)));
  }
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return absl::ErrnoToStatus(errno, "fstat of shared memory");
  }
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory must be a regular file; its mode is {:#o}",
                    file.st_mode));
  }
  if (static_cast<uint64_t>(file.st_size) != expected_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory must have {} bytes; it has {}",
                    expected_bytes, file.st_size));
  }
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDWR) {
    return absl::InvalidArgumentError(fmt::format(
        "shared memory must be open for reading and writing; its flags are "
        "{:#o}",
        flags));
  }
  // Filling it up here would be work for the peer's memory on our time.
  const uint64_t allocated = static_cast<uint64_t>(file.st_blocks) * kBlockSize;
  if (allocated < expected_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory must be allocated in full; of {} bytes {} "
                    "are missing",
                    expected_bytes, expected_bytes - allocated));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileIdentity> IdentifyFile(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("fstat of fd {}", fd));
  }
  return FileIdentity{file.st_dev, file.st_ino};
}

}  // namespace tracering::os
