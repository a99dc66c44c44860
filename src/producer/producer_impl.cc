// See producer_impl.h.
#include "src/producer/producer_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/fd_slot.h"
#include "src/common/ring/capacity_wait.h"
#include "src/producer/containment.h"
#include "src/producer/producer_options.h"
#include "tracering/buffer_config.h"

namespace tracering {
namespace {

using internal::ControlClient;
using internal::Descriptors;
using internal::ForkGuard;
using internal::ManagedRing;
using internal::ManagedWriter;
using internal::ThreadWriters;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Room for some thousand descriptors between two passes of a reader.
constexpr uint32_t kMetadataNumChunks = 16;
constexpr uint32_t kMetadataChunkSize = 4096;

// How often a waiting call looks up from its wait, where nobody may wake it.
constexpr milliseconds kWaitSlice{10};
constexpr nanoseconds kLongestWait = std::chrono::hours(24 * 365);
constexpr milliseconds kJoinTimeout{1000};

std::atomic<internal::ProducerId> num_producers{0};

int64_t DeadlineNs(nanoseconds timeout) {
  return os::MonotonicNs() +
         std::clamp(timeout, nanoseconds(0), kLongestWait).count();
}

}  // namespace

// --- Creation and end ---

Producer::Impl::Impl(ProducerOptions options)
    : options_(std::move(options)),
      id_(1 + num_producers.fetch_add(1)),
      fork_generation_(ForkGuard::Generation()),
      descriptors_(std::make_shared<Descriptors>(options_.name)) {}

absl::StatusOr<std::shared_ptr<Producer::Impl>> Producer::Impl::Create(
    ProducerOptions options) {
  if (absl::Status status = internal::CompleteOptions(&options); !status.ok()) {
    return status;
  }
  if (absl::Status status = ThreadWriters::Install(); !status.ok()) {
    return status;
  }
  std::shared_ptr<Impl> impl(new Impl(std::move(options)));
  if (absl::Status status = impl->MakeRings(); !status.ok()) return status;
  if (absl::Status status = impl->MakeClient(); !status.ok()) return status;
  if (impl->IsOffline()) {
    impl->descriptors_->BeginSession();
    impl->DescriptorsChanged();
  } else if (impl->options_.own_thread) {
    if (absl::Status status = StartThread(impl); !status.ok()) return status;
  }
  return impl;
}

// The thread keeps everything alive until it has ended.
absl::Status Producer::Impl::StartThread(const std::shared_ptr<Impl>& impl) {
  absl::StatusOr<os::BackgroundThread> thread =
      os::BackgroundThread::Start("tracering", [self = impl]() mutable {
        self->client_->Run();
        if (!self->InForkedChild()) return;
        // User code that a session called has forked, and this is the child.
        internal::Abandon(new (std::nothrow)
                              std::shared_ptr<Impl>(std::move(self)));
      });
  if (!thread.ok()) return thread.status();
  impl->thread_ = *std::move(thread);
  return absl::OkStatus();
}

absl::Status Producer::Impl::MakeRings() {
  absl::StatusOr<os::UniqueFd> placeholder = os::CreateEventFd();
  if (!placeholder.ok()) return placeholder.status();
  event_slot_ = std::make_shared<const os::GuardedFd>(*std::move(placeholder));

  absl::StatusOr<abi::Geometry> shared =
      internal::CheckRingSize("", options_.ring_size, options_.chunk_size);
  if (!shared.ok()) return shared.status();
  if (absl::Status status =
          AddRing({"shared", *shared, IdleMode()}, control::RingRole::kShared);
      !status.ok()) {
    return status;
  }
  for (const BufferOptions& buffer : options_.buffers) {
    if (!buffer.own_ring) continue;
    absl::StatusOr<abi::Geometry> own = internal::CheckRingSize(
        fmt::format(" of buffer '{}'", buffer.name),
        buffer.ring_size != 0 ? buffer.ring_size : options_.ring_size,
        options_.chunk_size);
    if (!own.ok()) return own.status();
    if (absl::Status status = AddRing({buffer.name, *own, IdleMode()},
                                      control::RingRole::kOwnBuffer);
        !status.ok()) {
      return status;
    }
  }
  const abi::Geometry metadata(kMetadataNumChunks, kMetadataChunkSize);
  return AddRing({std::string(kMetadataBufferName), metadata, IdleMode(), true},
                 control::RingRole::kDescriptors);
}

absl::Status Producer::Impl::AddRing(ManagedRing::Config config,
                                     control::RingRole role) {
  control::RingInfo info;
  info.num_chunks = config.geometry.num_chunks();
  info.chunk_size = config.geometry.chunk_size();
  info.role = role;
  info.index = static_cast<uint32_t>(rings_.size());
  std::string file = options_.ring_file;
  if (IsOffline() && config.metadata) {
    file += ".descriptors";
  } else if (IsOffline() && info.index != 0) {
    file += fmt::format(".{}", info.index);
  }
  absl::StatusOr<std::shared_ptr<ManagedRing>> ring =
      ManagedRing::Create(std::move(config), event_slot_, file);
  if (!ring.ok()) return ring.status();
  rings_.push_back(*std::move(ring));
  ring_infos_.push_back(info);
  return absl::OkStatus();
}

absl::Status Producer::Impl::MakeClient() {
  ControlClient::Config config;
  if (!IsOffline()) config.socket_path = options_.socket_path;
  config.process_name = options_.name;
  config.allowed_uids = options_.allowed_service_uids;
  config.rings = ring_infos_;
  for (const auto& ring : rings_) config.memfds.push_back(&ring->memfd());
  absl::StatusOr<std::unique_ptr<ControlClient>> client =
      ControlClient::Create(std::move(config), this);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);

