// The profiler put together: signals into the profile buffer, a background
// thread that looks for threads and writes samples, and the order in which all
// that ends. In a forked child nothing here locks or joins.
#include "tracering/cpu_profiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "src/common/os/background_thread.h"
#include "src/common/os/no_cancellation.h"
#include "src/producer/containment.h"
#include "src/producer/fork_guard.h"
#include "src/producer/producer_options.h"
#include "src/producer/profile_drain.h"
#include "src/producer/profile_signal.h"
#include "src/producer/profile_watch.h"
#include "src/producer/sampling_threads.h"
#include "src/producer/stack_bounds.h"
#include "tracering/clock.h"
#include "tracering/profile_buffer.h"
#include "tracering/trace_writer.h"

namespace tracering {

using internal::ForkGuard;
using internal::ProfileDrain;
using internal::ProfileSignal;
using internal::ProfileWatch;
using internal::SampleHeader;
using internal::Sampler;
using internal::SamplingThreads;

namespace {

constexpr uint32_t kMaxFrequencyHz = 10'000;
constexpr std::chrono::milliseconds kMaxScanPeriod{1000};
// How much later the background thread looks in a program whose threads stay
// the same; and how much later where handlers look that often, but for samples
// that wait to be written.
constexpr int kCalmPeriods = 4;
constexpr int kWatchedPeriods = 20;
constexpr std::chrono::milliseconds kMaxWatchedPeriod{1000};

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
      : scan_period_(options.scan_period),
        fork_generation_(ForkGuard::Generation()),
        buffer_(std::move(buffer)),
        writer_(std::move(writer)),
        threads_(options.frequency_hz),
        // A record takes one tag, and more than 4 words.
        watch_(std::make_unique<ProfileWatch>(
            CalmPeriod(), std::min(options.data_words / 4, options.tags))),
        sampler_(
            std::make_unique<Sampler>(buffer_.get(), watch_.get(), getpid())),
        drain_(writer_.get(), getpid()) {}

  ~Impl() {
    if (!in_use_) return;
    internal::Abandon(sampler_.release());
    internal::Abandon(watch_.release());
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
  std::chrono::milliseconds CalmPeriod() const {
    return kCalmPeriods * scan_period_;
  }
  void WriteRecords();
  void WriteContention();

  const std::chrono::milliseconds scan_period_;
  const uint32_t fork_generation_;

  std::unique_ptr<ProfileBuffer> buffer_;
  OwnedTraceWriter writer_;
  SamplingThreads threads_;
  std::unique_ptr<ProfileWatch> watch_;
  std::unique_ptr<Sampler> sampler_;

  // Of the background thread.
  ProfileDrain drain_;
  uint64_t contentions_written_ = 0;

  std::mutex stop_mutex_;  // one Stop at a time
  // Guarded by stop_mutex_.
  bool stopped_ = false;
  // A handler that never came back has buffer_, watch_ and sampler_.
  bool in_use_ = false;

  std::atomic<bool> ending_{false};
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
  ending_.store(true, std::memory_order_release);
  watch_->Wake();
  thread_.Join();
  writer_ = nullptr;
  ProfileSignal::ReleaseClaim();
}

// Not woken by each sample: that would cost more than the sample. What wake-ups
// cost is most of what there is to save, hence fewer of them while little
// happens, and ever fewer where handlers look for threads.
void CpuProfiler::Impl::Run() {
  threads_.ExcludeThisThread();
  const std::chrono::milliseconds watched_period =
      std::max(std::min(kWatchedPeriods * scan_period_, kMaxWatchedPeriod),
               CalmPeriod());
  std::chrono::milliseconds period = scan_period_;
  uint64_t looks = 0;
  for (;;) {
    watch_->Wait(period);
    if (ending_.load(std::memory_order_acquire)) break;
    // Threads that are not found for lack of memory are looked for again.
    const bool changed = internal::Contain([this] { return threads_.Scan(); },
                                           [] { return true; });
    watch_->ExpectThreads(threads_.num_listed());
    WriteRecords();
    WriteContention();
    const uint64_t before = std::exchange(looks, watch_->looks());
    // Nearly as often as this thread would have.
    const bool watched = 2 * (looks - before) * CalmPeriod() >= period;
    period =
        changed ? scan_period_
                : std::min(2 * period, watched ? watched_period : CalmPeriod());
  }
  WriteRecords();
  WriteContention();
}

void CpuProfiler::Impl::WriteRecords() {
  for (;;) {
    const ProfileRecords records = buffer_->Read(ProfileReadMode::kNonBlocking);
    if (records.outcome != ProfileReadOutcome::kRecords) return;
    drain_.Write(records);
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
