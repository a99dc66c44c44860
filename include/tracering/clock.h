// The clock of trace timestamps: what to put into a packet's timestamp field.
//
// No state; may be called anywhere, also in a signal handler.
#ifndef TRACERING_CLOCK_H_
#define TRACERING_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace tracering {

// CLOCK_BOOTTIME in nanoseconds: goes on during suspend and never jumps. It is
// the file's primary clock, so a packet that carries it needs no clock id.
// Thread-safe, async-signal-safe, does not fail.
inline uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace tracering

#endif  // TRACERING_CLOCK_H_
