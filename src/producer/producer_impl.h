// What a Producer is made of: options into rings, names into buffers, sessions
// into calls of the parts that know about them.
//
// Cold path; writers do the work. Kept alive by the background thread as long
// as that runs. In a forked child every method returns before it touches a
// lock, because the threads that may hold it do not exist there.
#ifndef TRACERING_SRC_PRODUCER_PRODUCER_IMPL_H_
#define TRACERING_SRC_PRODUCER_PRODUCER_IMPL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/abi/position.h"
#include "src/common/control/messages.h"
#include "src/common/os/background_thread.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/unique_fd.h"
#include "src/producer/control_client.h"
#include "src/producer/descriptors.h"
#include "src/producer/fork_guard.h"
#include "src/producer/managed_ring.h"
#include "src/producer/thread_writers.h"
#include "tracering/ids.h"
#include "tracering/producer.h"
#include "tracering/trace_writer.h"

namespace tracering {

class [[gnu::visibility("hidden")]] Producer::Impl final
    : public internal::ControlClient::Delegate {
 public:
  static absl::StatusOr<std::shared_ptr<Impl>> Create(ProducerOptions options);

  internal::ProducerId id() const { return id_; }
  bool InForkedChild() const {
    return internal::ForkGuard::Generation() != fork_generation_;
  }
  bool has_own_thread() const { return options_.own_thread; }
  internal::ControlClient& client() { return *client_; }
  const std::shared_ptr<internal::Descriptors>& descriptors() {
    return descriptors_;
  }

  void Shutdown();

  // Traces into nothing if there is no memory.
  TraceWriter& NewThreadWriter(std::string_view buffer);
  // Null if there is no memory.
  std::unique_ptr<internal::ManagedWriter> NewWriter(
      std::string_view buffer, const WriterOptions* options);
  uint64_t NewThreadTrack(std::string_view name);
  // Writes them at once, since the process may end before another thread does.
  void DescriptorsChanged();

  absl::Status Flush(std::chrono::nanoseconds timeout);
  absl::Status Trigger(std::string_view name);
  bool WaitForConsumer(std::chrono::nanoseconds timeout);
  bool attached() const;
  Stats ReadStats();

  // internal::ControlClient::Delegate
  absl::Status OnAttached(const os::UniqueFd& event_fd,
                          const control::Welcome& welcome) override;
  void OnCategories(std::vector<std::string> patterns) override;
  void OnDetached() override;
  bool DoWork() override;

 private:
  // Where packets for a buffer go.
  struct Target {
    internal::ManagedRing* ring = nullptr;
    BufferId id;
    WriterOptions writer_options;
  };

  explicit Impl(ProducerOptions options);
  static absl::Status StartThread(const std::shared_ptr<Impl>& impl);
  absl::Status MakeRings();
  absl::Status AddRing(internal::ManagedRing::Config config,
                       control::RingRole role);
  absl::Status MakeClient();
  // Its rings are files, which no service reads.
  bool IsOffline() const { return !options_.ring_file.empty(); }
  internal::RingMode IdleMode() const {
    return options_.startup == StartupMode::kOff ? internal::RingMode::kOff
                                                 : internal::RingMode::kOn;
  }

  // The target of a buffer, which becomes known by the call. Nothing for a
  // name that is not acceptable.
  std::optional<Target> Resolve(std::string_view buffer);
  TraceWriter& TryNewThreadWriter(std::string_view buffer);
  std::unique_ptr<internal::ManagedWriter> TryNewWriter(
      std::string_view buffer, const WriterOptions* options);
  // With mutex_ held.
  const Target& AddTarget(std::string name, internal::ManagedRing * ring,
                          const WriterOptions& writer_options);

  absl::Status FlushDescriptors(int64_t deadline_ns);
  absl::Status WaitUntilRead(const internal::ManagedRing& ring,
                             abi::Position target, int64_t deadline_ns);
  absl::Status NoConsumerError() const;
  internal::ManagedRing& shared_ring() { return *rings_.front(); }
  internal::ManagedRing& metadata_ring() { return *rings_.back(); }

  // Immutable after Create.
  const ProducerOptions options_;
  const internal::ProducerId id_;
  const uint32_t fork_generation_;
  std::shared_ptr<const os::GuardedFd> event_slot_;
  // The shared one, own rings as declared, the one for descriptors.
  std::vector<std::shared_ptr<internal::ManagedRing>> rings_;
  std::vector<control::RingInfo> ring_infos_;
  std::shared_ptr<internal::Descriptors> descriptors_;
  // Used by internal::Descriptors::WritePending only.
  std::unique_ptr<internal::ManagedWriter> descriptor_writer_;
  os::BackgroundThread thread_;

  std::mutex mutex_;
  // Guarded by mutex_. Nodes stay where they are.
  std::map<std::string, Target, std::less<>> targets_;
  uint64_t num_refused_names_ = 0;

  mutable std::mutex session_mutex_;
  std::condition_variable session_changed_;
  // Guarded by session_mutex_.
  bool attached_ = false;
  uint64_t num_sessions_ = 0;
  std::vector<std::string> unknown_buffers_;

  // Last: it says goodbye before the rings go.
  std::unique_ptr<internal::ControlClient> client_;
};

}  // namespace tracering

#endif  // TRACERING_SRC_PRODUCER_PRODUCER_IMPL_H_
