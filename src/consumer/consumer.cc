// The public face: puts the parts together and gives each call its locking.
//
// Whatever a method does under the loop mutex is bounded; what writes a file,
// waits or calls back does so without it.
#include "tracering/consumer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "src/common/os/background_thread.h"
#include "src/common/os/epoll.h"
#include "src/common/os/process.h"
#include "src/common/os/unique_fd.h"
#include "src/common/ring/draining_thread.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/consumer_options.h"
#include "src/consumer/control_server.h"
#include "src/consumer/drain_loop.h"
#include "src/consumer/event_log.h"
#include "src/consumer/flush.h"
#include "src/consumer/loop_mutex.h"
#include "src/consumer/ring_scheduler.h"
#include "src/consumer/session_registry.h"
#include "src/consumer/trace_saver.h"

namespace tracering {
namespace {

using internal::LoopMutex;

using Guard = std::lock_guard<LoopMutex>;

// Rounds of events that Stop handles: the queues of honest peers, and no more
// of one that never ends.
constexpr int kStepsAtStop = 16;

}  // namespace

class [[gnu::visibility("hidden")]] Consumer::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Create(ConsumerOptions options);
  ~Impl() { Stop(); }

  absl::Status Start();
  void Stop();
  int poll_fd() const { return epoll_.fd(); }
  void ProcessReady();
  FlushResult Flush(std::chrono::nanoseconds timeout);
  absl::Status SetEnabledCategories(std::vector<std::string> patterns);
  absl::StatusOr<TraceFileInfo> WriteTrace(const std::string& path,
                                           const SaveOptions& options);
  absl::Status StreamTo(const std::string& path, const StreamOptions& options);
  absl::Status stream_status();
  absl::StatusOr<TraceFileInfo> StopStreaming();
  absl::StatusOr<RingHandle> AttachRing(const AttachRingOptions& options);
  absl::Status DetachRing(RingHandle handle);
  ConsumerStats stats();

 private:
  Impl(ConsumerOptions options, os::Epoll epoll,
       std::unique_ptr<internal::BufferSet> buffers);

  absl::Status Init();
  absl::Status AttachLocked(const AttachRingOptions& options,
                            os::UniqueFd event_fd,
                            internal::ProducerSession* session);
  void HandleWhatIsDue();
  void FinishClosing(uint64_t session_id);
  void OnStreamPressure();
  internal::TraceSource Source();

  const ConsumerOptions options_;
  internal::EventLog log_;
  mutable LoopMutex mutex_;
  os::Epoll epoll_;

  // Guarded by mutex_.
  const std::unique_ptr<internal::BufferSet> buffers_;
  internal::RingScheduler scheduler_;
  internal::SessionRegistry registry_;
  std::unique_ptr<internal::ControlServer> server_;  // null without a socket
  internal::FlushCounts flushes_;

  std::unique_ptr<internal::DrainLoop> loop_;
  internal::DrainingSeat seat_;
  // One driver at a time: the own thread, or a caller of ProcessReady.
  std::atomic<bool> driven_{false};

  // Starting and stopping, of the thread and of streams.
  std::mutex life_mutex_;
  os::BackgroundThread thread_;
  bool started_ = false;
  std::atomic<bool> stopping_{false};

  // Guards the pointer only, so that a wake-up never waits for a disk.
  std::mutex stream_mutex_;
  std::unique_ptr<internal::TraceStream> stream_;
};

absl::StatusOr<std::unique_ptr<Consumer::Impl>> Consumer::Impl::Create(
    ConsumerOptions options) {
  if (absl::Status status = internal::CheckOptions(options); !status.ok()) {
    return status;
  }
  absl::StatusOr<os::Epoll> epoll = os::Epoll::Create();
  if (!epoll.ok()) return epoll.status();
  absl::StatusOr<std::unique_ptr<internal::BufferSet>> buffers =
      internal::BufferSet::Create(options.buffers,
                                  options.limits.metadata_buffer_size);
  if (!buffers.ok()) return buffers.status();
  std::unique_ptr<Impl> impl(
      new Impl(std::move(options), *std::move(epoll), *std::move(buffers)));
  if (absl::Status status = impl->Init(); !status.ok()) return status;
  return impl;
}