  std::lock_guard<std::mutex> lock(mutex_);
  // Under its own name in the shared ring, too, for programs that write
  // descriptors themselves.
  const BufferId metadata = AddTarget(std::string(kMetadataBufferName),
                                      &shared_ring(), options_.writer_options)
                                .id;
  descriptor_writer_ = metadata_ring().AddWriter(metadata, WriterOptions());
  size_t next_own = 1;
  for (const BufferOptions& buffer : options_.buffers) {
    AddTarget(buffer.name,
              buffer.own_ring ? rings_[next_own++].get() : &shared_ring(),
              buffer.writer_options.value_or(options_.writer_options));
  }
  return absl::OkStatus();
}

void Producer::Impl::Shutdown() {
  ThreadWriters::Release(id_);
  DescriptorsChanged();
  for (const auto& ring : rings_) ring->Close();
  client_->Stop();
  if (!thread_.JoinWithin(kJoinTimeout)) thread_.Detach();
  ThreadWriters::LetGoOfClosed();
}

// --- Buffers and writers ---

const Producer::Impl::Target& Producer::Impl::AddTarget(
    std::string name, ManagedRing* ring, const WriterOptions& writer_options) {
  Target target;
  target.ring = ring;
  target.id = BufferId(static_cast<uint16_t>(targets_.size() + 1));
  target.writer_options = writer_options;
  const auto added = targets_.emplace(name, target).first;
  // A name that no consumer will hear of.
  internal::Rollback forget([&] { targets_.erase(added); });
  client_->AddBuffer({target.id.value(), std::move(name)});
  forget.Commit();
  return added->second;
}

std::optional<Producer::Impl::Target> Producer::Impl::Resolve(
    std::string_view buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = targets_.find(buffer); found != targets_.end()) {
    return found->second;
  }
  if (!internal::IsBufferName(buffer) ||
      targets_.size() >= internal::kMaxBuffers) {
    ++num_refused_names_;
    return std::nullopt;
  }
  return AddTarget(std::string(buffer), &shared_ring(),
                   options_.writer_options);
}

TraceWriter& Producer::Impl::NewThreadWriter(std::string_view buffer) {
  // Without memory this call's is none, and the next call tries again.
  return *internal::Contain([&] { return &TryNewThreadWriter(buffer); },
                            [] { return &ThreadWriters::Nowhere(); });
}

TraceWriter& Producer::Impl::TryNewThreadWriter(std::string_view buffer) {
  if (InForkedChild() || !ThreadWriters::Alive()) {
    return ThreadWriters::Nowhere();
  }
  const std::optional<Target> target = Resolve(buffer);
  if (!target.has_value()) return ThreadWriters::Nowhere();
  TraceWriter* surplus = ThreadWriters::FindAny(id_, buffer);
  std::unique_ptr<ManagedWriter> writer =
      surplus == nullptr
          ? target->ring->AddWriter(target->id, target->writer_options)
          : target->ring->TryAddWriter(target->id, target->writer_options);
  if (writer != nullptr) {
    writer = ThreadWriters::Add(id_, buffer, std::move(writer));
    if (writer != nullptr) return ThreadWriters::Nowhere();
  }
  return *ThreadWriters::FindAny(id_, buffer);
}

