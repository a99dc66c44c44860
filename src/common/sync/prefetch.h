// Asks for memory that is about to be written.
//
// A compare-exchange waits for the stores before it, and a store for its cache
// line. A line that the other side of a ring has read takes as long to come
// back as several packets take to write, unless it was asked for.
#ifndef TRACERING_SRC_COMMON_SYNC_PREFETCH_H_
#define TRACERING_SRC_COMMON_SYNC_PREFETCH_H_

#include <cstddef>
#include <cstdint>

namespace tracering::internal {

inline constexpr size_t kCacheLine = 64;

// The line of `address`, for this processor alone. Any address will do: none is
// accessed.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  // The builtin becomes a prefetch for reading, which leaves the line with the
  // other side, unless the compiler is told that the processor has this one.
  // Processors that do not have it take it as no operation.
  asm("prefetchw %0" : : "m"(*static_cast<const uint8_t*>(address)));
#else
  __builtin_prefetch(address, /*rw=*/1);
#endif
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_SYNC_PREFETCH_H_