Consumer::Impl::Impl(ConsumerOptions options, os::Epoll epoll,
                     std::unique_ptr<internal::BufferSet> buffers)
    : options_(std::move(options)),
      log_(options_.log, options_.on_trigger),
      epoll_(std::move(epoll)),
      buffers_(std::move(buffers)),
      registry_(options_.limits, options_.wakeup_threshold, buffers_.get(),
                &scheduler_, &epoll_, &log_) {}

absl::Status Consumer::Impl::Init() {
  if (!options_.socket_path.empty()) {
    absl::StatusOr<std::unique_ptr<internal::ControlServer>> server =
        internal::ControlServer::Create(
            options_.socket_path, options_.allowed_uids,
            options_.enabled_categories, &registry_, &epoll_, &log_);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
  }
  internal::DrainLoop::Parts parts;
  parts.mutex = &mutex_;
  parts.epoll = &epoll_;
  parts.buffers = buffers_.get();
  parts.scheduler = &scheduler_;
  parts.registry = &registry_;
  parts.server = server_.get();
  parts.log = &log_;
  parts.on_stream_pressure = [this] { OnStreamPressure(); };
  absl::StatusOr<std::unique_ptr<internal::DrainLoop>> loop =
      internal::DrainLoop::Create(parts, options_.drain_period);
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  return absl::OkStatus();
}

absl::Status Consumer::Impl::Start() {
  std::lock_guard<std::mutex> life(life_mutex_);
  if (stopping_ || driven_.exchange(true)) {
    return absl::FailedPreconditionError(
        "a consumer can be started once, and not while another thread is in "
        "ProcessReady");
  }
  absl::StatusOr<os::BackgroundThread> thread =
      os::BackgroundThread::Start("tracering-drain", [this] {
        seat_.Take();
        while (!stopping_) loop_->Step(/*may_block=*/true);
        seat_.Leave();
      });
  if (!thread.ok()) {
    driven_ = false;
    return thread.status();
  }
  thread_ = *std::move(thread);
  started_ = true;
  return absl::OkStatus();
}

void Consumer::Impl::Stop() {
  // Without a loop, Init has failed and nothing ever ran.
  if (stopping_.exchange(true) || loop_ == nullptr) return;
  os::BackgroundThread thread;
  {
    // Not held while joining: a callback on that thread may want it.
    std::lock_guard<std::mutex> life(life_mutex_);
    thread = std::move(thread_);
  }
  loop_->WakeUp();
  thread.Join();
  HandleWhatIsDue();
  std::vector<uint64_t> closing;
  {
    Guard guard(mutex_);
    if (server_ != nullptr) server_->StopListening();
    for (const auto& [id, session] : registry_.sessions()) {
      closing.push_back(id);
    }
  }
  for (const uint64_t id : closing) {
    {
      Guard guard(mutex_);
      internal::ProducerSession* session = registry_.Find(id);
      if (session != nullptr) registry_.BeginClose(session, "was let go");
    }
    FinishClosing(id);
  }
  {
    Guard guard(mutex_);
    loop_->OnSessionsChanged();
  }
  log_.Dispatch();
}

// Producers that came, or went, just before: their last word counts.
void Consumer::Impl::HandleWhatIsDue() {
  // With an own thread this is ours since the thread has ended.
  if (driven_.exchange(true) && !started_) return;
  for (int i = 0; i < kStepsAtStop; ++i) loop_->Step(/*may_block=*/false);
  driven_ = false;
}

void Consumer::Impl::FinishClosing(uint64_t session_id) {
  for (;;) {
    Guard guard(mutex_);
    if (!registry_.RunClosingSlice(session_id)) return;
  }
}

void Consumer::Impl::ProcessReady() {
  if (stopping_ || driven_.exchange(true)) return;
  seat_.Take();
  loop_->Step(/*may_block=*/false);
  driven_ = false;
}

FlushResult Consumer::Impl::Flush(std::chrono::nanoseconds timeout) {
  FlushResult result = internal::FlushAll(timeout, &mutex_, &registry_);
  {
    Guard guard(mutex_);
    using FinalFlush = internal::TraceStatsValues::FinalFlush;
    ++flushes_.requested;
    ++(result.complete ? flushes_.succeeded : flushes_.failed);
    flushes_.last =
        result.complete ? FinalFlush::kSucceeded : FinalFlush::kFailed;
    if (server_ != nullptr && server_->has_early_messages()) loop_->WakeUp();
  }
  log_.Dispatch();
  return result;
}

