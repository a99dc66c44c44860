// What a process of the load had traced, in a file that outlives it.
//
// One writer for each count, any reader; a count is right at every instant.
#ifndef TRACERING_TESTS_SOAK_SOAK_COUNTS_H_
#define TRACERING_TESTS_SOAK_SOAK_COUNTS_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/support/require.h"

namespace tracering::test {

inline constexpr size_t kSoakThreads = 3;

struct SoakCounts {
  // Packets that were complete.
  std::array<std::atomic<uint64_t>, kSoakThreads> complete;

  // Of the file, which is made if it is not there. Never unmapped.
  static SoakCounts* Map(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    Require(fd >= 0 && ftruncate(fd, sizeof(SoakCounts)) == 0, "a file");
    void* const memory = mmap(nullptr, sizeof(SoakCounts),
                              PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    Require(memory != MAP_FAILED, "mmap");
    close(fd);
    return static_cast<SoakCounts*>(memory);
  }

  uint64_t total() const {
    uint64_t sum = 0;
    for (const auto& count : complete) {
      sum += count.load(std::memory_order_relaxed);
    }
    return sum;
  }
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SOAK_SOAK_COUNTS_H_
