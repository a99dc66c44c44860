// Samples what the threads of this process spend CPU time on, into the trace:
// PerfSample packets with the stack, the names of its functions, and a label.
//
//   tracering::CpuProfilerOptions options;
//   auto profiler = tracering::CpuProfiler::Start(**producer, options);
//   {
//     tracering::ScopedProfileLabel label("checkout");
//     ...
//   }
//   (*profiler)->Stop();
//
// The program comes first: the signal handler waits for nobody, allocates
// nothing and keeps errno. What cannot be recorded is counted, here and in the
// trace. docs/cpu-profiler.md says how stacks are found and what they may lack,
// and what a program should not do with SIGPROF meanwhile.
#ifndef TRACERING_CPU_PROFILER_H_
#define TRACERING_CPU_PROFILER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tracering/export.h"
#include "tracering/producer.h"

namespace tracering {

struct CpuProfilerOptions {
  // Samples for each second of CPU time that a thread uses, from 1 to 10000.
  // The kernel looks at CPU time once a tick, so that more than its tick rate
  // gives heavier samples (timebase_count), not more of them.
  uint32_t frequency_hz = 100;
  // The target buffer of the samples.
  std::string buffer = "main";
  // What lies between the signal handler and the background thread; see
  // ProfileBufferOptions. A sample takes 4 words and one for each frame.
  size_t data_words = size_t{1} << 17;
  size_t tags = size_t{1} << 14;
  // How often samples are written and new threads are looked for, from 1 ms to
  // 1 s. In a program whose threads stay the same, up to 4 times as long; where
  // they have for 100 periods (5 s), up to 20 times, but no more than a second.
  std::chrono::milliseconds scan_period{50};
};

// attempted == samples + lost() once stopped.
struct CpuProfilerStats {
  uint64_t attempted = 0;        // signals that asked for a sample
  uint64_t samples = 0;          // recorded, and handed to the trace by Stop
  uint64_t lost_overflow = 0;    // no room: the background thread was too slow
  uint64_t lost_contention = 0;  // another thread's sample was being taken
  uint64_t lost_memory = 0;      // recorded, but no memory to look up names
  uint64_t truncated = 0;        // of the samples: with more than 64 frames
  uint64_t threads = 0;          // with a timer now
  // Threads that are known to have had none: that traced but ended before they
  // were found, that block SIGPROF, or for which the kernel had no timer.
  uint64_t unsampled_threads = 0;
  // The kernel had no timers: one for the whole process is used, which samples
  // whatever thread it hits.
  bool process_timer = false;

  uint64_t lost() const {
    return lost_overflow + lost_contention + lost_memory;
  }
};

class TRACERING_EXPORT CpuProfiler {
 public:
  // Samples all threads, also those that are born later, until Stop. The
  // producer may go first; samples go nowhere after that. INVALID_ARGUMENT
  // names the value and its range; FAILED_PRECONDITION: a profiler runs in this
  // process, or the program has a handler for SIGPROF, which is left alone;
  // RESOURCE_EXHAUSTED: no memory, or no thread.
  static absl::StatusOr<std::unique_ptr<CpuProfiler>> Start(
      Producer& producer, const CpuProfilerOptions& options);

  CpuProfiler(const CpuProfiler&) = delete;
  CpuProfiler& operator=(const CpuProfiler&) = delete;
  // Stops. In a forked child, where nothing is sampled: no effect.
  ~CpuProfiler();

  // Ends sampling, restores what SIGPROF did before, and writes what was
  // recorded. A signal that is still pending is discarded. Again, and in a
  // forked child: no effect. Not in signal handlers, nor in callbacks of
  // dl_iterate_phdr, whose lock the background thread may be waiting for.
  void Stop();

  // Any thread. All zero in a forked child.
  CpuProfilerStats stats() const;

 private:
  class Impl;
  explicit CpuProfiler(std::unique_ptr<Impl> impl);
  static absl::StatusOr<std::unique_ptr<CpuProfiler>> TryStart(
      Producer& producer, const CpuProfilerOptions& options);

  std::unique_ptr<Impl> impl_;
};

// Marks the samples of the calling thread while it exists; the innermost label
// counts. Costs a hash of the text; locks and allocates only for a text that
// was never seen before, and the first time on a thread. Texts are kept for
// ever: at most 4096, of which 255 bytes are used. A label beyond that leaves
// the outer one in place, and is counted. Works with and without a profiler.
class TRACERING_EXPORT ScopedProfileLabel {
 public:
  explicit ScopedProfileLabel(std::string_view text);
  ~ScopedProfileLabel();
  ScopedProfileLabel(const ScopedProfileLabel&) = delete;
  ScopedProfileLabel& operator=(const ScopedProfileLabel&) = delete;

  // Labels that found no room, in this process.
  static uint64_t dropped();

 private:
  const void* outer_;
};

}  // namespace tracering

#endif  // TRACERING_CPU_PROFILER_H_
