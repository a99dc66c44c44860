// The profiler put together: signals into the profile buffer, a background
// thread that looks for threads and writes samples, and the order in which all
// that ends. In a forked child nothing here locks or joins.
#include "tracering/cpu_profiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "src/common/os/background_thread.h"
#include "src/common/os/no_cancellation.h"
#include "src/producer/containment.h"
#include "src/producer/fork_guard.h"
#include "src/producer/producer_options.h"
#include "src/producer/profile_drain.h"
#include "src/producer/profile_signal.h"
#include "src/producer/sampling_threads.h"
#include "src/producer/scan_schedule.h"
#include "src/producer/stack_bounds.h"
#include "tracering/clock.h"
#include "tracering/profile_buffer.h"
#include "tracering/trace_writer.h"

namespace tracering {

using internal::ForkGuard;
using internal::ProfileDrain;
using internal::ProfileSignal;
using internal::SampleHeader;
using internal::Sampler;
using internal::SamplingThreads;
using internal::ScanSchedule;

namespace {

constexpr uint32_t kMaxFrequencyHz = 10'000;
constexpr std::chrono::milliseconds kMaxScanPeriod{1000};
// This part of the profile buffer is much to be written at once.
constexpr size_t kMuch = 16;
constexpr size_t kMaxRecordWords =
    SampleHeader::kRecordWords + internal::kMaxStackFrames;

absl::Status CheckOptions(const CpuProfilerOptions& options) {
  if (options.frequency_hz < 1 || options.frequency_hz > kMaxFrequencyHz) {
    return absl::InvalidArgumentError(
        fmt::format("frequency_hz is {}; it must be from 1 to {}",
                    options.frequency_hz, kMaxFrequencyHz));
  }
  if (options.scan_period < std::chrono::milliseconds(1) ||
      options.scan_period > kMaxScanPeriod) {
    return absl::InvalidArgumentError(
        fmt::format("scan_period is {} ms; it must be from 1 to {}",
                    options.scan_period.count(), kMaxScanPeriod.count()));
  }
  return internal::CheckBufferName(options.buffer);
}

absl::Status NoMemory() {
  // A text would have to be allocated.
  return {absl::StatusCode::kResourceExhausted, ""};
}

}  // namespace

class [[gnu::visibility("hidden")]] CpuProfiler::Impl {
 public:
  Impl(const CpuProfilerOptions& options, std::unique_ptr<ProfileBuffer> buffer,
       OwnedTraceWriter writer)
      : much_words_(options.data_words / kMuch),
        fork_generation_(ForkGuard::Generation()),
        buffer_(std::move(buffer)),
        writer_(std::move(writer)),
        threads_(options.frequency_hz),
        sampler_(std::make_unique<Sampler>(buffer_.get(), getpid())),
        drain_(writer_.get(), getpid()),
        schedule_(
            options.scan_period, options.frequency_hz,
            std::min(options.data_words / kMaxRecordWords, options.tags) / 2) {}

  ~Impl() {
    if (!in_use_) return;
    internal::Abandon(sampler_.release());
    internal::Abandon(buffer_.release());
  }

  bool InForkedChild() const {
    return ForkGuard::Generation() != fork_generation_;
  }

  // With the claim, which Stop gives back.
  absl::Status Start();
  void Stop();
  CpuProfilerStats stats() const;

 private:
  void Run();
  // How many words there were.
  size_t WriteRecords();
  void WriteContention();
  // How many threads there are to be sampled at once.
  uint64_t Busiest() const;

  const size_t much_words_;
  const uint32_t fork_generation_;

  std::unique_ptr<ProfileBuffer> buffer_;
  OwnedTraceWriter writer_;
  SamplingThreads threads_;
  std::unique_ptr<Sampler> sampler_;

  // Of the background thread.
  ProfileDrain drain_;
  ScanSchedule schedule_;
  uint64_t contentions_written_ = 0;

