// Timers and scans; see sampling_threads.h.
#include "src/producer/sampling_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "src/common/os/clock.h"
#include "src/common/os/process.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace tracering::internal {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr char kTaskDirectory[] = "/proc/self/task";

// Threads that traced for the first time, in a ring; a scan looks at them.
// Constant-initialised, as threads may come at any time. 0: none yet.
constexpr uint64_t kNewcomers = 1024;
std::array<std::atomic<pid_t>, kNewcomers> newcomers{};
std::atomic<uint64_t> num_newcomers{0};
std::atomic<bool> wants_newcomers{false};

// The kernel's name for what a thread has used of the CPU, as
// pthread_getcpuclockid makes it.
clockid_t CpuClockOf(pid_t tid) {
  constexpr unsigned kPerThread = 4;
  constexpr unsigned kScheduler = 2;
  return static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) |
                                kPerThread | kScheduler);
}

timespec FromNs(uint64_t ns) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(ns / kSecondNs);
  time.tv_nsec = static_cast<long>(ns % kSecondNs);
  return time;
}

// A thread that blocks the signal may be waiting for any (sigwait), and would
// get ours. Unknown is as good as not.
bool BlocksSigprof(pid_t tid) {
  const os::GuardedFd file(os::UniqueFd(
      open(fmt::format("{}/{}/status", kTaskDirectory, tid).c_str(),
           O_RDONLY | O_CLOEXEC)));
  std::array<char, 4096> text{};
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) {
    return false;
  }
  const char* const blocked = std::strstr(text.data(), "\nSigBlk:");
  if (blocked == nullptr) return false;
  const uint64_t mask =
      std::strtoull(blocked + std::strlen("\nSigBlk:"), nullptr, 16);
  return (mask >> (SIGPROF - 1) & 1) != 0;
}

// The timer of a thread that has ended tells no time. The id may be in use
// again by another thread.
bool ThreadHasEnded(timer_t timer) {
  itimerspec left{};
  return timer_gettime(timer, &left) != 0 ||
         (left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
}

}  // namespace

SamplingThreads::SamplingThreads(uint32_t frequency_hz)
    : period_ns_(kSecondNs / frequency_hz),
      random_(static_cast<uint64_t>(os::MonotonicNs()) | 1) {}

void SamplingThreads::ExcludeThisThread() {
  const std::lock_guard<std::mutex> lock(mutex_);
  excluded_ = os::CurrentThreadId();
  const auto found = timers_.find(excluded_);
  if (found == timers_.end()) return;
  timer_delete(found->second.id);
  timers_.erase(found);
}

absl::Status SamplingThreads::Start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  newcomers_seen_ = num_newcomers.load(std::memory_order_relaxed);
  wants_newcomers.store(true, std::memory_order_relaxed);
  running_ = true;
  // Threads of a process whose /proc cannot be read are as good as refused.
  if (ScanLocked() && !timers_.empty()) return absl::OkStatus();
  refused_.clear();
  unsampled_ = 0;
  absl::Status status = StartProcessTimer();
  if (!status.ok()) {
    running_ = false;
    wants_newcomers.store(false, std::memory_order_relaxed);
  }
  return status;
}

bool SamplingThreads::Scan() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!running_ || process_timer_ || !ScanLocked()) return false;
  const bool some_traced = CountNewcomers();
  return changed_ || some_traced;
}

void SamplingThreads::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!running_) return;
  running_ = false;
  wants_newcomers.store(false, std::memory_order_relaxed);
  for (const auto& [tid, timer] : timers_) timer_delete(timer.id);
  timers_.clear();
  refused_.clear();
  task_.reset();
  if (process_timer_) StopProcessTimer();
}

SamplingThreads::Counts SamplingThreads::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {timers_.size(), unsampled_, process_timer_};
}

void SamplingThreads::NoteThread() {
  if (!wants_newcomers.load(std::memory_order_relaxed)) return;
  const uint64_t index =
      num_newcomers.fetch_add(1, std::memory_order_relaxed) % kNewcomers;
  newcomers[index].store(os::CurrentThreadId(), std::memory_order_relaxed);
}

