// SIGPROF: whose it is, and what its handler does with one.
//
// The handler and its state belong to the process and outlive every profiler:
// a signal that comes late finds no sampler and does nothing. Which sampler
// there is, if any, is one atomic word, and handlers that may be using it are
// counted, so that its end can wait for them.
//
// Sampler::Take is async-signal-safe. The rest is for one profiler at a time,
// which holds the claim.
#ifndef TRACERING_SRC_PRODUCER_PROFILE_SIGNAL_H_
#define TRACERING_SRC_PRODUCER_PROFILE_SIGNAL_H_

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "src/producer/stack_walk.h"
#include "tracering/profile_buffer.h"

namespace tracering::internal {

// What a record's header holds. A thread id is never 0, which is what tells a
// sample from a record of dropped ones.
struct SampleHeader {
  static constexpr size_t kWords = 2;
  // Of a record before its stack: size, time, and this.
  static constexpr size_t kRecordWords = 2 + kWords;
  static constexpr uint64_t kTruncated = uint64_t{1} << 32;

  uint32_t thread_id = 0;
  bool truncated = false;
  uint32_t overruns = 0;  // expiries of the timer that this one stands for
  uint32_t cpu = 0;

  void Encode(uint64_t (&words)[kWords]) const {
    words[0] = thread_id | (truncated ? kTruncated : 0);
    words[1] = overruns | uint64_t{cpu} << 32;
  }
  static SampleHeader Decode(const uint64_t* words) {
    SampleHeader header;
    header.thread_id = static_cast<uint32_t>(words[0]);
    header.truncated = (words[0] & kTruncated) != 0;
    header.overruns = static_cast<uint32_t>(words[1]);
    header.cpu = static_cast<uint32_t>(words[1] >> 32);
    return header;
  }
};

// Turns signals of all threads into records, one at a time.
class Sampler {
 public:
  Sampler(ProfileBuffer* buffer, pid_t pid) : buffer_(*buffer), walker_(pid) {}

  void Take(const siginfo_t& info, const void* context) noexcept;

  uint64_t attempted() const { return Load(attempted_); }
  uint64_t samples() const { return Load(samples_); }
  uint64_t overflows() const { return Load(overflows_); }
  uint64_t contentions() const { return Load(contentions_); }
  uint64_t truncated() const { return Load(truncated_); }

 private:
  using Counter = std::atomic<uint64_t>;
  static uint64_t Load(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  }
  static void Increment(Counter* counter) {
    counter->fetch_add(1, std::memory_order_relaxed);
  }
  void TakeAlone(const siginfo_t& info, const void* context) noexcept;

  ProfileBuffer& buffer_;
  std::atomic<bool> busy_{false};
  // Of whoever has made busy_ true.
  StackWalker walker_;
  StackTrace trace_;
  // Any handler.
  Counter attempted_{0};
  Counter samples_{0};
  Counter overflows_{0};
  Counter contentions_{0};
  Counter truncated_{0};
};

class ProfileSignal {
 public:
  // One profiler in a process. A forked child starts unclaimed.
  static bool TryClaim();
  static void ReleaseClaim();

  // FAILED_PRECONDITION if the program has a handler of its own.
  static absl::Status Install();
  // Discards what is pending, and restores what was there before Install.
  // Timers are gone by now. Leaves a handler alone that is not ours.
  static void Uninstall();

  static void SetSampler(Sampler* sampler);
  // No handler finds the sampler any more; waits for those that have. False:
  // one has not come back within a second (a handler of the program on top of
  // it did not return), so that the sampler must stay where it is.
  static bool ClearSampler();
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PROFILE_SIGNAL_H_
