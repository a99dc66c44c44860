// A timer on the CPU clock of each thread, which sends it SIGPROF.
//
// Threads are found by looking at /proc/self/task again and again. Where the
// kernel has no timers to give (they count against RLIMIT_SIGPENDING) one
// ITIMER_PROF for the whole process takes their place. NoteThread is lock-free
// and may be called on any thread at any time; the rest locks.
#ifndef TRACERING_SRC_PRODUCER_SAMPLING_THREADS_H_
#define TRACERING_SRC_PRODUCER_SAMPLING_THREADS_H_

#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "src/common/os/guarded_fd.h"

namespace tracering::internal {

class SamplingThreads {
 public:
  struct Counts {
    uint64_t threads = 0;
    uint64_t unsampled = 0;
    bool process_timer = false;
  };

  explicit SamplingThreads(uint32_t frequency_hz);
  // After Stop.
  ~SamplingThreads() = default;
  SamplingThreads(const SamplingThreads&) = delete;
  SamplingThreads& operator=(const SamplingThreads&) = delete;

  // The calling thread is to have no timer. Before Start, or soon after.
  void ExcludeThisThread();
  // Starts the timers of all threads that there are.
  absl::Status Start();
  // Looks for threads that were born and that have ended, and says whether
  // there were any. Not before Start has returned, and without effect after
  // Stop.
  bool Scan();
  // Deletes all timers. Signals may be pending still; no new one comes.
  void Stop();
  Counts counts() const;

  // The calling thread traces for the first time: where it ends before a scan
  // finds it, it is known that there was one.
  static void NoteThread();

 private:
  struct Timer {
    timer_t id;
    uint64_t last_scan;
  };
  struct Refusal {
    uint64_t last_scan;
    int64_t next_try_ns;  // when a scan asks again
    int64_t pause_ns;     // until then
  };

  // With mutex_ held.
  bool ListThreads();
  bool ScanLocked();
  void AddThread(pid_t tid);
  void Refuse(pid_t tid);
  bool CountNewcomers();
  absl::Status StartProcessTimer();
  void StopProcessTimer() const;
  itimerval ProcessTimer() const;
  timespec RandomPhase();

  const uint64_t period_ns_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  os::GuardedFd task_;  // the directory
  std::unordered_map<pid_t, Timer> timers_;
  std::vector<pid_t> listed_;
  // Threads that have no timer, for one reason or another.
  std::unordered_map<pid_t, Refusal> refused_;
  pid_t excluded_ = 0;
  bool running_ = false;
  bool process_timer_ = false;
  uint64_t scan_ = 0;
  bool changed_ = false;  // by this scan
  uint64_t unsampled_ = 0;
  uint64_t newcomers_seen_ = 0;
  uint64_t random_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_SAMPLING_THREADS_H_
