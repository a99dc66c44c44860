// The public face of Producer: what a thread finds by itself, and the rest
// handed to Producer::Impl, see producer_impl.h. In a forked child nothing here
// touches a lock.
#include "tracering/producer.h"

#include <new>
#include <utility>

#include "src/common/os/no_cancellation.h"
#include "src/common/os/process.h"
#include "src/producer/containment.h"
#include "src/producer/fork_guard.h"
#include "src/producer/managed_ring.h"
#include "src/producer/producer_impl.h"
#include "src/producer/thread_writers.h"

namespace tracering {

using internal::ManagedWriter;
using internal::ThreadWriters;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

void WriterReleaser::operator()(TraceWriter*) const { delete managed_; }

absl::StatusOr<std::unique_ptr<Producer>> Producer::Create(
    ProducerOptions options) {
  return internal::Contain(
      [&]() -> absl::StatusOr<std::unique_ptr<Producer>> {
        absl::StatusOr<std::shared_ptr<Impl>> impl =
            Impl::Create(std::move(options));
        if (!impl.ok()) return impl.status();
        return std::unique_ptr<Producer>(new Producer(*std::move(impl)));
      },
      // A text would have to be allocated.
      [] { return absl::Status(absl::StatusCode::kResourceExhausted, ""); });
}

Producer::Producer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Producer::~Producer() {
  const os::NoCancellation no_cancellation;
  if (impl_->InForkedChild()) {
    // Whatever another thread was doing with it at the time will never end.
    internal::Abandon(new (std::nothrow)
                          std::shared_ptr<Impl>(std::move(impl_)));
    return;
  }
  impl_->Shutdown();
  impl_ = nullptr;
}

TraceWriter& Producer::ThreadWriter(std::string_view buffer) {
  if (TraceWriter* writer = ThreadWriters::Find(impl_->id(), buffer)) {
    return *writer;
  }
  return impl_->NewThreadWriter(buffer);
}

OwnedTraceWriter Producer::CreateWriter(std::string_view buffer) {
  return Own(impl_->NewWriter(buffer, nullptr));
}

OwnedTraceWriter Producer::CreateWriter(std::string_view buffer,
                                        const WriterOptions& options) {
  return Own(impl_->NewWriter(buffer, &options));
}

OwnedTraceWriter Producer::Own(std::unique_ptr<ManagedWriter> managed) {
  if (managed == nullptr) {
    return OwnedTraceWriter(&ThreadWriters::SharedNowhere(), WriterReleaser());
  }
  TraceWriter* const writer = &managed->writer();
  return OwnedTraceWriter(writer, WriterReleaser(managed.release()));
}

absl::Status Producer::Flush(nanoseconds timeout) {
  return impl_->Flush(timeout);
}

absl::Status Producer::Trigger(std::string_view name) {
  return impl_->Trigger(name);
}

bool Producer::consumer_attached() const {
  return !impl_->InForkedChild() && impl_->attached();
}

bool Producer::WaitForConsumer(nanoseconds timeout) {
  return impl_->WaitForConsumer(timeout);
}

Producer::Stats Producer::stats() const {
  if (impl_->InForkedChild()) return {};
  return impl_->ReadStats();
}

int Producer::poll_fd() const {
  if (impl_->has_own_thread() || impl_->InForkedChild()) return -1;
  return impl_->client().poll_fd();
}

void Producer::ProcessReady() {
  if (impl_->has_own_thread() || impl_->InForkedChild()) return;
  impl_->client().Drive(milliseconds(0));
}

uint64_t Producer::process_track() const {
  return impl_->descriptors()->process_track();
}

uint64_t Producer::ThreadTrack() {
  if (uint64_t uuid = ThreadWriters::FindTrack(impl_->id())) return uuid;
  if (impl_->InForkedChild() || !ThreadWriters::Alive()) {
    return process_track();
  }
  return impl_->NewThreadTrack(os::CurrentThreadName());
}

uint64_t Producer::ThreadTrack(std::string_view name) {
  const uint64_t uuid = ThreadWriters::FindTrack(impl_->id());
  if (impl_->InForkedChild() || !ThreadWriters::Alive()) {
    return uuid != 0 ? uuid : process_track();
  }
  if (uuid == 0) return impl_->NewThreadTrack(name);
  impl_->descriptors()->RenameThread(uuid, name);
  impl_->DescriptorsChanged();
  return uuid;
}

uint64_t Producer::AddTrack(std::string_view name, uint64_t parent) {
  if (impl_->InForkedChild()) return process_track();
  const uint64_t uuid = impl_->descriptors()->AddTrack(name, parent);
  impl_->DescriptorsChanged();
  return uuid;
}

uint64_t Producer::AddCounterTrack(std::string_view name, CounterUnit unit,
                                   uint64_t parent) {
  if (impl_->InForkedChild()) return process_track();
  const uint64_t uuid =
      impl_->descriptors()->AddCounterTrack(name, unit, {}, parent);
  impl_->DescriptorsChanged();
  return uuid;
}

uint64_t Producer::AddCounterTrack(std::string_view name,
                                   std::string_view unit_name,
                                   uint64_t parent) {
  if (impl_->InForkedChild()) return process_track();
  const uint64_t uuid = impl_->descriptors()->AddCounterTrack(
      name, CounterUnit::kUnspecified, unit_name, parent);
  impl_->DescriptorsChanged();
  return uuid;
}

void Producer::RemoveTrack(uint64_t uuid) {
  if (impl_->InForkedChild()) return;
  impl_->descriptors()->RetireTrack(uuid);
}

}  // namespace tracering
