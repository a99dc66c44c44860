// Keeps a thread on one core, where there is a second one to leave to others.
//
// Any thread, for itself. Knows nothing of what is measured.
#ifndef TRACERING_BENCHMARKS_PIN_H_
#define TRACERING_BENCHMARKS_PIN_H_

#include <sched.h>

#include <thread>

namespace tracering {

// No effect if the kernel refuses.
inline void PinThread(unsigned core) {
  if (core >= std::thread::hardware_concurrency()) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace tracering

#endif  // TRACERING_BENCHMARKS_PIN_H_