absl::Status Consumer::Impl::SetEnabledCategories(
    std::vector<std::string> patterns) {
  if (absl::Status status = internal::CheckCategories(patterns); !status.ok()) {
    return status;
  }
  Guard guard(mutex_);
  if (server_ != nullptr) server_->SetEnabledCategories(std::move(patterns));
  return absl::OkStatus();
}

internal::TraceSource Consumer::Impl::Source() {
  internal::TraceSource source;
  source.mutex = &mutex_;
  source.buffers = buffers_.get();
  source.registry = &registry_;
  source.flushes = &flushes_;
  source.file_options.service_uid = static_cast<int32_t>(geteuid());
  source.file_options.service_pid = static_cast<int32_t>(getpid());
  source.file_options.rewriter.max_depth =
      static_cast<uint32_t>(options_.limits.nesting_depth);
  return source;
}

absl::StatusOr<TraceFileInfo> Consumer::Impl::WriteTrace(
    const std::string& path, const SaveOptions& options) {
  if (absl::Status status = internal::CheckOptions(options); !status.ok()) {
    return status;
  }
  internal::TraceSource source = Source();
  source.file_options.compress = options.compress;
  return internal::WriteSnapshot(source, path);
}

absl::Status Consumer::Impl::StreamTo(const std::string& path,
                                      const StreamOptions& options) {
  if (absl::Status status = internal::CheckOptions(options); !status.ok()) {
    return status;
  }
  std::lock_guard<std::mutex> life(life_mutex_);
  if (stream_ != nullptr) {
    return absl::FailedPreconditionError("a stream is being written already");
  }
  internal::TraceSource source = Source();
  source.file_options.compress = options.compress;
  source.file_options.max_file_bytes = options.max_file_bytes;
  absl::StatusOr<std::unique_ptr<internal::TraceStream>> stream =
      internal::TraceStream::Start(source, path, options.period,
                                   options.max_files);
  if (!stream.ok()) return stream.status();
  std::lock_guard<std::mutex> guard(stream_mutex_);
  stream_ = *std::move(stream);
  return absl::OkStatus();
}

absl::Status Consumer::Impl::stream_status() {
  std::lock_guard<std::mutex> guard(stream_mutex_);
  return stream_ != nullptr
             ? stream_->status()
             : absl::FailedPreconditionError("no stream is being written");
}

absl::StatusOr<TraceFileInfo> Consumer::Impl::StopStreaming() {
  std::lock_guard<std::mutex> life(life_mutex_);
  std::unique_ptr<internal::TraceStream> stream;
  {
    std::lock_guard<std::mutex> guard(stream_mutex_);
    stream = std::move(stream_);
  }
  if (stream == nullptr) {
    return absl::FailedPreconditionError("no stream is being written");
  }
  return stream->Finish();
}

void Consumer::Impl::OnStreamPressure() {
  std::lock_guard<std::mutex> guard(stream_mutex_);
  if (stream_ != nullptr) stream_->WakeUp();
}

absl::StatusOr<RingHandle> Consumer::Impl::AttachRing(
    const AttachRingOptions& options) {
  os::UniqueFd event_fd;
  if (options.event_fd >= 0) {
    event_fd.reset(fcntl(options.event_fd, F_DUPFD_CLOEXEC, 0));
    if (!event_fd.valid()) {
      return absl::ErrnoToStatus(
          errno, fmt::format("cannot duplicate event_fd {}", options.event_fd));
    }
  }
  RingHandle handle;
  {
    Guard guard(mutex_);
    if (stopping_) {
      return absl::FailedPreconditionError("the consumer was stopped");
    }
    absl::StatusOr<internal::ProducerSession*> session = registry_.Open();
    if (!session.ok()) return session.status();
    if (absl::Status status =
            AttachLocked(options, std::move(event_fd), *session);
        !status.ok()) {
      registry_.Abandon(*session);
      return status;
    }
    handle.id = (*session)->id;
    loop_->OnSessionsChanged();
  }
  loop_->WakeUp();
  log_.Dispatch();
  return handle;
}