std::unique_ptr<ManagedWriter> Producer::Impl::NewWriter(
    std::string_view buffer, const WriterOptions* options) {
  return internal::Contain([&] { return TryNewWriter(buffer, options); },
                           [] { return nullptr; });
}

std::unique_ptr<ManagedWriter> Producer::Impl::TryNewWriter(
    std::string_view buffer, const WriterOptions* options) {
  if (InForkedChild()) return std::make_unique<ManagedWriter>();
  const std::optional<Target> target = Resolve(buffer);
  if (!target.has_value()) return std::make_unique<ManagedWriter>();
  return target->ring->AddWriter(
      target->id, options != nullptr ? *options : target->writer_options);
}

uint64_t Producer::Impl::NewThreadTrack(std::string_view name) {
  const uint64_t uuid = descriptors_->AddThread(name);
  if (!ThreadWriters::AddTrack(id_, uuid, descriptors_)) {
    descriptors_->RetireThread(uuid);
  }
  DescriptorsChanged();
  return uuid;
}

void Producer::Impl::DescriptorsChanged() {
  if (!IsOffline() && !attached()) return;
  const bool is_work_left =
      internal::Contain([this] { return DoWork(); }, [] { return true; });
  if (is_work_left) client_->RequestWork();
}

// --- Sessions ---

absl::Status Producer::Impl::OnAttached(const os::UniqueFd& event_fd,
                                        const control::Welcome& welcome) {
  if (absl::Status status = os::CheckEventFd(event_fd.get()); !status.ok()) {
    return status;
  }
  if (absl::Status status = os::ReplaceFd(*event_slot_, event_fd);
      !status.ok()) {
    return status;
  }
  for (const auto& ring : rings_) ring->Attach();
  // For whoever signalled the eventfd that was there before.
  os::SignalEventFd(event_slot_->get());
  descriptors_->BeginSession();
  DoWork();
  // Whoever waited for the consumer finds on what it wants.
  OnCategories(welcome.enabled_categories);
  if (InForkedChild()) return absl::OkStatus();
  {
    std::lock_guard<std::mutex> lock(session_mutex_);
    attached_ = true;
    ++num_sessions_;
    unknown_buffers_ = welcome.unknown_buffers;
  }
  session_changed_.notify_all();
  if (options_.on_session_start) options_.on_session_start();
  return absl::OkStatus();
}

void Producer::Impl::OnCategories(std::vector<std::string> patterns) {
  if (options_.on_categories) options_.on_categories(std::move(patterns));
}

void Producer::Impl::OnDetached() {
  if (InForkedChild()) return;
  for (const auto& ring : rings_) ring->Detach(IdleMode());
  {
    std::lock_guard<std::mutex> lock(session_mutex_);
    attached_ = false;
  }
  session_changed_.notify_all();
  if (options_.on_categories) options_.on_categories(std::nullopt);
}

bool Producer::Impl::DoWork() {
  if (InForkedChild()) return false;
  return descriptors_->WritePending(descriptor_writer_->writer(),
                                    metadata_ring().producer_ring());
}

bool Producer::Impl::attached() const {
  std::lock_guard<std::mutex> lock(session_mutex_);
  return attached_;
}

bool Producer::Impl::WaitForConsumer(nanoseconds timeout) {
  if (InForkedChild()) return false;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::clamp(timeout, nanoseconds(0), kLongestWait);
  std::unique_lock<std::mutex> lock(session_mutex_);
  while (!attached_) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= nanoseconds(0)) break;
    if (options_.own_thread) {
      session_changed_.wait_for(lock, left);
      continue;
    }
    const auto slice = std::min<nanoseconds>(left, kWaitSlice);
    lock.unlock();
    const bool driven = client_->Drive(std::chrono::ceil<milliseconds>(slice));
    lock.lock();
    // Somebody else does it.
    if (!driven && !attached_) session_changed_.wait_for(lock, slice);
  }
  // on_session_start may have forked.
  return attached_ && !InForkedChild();
}

