// The handler; see profile_signal.h.
#include "src/producer/profile_signal.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "src/common/os/clock.h"
#include "src/common/os/errno_saver.h"
#include "src/common/os/process.h"
#include "src/producer/profile_labels.h"
#include "src/producer/stack_bounds.h"
#include "tracering/clock.h"

namespace tracering::internal {
namespace {

constexpr int64_t kHandlerDeadlineNs = 1'000'000'000;

// Constant-initialised and trivially destroyed, as late signals need it.
std::atomic<bool> claimed{false};
std::atomic<Sampler*> active{nullptr};
std::atomic<int> handlers{0};
// Of whoever has the claim; survives a fork.
struct sigaction before {};

// seq_cst on both words: either the handler sees that there is no sampler, or
// ClearSampler sees the handler.
void OnSignal(int, siginfo_t* info, void* context) {
  const os::ErrnoSaver saver;
  handlers.fetch_add(1, std::memory_order_seq_cst);
  if (Sampler* sampler = active.load(std::memory_order_seq_cst)) {
    sampler->Take(*info, context);
  }
  handlers.fetch_sub(1, std::memory_order_seq_cst);
}

// Timers do not reach the child, and the handlers of other threads that were
// counted do not exist there.
void OnForkInChild() {
  active.store(nullptr, std::memory_order_relaxed);
  handlers.store(0, std::memory_order_relaxed);
  claimed.store(false, std::memory_order_relaxed);
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnSignal;
}

bool IsPrograms(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

}  // namespace

void Sampler::Take(const siginfo_t& info, const void* context) noexcept {
  Increment(&attempted_);
  // Waiting for a thread that may be stopped or preempted is not an option. A
  // handler cannot interrupt itself: the signal is blocked while it runs.
  if (busy_.exchange(true, std::memory_order_acquire)) {
    Increment(&contentions_);
    return;
  }
  TakeAlone(info, context);
  busy_.store(false, std::memory_order_release);
}

void Sampler::TakeAlone(const siginfo_t& info, const void* context) noexcept {
  const uint64_t time = NowNs();
  walker_.Walk(RegistersOf(context), CurrentStackBounds(), &trace_);
  SampleHeader header;
  header.truncated = trace_.truncated;
  pid_t thread = 0;
  if (info.si_code == SI_TIMER) {
    header.overruns = static_cast<uint32_t>(std::max(info.si_overrun, 0));
    thread = info.si_value.sival_int;  // as SamplingThreads sets it
  }
  if (thread <= 0) thread = os::CurrentThreadId();
  header.thread_id = static_cast<uint32_t>(thread);
  header.cpu = static_cast<uint32_t>(std::max(sched_getcpu(), 0));
  uint64_t words[SampleHeader::kWords];
  header.Encode(words);
  // The label's address; the background thread looks at its text.
  const auto tag = reinterpret_cast<uintptr_t>(ProfileLabels::Current());
  const ProfileWriteOutcome outcome =
      buffer_.Write(tag, time, words, SampleHeader::kWords,
                    trace_.frames.data(), trace_.size);
  if (outcome != ProfileWriteOutcome::kWritten) {
    Increment(&overflows_);
    return;
  }
  Increment(&samples_);
  if (trace_.truncated) Increment(&truncated_);
}

bool ProfileSignal::TryClaim() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, OnForkInChild); });
  bool expected = false;
  return claimed.compare_exchange_strong(
      expected, true, std::memory_order_acquire, std::memory_order_relaxed);
}

void ProfileSignal::ReleaseClaim() {
  claimed.store(false, std::memory_order_release);
}

absl::Status ProfileSignal::Install() {
  struct sigaction present {};
  if (sigaction(SIGPROF, nullptr, &present) != 0) {
    return absl::ErrnoToStatus(errno, "cannot look at the SIGPROF handler");
  }
  // Ours is there in a forked child, and `before` came with it.
  if (!IsOurs(present)) {
    if (IsPrograms(present)) {
      return absl::FailedPreconditionError(
          "the program has a SIGPROF handler of its own; the profiler needs "
          "SIGPROF to be at its default or ignored");
    }
    before = present;
  }
  struct sigaction action {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  // All of them, and those of the C library, which sigfillset leaves out: a
  // handler of the program that leaves by longjmp, or a cancellation that
  // unwinds, must not do so through ours.
  std::memset(&action.sa_mask, 0xff, sizeof(action.sa_mask));
  if (sigaction(SIGPROF, &action, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "cannot install a SIGPROF handler");
  }
  return absl::OkStatus();
}

void ProfileSignal::Uninstall() {
  struct sigaction present {};
  if (sigaction(SIGPROF, nullptr, &present) != 0 || !IsOurs(present)) return;
  // The default action ends the process, and a signal may be pending still,
  // for ever in a thread that blocks it. To ignore a signal is to discard it
  // wherever it is pending; no timer is left to send another one.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  if (sigaction(SIGPROF, &ignore, nullptr) != 0) return;
  sigaction(SIGPROF, &before, nullptr);
}

void ProfileSignal::SetSampler(Sampler* sampler) {
  active.store(sampler, std::memory_order_seq_cst);
}

bool ProfileSignal::ClearSampler() {
  active.store(nullptr, std::memory_order_seq_cst);
  const int64_t deadline = os::MonotonicNs() + kHandlerDeadlineNs;
  while (handlers.load(std::memory_order_seq_cst) > 0) {
    if (os::MonotonicNs() >= deadline) return false;
    sched_yield();
  }
  return true;
}

}  // namespace tracering::internal