absl::Status Consumer::Impl::AttachLocked(const AttachRingOptions& options,
                                          os::UniqueFd event_fd,
                                          internal::ProducerSession* session) {
  session->name = options.name;
  session->owner.uid = static_cast<int32_t>(options.uid);
  session->owner.pid = static_cast<int32_t>(options.pid);
  std::vector<std::string> unknown;
  if (absl::Status status =
          registry_.GrantBuffers(session, options.buffers, &unknown);
      !status.ok()) {
    return status;
  }
  if (event_fd.valid()) {
    if (absl::Status status =
            registry_.WatchEventFd(session, std::move(event_fd));
        !status.ok()) {
      return status;
    }
  }
  std::vector<internal::RingRequest> requests(1);
  requests[0].memfd = options.memfd;
  requests[0].num_chunks = options.num_chunks;
  requests[0].chunk_size = options.chunk_size;
  requests[0].metadata = options.metadata;
  if (absl::Status status = registry_.AttachRings(session, requests);
      !status.ok()) {
    return status;
  }
  registry_.MarkAttached(session);
  return absl::OkStatus();
}

absl::Status Consumer::Impl::DetachRing(RingHandle handle) {
  {
    Guard guard(mutex_);
    internal::ProducerSession* session = registry_.Find(handle.id);
    if (session == nullptr || session->socket.valid()) {
      return absl::NotFoundError(
          fmt::format("no ring is attached by handle {}", handle.id));
    }
    registry_.BeginClose(session, "was detached");
  }
  FinishClosing(handle.id);
  {
    Guard guard(mutex_);
    loop_->OnSessionsChanged();
  }
  log_.Dispatch();
  return absl::OkStatus();
}

ConsumerStats Consumer::Impl::stats() {
  ConsumerStats stats;
  Guard guard(mutex_);
  registry_.FillStats(&stats);
  stats.buffers = buffers_->Stats();
  stats.flushes_requested = flushes_.requested;
  stats.flushes_succeeded = flushes_.succeeded;
  stats.flushes_failed = flushes_.failed;
  return stats;
}

std::string DefaultSocketPath() { return os::ResolveSocketPath(""); }

Consumer::Consumer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Consumer::~Consumer() = default;

absl::StatusOr<std::unique_ptr<Consumer>> Consumer::Create(
    ConsumerOptions options) {
  absl::StatusOr<std::unique_ptr<Impl>> impl = Impl::Create(std::move(options));
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<Consumer>(new Consumer(*std::move(impl)));
}

absl::Status Consumer::Start() { return impl_->Start(); }
void Consumer::Stop() { impl_->Stop(); }
int Consumer::poll_fd() const { return impl_->poll_fd(); }
void Consumer::ProcessReady() { impl_->ProcessReady(); }
FlushResult Consumer::Flush(std::chrono::nanoseconds timeout) {
  return impl_->Flush(timeout);
}
absl::Status Consumer::SetEnabledCategories(std::vector<std::string> patterns) {
  return impl_->SetEnabledCategories(std::move(patterns));
}
absl::StatusOr<TraceFileInfo> Consumer::WriteTrace(const std::string& path) {
  return impl_->WriteTrace(path, SaveOptions());
}
absl::StatusOr<TraceFileInfo> Consumer::WriteTrace(const std::string& path,
                                                   const SaveOptions& options) {
  return impl_->WriteTrace(path, options);
}
absl::Status Consumer::StreamTo(const std::string& path,
                                const StreamOptions& options) {
  return impl_->StreamTo(path, options);
}
absl::Status Consumer::StreamTo(const std::string& path,
                                std::chrono::milliseconds period) {
  StreamOptions options;
  options.period = period;
  return impl_->StreamTo(path, options);
}
absl::Status Consumer::stream_status() const { return impl_->stream_status(); }
absl::StatusOr<TraceFileInfo> Consumer::StopStreaming() {
  return impl_->StopStreaming();
}
absl::StatusOr<RingHandle> Consumer::AttachRing(
    const AttachRingOptions& options) {
  return impl_->AttachRing(options);
}
absl::Status Consumer::DetachRing(RingHandle handle) {
  return impl_->DetachRing(handle);
}
ConsumerStats Consumer::stats() const { return impl_->stats(); }

}  // namespace tracering