  std::mutex stop_mutex_;  // one Stop at a time
  // Guarded by stop_mutex_.
  bool stopped_ = false;
  // A handler that never came back has buffer_ and sampler_.
  bool in_use_ = false;

  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;  // guarded by mutex_
  os::BackgroundThread thread_;
};

absl::Status CpuProfiler::Impl::Start() {
  absl::StatusOr<os::BackgroundThread> thread =
      os::BackgroundThread::Start("tracering-prof", [this] { Run(); });
  absl::Status status = thread.status();
  if (status.ok()) {
    thread_ = *std::move(thread);
    status = ProfileSignal::Install();
  }
  if (status.ok()) {
    ProfileSignal::SetSampler(sampler_.get());
    status = internal::Contain([this] { return threads_.Start(); }, NoMemory);
  }
  if (!status.ok()) Stop();
  return status;
}

void CpuProfiler::Impl::Stop() {
  const std::lock_guard<std::mutex> lock(stop_mutex_);
  if (std::exchange(stopped_, true)) return;
  // No timer, so that no new signal comes; no sampler, so that one that is
  // pending does nothing; and only then the end of what is pending.
  threads_.Stop();
  in_use_ = !ProfileSignal::ClearSampler();
  ProfileSignal::Uninstall();
  buffer_->Close();
  {
    const std::lock_guard<std::mutex> ending_lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.Join();
  writer_ = nullptr;
  ProfileSignal::ReleaseClaim();
}

// Not woken by each sample: that would cost more than the sample. Nor do
// handlers look for threads on its behalf: a system call may wait for what the
// signal interrupts, or be one that a sandbox forbids.
void CpuProfiler::Impl::Run() {
  threads_.ExcludeThisThread();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_changed_.wait_for(lock, schedule_.next(),
                                   [this] { return ending_; })) {
    lock.unlock();
    // Threads that are not found for lack of memory are looked for again.
    const bool changed = internal::Contain([this] { return threads_.Scan(); },
                                           [] { return true; });
    const size_t words = WriteRecords();
    WriteContention();
    if (changed || words >= much_words_) {
      schedule_.OnChange();
    } else {
      schedule_.OnCalm(Busiest());
    }
    lock.lock();
  }
  lock.unlock();
  WriteRecords();
  WriteContention();
}

uint64_t CpuProfiler::Impl::Busiest() const {
  const uint64_t cpus = std::thread::hardware_concurrency();
  const SamplingThreads::Counts counts = threads_.counts();
  return counts.process_timer ? cpus : std::min(counts.threads, cpus);
}

size_t CpuProfiler::Impl::WriteRecords() {
  for (size_t words = 0;;) {
    const ProfileRecords records = buffer_->Read(ProfileReadMode::kNonBlocking);
    if (records.outcome != ProfileReadOutcome::kRecords) return words;
    drain_.Write(records);
    words += records.data_words;
  }
}

void CpuProfiler::Impl::WriteContention() {
  const uint64_t contentions = sampler_->contentions();
  if (contentions == contentions_written_) return;
  drain_.WriteLoss(NowNs(), contentions - contentions_written_);
  contentions_written_ = contentions;
}

CpuProfilerStats CpuProfiler::Impl::stats() const {
  CpuProfilerStats stats;
  stats.lost_memory = drain_.lost_memory();
  stats.samples = sampler_->samples();
  // A record may be drained before its handler has counted it.
  stats.samples -= std::min(stats.lost_memory, stats.samples);
  stats.lost_overflow = sampler_->overflows();
  stats.lost_contention = sampler_->contentions();
  stats.truncated = sampler_->truncated();
  stats.attempted = sampler_->attempted();
  const SamplingThreads::Counts counts = threads_.counts();
  stats.threads = counts.threads;
  stats.unsampled_threads = counts.unsampled;
  stats.process_timer = counts.process_timer;
  return stats;
}

absl::StatusOr<std::unique_ptr<CpuProfiler>> CpuProfiler::Start(
    Producer& producer, const CpuProfilerOptions& options) {
  using Result = absl::StatusOr<std::unique_ptr<CpuProfiler>>;
  const os::NoCancellation no_cancellation;
  return internal::Contain([&] { return TryStart(producer, options); },
                           []() -> Result { return NoMemory(); });
}

absl::StatusOr<std::unique_ptr<CpuProfiler>> CpuProfiler::TryStart(
    Producer& producer, const CpuProfilerOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  ProfileBufferOptions buffer_options;
  buffer_options.header_words = SampleHeader::kWords;
  buffer_options.data_words = options.data_words;
  buffer_options.tags = options.tags;
  absl::StatusOr<std::unique_ptr<ProfileBuffer>> buffer =
      ProfileBuffer::Create(buffer_options);
  if (!buffer.ok()) return buffer.status();
  if (!ProfileSignal::TryClaim()) {
    return absl::FailedPreconditionError(
        "a CPU profiler is running in this process; there can be only one");
  }
  internal::Rollback unclaim([] { ProfileSignal::ReleaseClaim(); });
  auto impl = std::make_unique<Impl>(options, *std::move(buffer),
                                     producer.CreateWriter(options.buffer));
  std::unique_ptr<CpuProfiler> profiler(new CpuProfiler(std::move(impl)));
  unclaim.Commit();
  internal::NoteStackBounds();
  if (absl::Status status = profiler->impl_->Start(); !status.ok()) {
    return status;
  }
  return profiler;
}

CpuProfiler::CpuProfiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CpuProfiler::~CpuProfiler() {
  const os::NoCancellation no_cancellation;
  if (impl_->InForkedChild()) {
    // Its thread is not there to be joined, its locks may be held.
    internal::Abandon(impl_.release());
    return;
  }
  impl_->Stop();
  impl_ = nullptr;
}

void CpuProfiler::Stop() {
  const os::NoCancellation no_cancellation;
  if (!impl_->InForkedChild()) impl_->Stop();
}

CpuProfilerStats CpuProfiler::stats() const {
  if (impl_->InForkedChild()) return {};
  return impl_->stats();
}

}  // namespace tracering