// Not by opendir, which cannot tell whether the descriptor is still its own.
// False: not all that there are.
bool SamplingThreads::ListThreads() {
  listed_.clear();
  // To open it takes longer than to read it.
  if (!task_.IsOurs()) {
    task_ = os::GuardedFd(
        os::UniqueFd(open(kTaskDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }
  if (lseek(task_.get(), 0, SEEK_SET) != 0) return false;
  alignas(dirent64) std::array<char, 4096> block;
  for (;;) {
    const long size =
        syscall(SYS_getdents64, task_.get(), block.data(), block.size());
    if (size <= 0) return size == 0 && !listed_.empty();
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<dirent64*>(block.data() + at);
      const auto tid =
          static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
      if (tid > 0) listed_.push_back(tid);
      at += entry->d_reclen;
    }
  }
}

bool SamplingThreads::ScanLocked() {
  if (!ListThreads()) return false;
  ++scan_;
  changed_ = false;
  for (const pid_t tid : listed_) {
    if (tid != excluded_) AddThread(tid);
  }
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    if (timer->second.last_scan == scan_) {
      ++timer;
      continue;
    }
    timer_delete(timer->second.id);
    timer = timers_.erase(timer);
    changed_ = true;
  }
  for (auto thread = refused_.begin(); thread != refused_.end();) {
    thread = thread->second.last_scan == scan_ ? std::next(thread)
                                               : refused_.erase(thread);
  }
  return true;
}

void SamplingThreads::AddThread(pid_t tid) {
  const auto known = timers_.find(tid);
  if (known != timers_.end()) {
    if (!ThreadHasEnded(known->second.id)) {
      known->second.last_scan = scan_;
      return;
    }
    timer_delete(known->second.id);
    timers_.erase(known);
  }
  const auto refused = refused_.find(tid);
  if (refused != refused_.end() &&
      os::MonotonicNs() < refused->second.next_try_ns) {
    refused->second.last_scan = scan_;
    return;
  }
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = tid;
  // So that the handler need not ask the kernel who it is.
  event.sigev_value.sival_int = tid;
  itimerspec times{};
  times.it_interval = FromNs(period_ns_);
  times.it_value = RandomPhase();
  if (BlocksSigprof(tid)) return Refuse(tid);
  // Its place first: a timer that there is no memory for would run for ever.
  const auto timer = timers_.emplace(tid, Timer{nullptr, scan_}).first;
  if (timer_create(CpuClockOf(tid), &event, &timer->second.id) == 0) {
    if (timer_settime(timer->second.id, 0, &times, nullptr) == 0) {
      refused_.erase(tid);
      changed_ = true;
      return;
    }
    timer_delete(timer->second.id);
  }
  timers_.erase(timer);
  Refuse(tid);
}

// It has ended meanwhile, blocks the signal, or the kernel has no timer; a
// later scan asks again, ever less often, as some threads block it for good.
// Counted once.
void SamplingThreads::Refuse(pid_t tid) {
  constexpr int64_t kMinPauseNs = 50'000'000;
  constexpr int64_t kMaxPauseNs = 64 * kMinPauseNs;
  const auto [refused, is_new] = refused_.emplace(tid, Refusal{0, 0, 0});
  if (is_new) ++unsampled_;
  Refusal& refusal = refused->second;
  refusal.pause_ns = std::clamp(2 * refusal.pause_ns, kMinPauseNs, kMaxPauseNs);
  refusal.last_scan = scan_;
  refusal.next_try_ns = os::MonotonicNs() + refusal.pause_ns;
}

// Whether there were any.
bool SamplingThreads::CountNewcomers() {
  const uint64_t end = num_newcomers.load(std::memory_order_relaxed);
  if (newcomers_seen_ == end) return false;
  // More than the ring holds: who they were is not known, nor counted.
  if (end - newcomers_seen_ > kNewcomers) newcomers_seen_ = end - kNewcomers;
  for (; newcomers_seen_ != end; ++newcomers_seen_) {
    // 0: the thread has its place, and writes right now; it lives.
    const pid_t tid = newcomers[newcomers_seen_ % kNewcomers].exchange(
        0, std::memory_order_relaxed);
    if (tid == 0 || tid == excluded_) continue;
    if (timers_.find(tid) == timers_.end() &&
        refused_.find(tid) == refused_.end()) {
      timespec now{};
      // Born after the directory was read, it is for the next scan to find.
      if (clock_gettime(CpuClockOf(tid), &now) != 0) ++unsampled_;
    }
  }
  return true;
}

itimerval SamplingThreads::ProcessTimer() const {
  const uint64_t period_us = std::max<uint64_t>(period_ns_ / 1000, 1);
  itimerval times{};
  times.it_interval.tv_sec = static_cast<time_t>(period_us / 1'000'000);
  times.it_interval.tv_usec = static_cast<suseconds_t>(period_us % 1'000'000);
  times.it_value = times.it_interval;
  return times;
}

// Leaves one alone that the program has put in its place.
void SamplingThreads::StopProcessTimer() const {
  const timeval ours = ProcessTimer().it_interval;
  itimerval present{};
  if (getitimer(ITIMER_PROF, &present) != 0 ||
      present.it_interval.tv_sec != ours.tv_sec ||
      present.it_interval.tv_usec != ours.tv_usec) {
    return;
  }
  const itimerval none{};
  setitimer(ITIMER_PROF, &none, nullptr);
}

absl::Status SamplingThreads::StartProcessTimer() {
  itimerval present{};
  if (getitimer(ITIMER_PROF, &present) == 0 &&
      (present.it_value.tv_sec != 0 || present.it_value.tv_usec != 0)) {
    return absl::FailedPreconditionError(
        "no per-thread CPU timers to be had, and the program uses ITIMER_PROF");
  }
  const itimerval times = ProcessTimer();
  if (setitimer(ITIMER_PROF, &times, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "cannot start a CPU timer");
  }
  process_timer_ = true;
  return absl::OkStatus();
}

// So that threads which started together are not sampled together.
timespec SamplingThreads::RandomPhase() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return FromNs(1 + random_ % period_ns_);
}

}  // namespace tracering::internal