// --- Flush ---

absl::Status Producer::Impl::NoConsumerError() const {
  return absl::UnavailableError(
      fmt::format("no consumer is attached: {}", client_->last_error()));
}

absl::Status Producer::Impl::Trigger(std::string_view name) {
  if (InForkedChild()) {
    return absl::FailedPreconditionError(
        "this is a forked child; create a producer of its own");
  }
  ThreadWriters::PublishPending(id_);
  return internal::Contain(
      [&] { return client_->SendTrigger(name); },
      [] { return absl::Status(absl::StatusCode::kResourceExhausted, ""); });
}

absl::Status Producer::Impl::Flush(nanoseconds timeout) {
  if (InForkedChild()) {
    return absl::FailedPreconditionError(
        "this is a forked child; create a producer of its own");
  }
  const int64_t deadline_ns = DeadlineNs(timeout);
  ThreadWriters::PublishPending(id_);
  if (!attached()) return NoConsumerError();
  absl::Status descriptors = FlushDescriptors(deadline_ns);
  std::vector<abi::Position> targets;
  for (const auto& ring : rings_) {
    targets.push_back(ring->ring().LoadWritePosRelaxed());
  }
  os::SignalEventFd(event_slot_->get());
  for (size_t i = 0; i < rings_.size(); ++i) {
    if (absl::Status status =
            WaitUntilRead(*rings_[i], targets[i], deadline_ns);
        !status.ok()) {
      return status;
    }
  }
  return descriptors;
}

absl::Status Producer::Impl::FlushDescriptors(int64_t deadline_ns) {
  internal::ProducerRing& ring = metadata_ring().producer_ring();
  while (DoWork()) {
    const int64_t now_ns = os::MonotonicNs();
    if (now_ns >= deadline_ns) {
      return absl::DeadlineExceededError(
          "the consumer has not made room for all descriptors in time");
    }
    os::SignalEventFd(event_slot_->get());
    const int64_t slice_end_ns =
        std::min(deadline_ns, now_ns + nanoseconds(kWaitSlice).count());
    if (internal::WaitForCapacity(ring.ring(), ring.ring().LoadReadPosAcquire(),
                                  slice_end_ns, ring.event_fd(),
                                  ring.consumer_attached()) ==
        internal::CapacityWaitOutcome::kNoConsumer) {
      return NoConsumerError();
    }
  }
  return absl::OkStatus();
}

absl::Status Producer::Impl::WaitUntilRead(const ManagedRing& ring,
                                           abi::Position target,
                                           int64_t deadline_ns) {
  const uint32_t num_chunks = ring.ring().geometry().num_chunks();
  for (;;) {
    const abi::Position read_pos = ring.ring().LoadReadPosAcquire();
    const uint32_t left = abi::Distance(read_pos, target);
    if (left == 0 || left > num_chunks) return absl::OkStatus();
    switch (internal::WaitForCapacity(
        ring.ring(), read_pos, deadline_ns, ring.producer_ring().event_fd(),
        ring.producer_ring().consumer_attached())) {
      case internal::CapacityWaitOutcome::kRetry:
        break;
      case internal::CapacityWaitOutcome::kNoConsumer:
        return NoConsumerError();
      case internal::CapacityWaitOutcome::kDeadline:
        return absl::DeadlineExceededError(fmt::format(
            "the consumer has not taken {} of {} chunks of ring '{}' in time",
            left, num_chunks, ring.name()));
    }
  }
}

Producer::Stats Producer::Impl::ReadStats() {
  Stats stats;
  for (const auto& ring : rings_) {
    stats.rings.push_back(ring->ReadStats());
    const RingStats& one = stats.rings.back();
    if (one.metadata) continue;
    stats.attempted += one.attempted;
    stats.lost += one.lost();
  }
  stats.descriptors = descriptors_->stats();
  {
    std::lock_guard<std::mutex> lock(session_mutex_);
    stats.sessions = num_sessions_;
    stats.unknown_buffers = unknown_buffers_;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stats.refused_buffer_names = num_refused_names_;
  }
  stats.connection_error = client_->last_error();
  return stats;
}

}  // namespace tracering
