// One ring of a producer with all that belongs to it: memory, writers, ids and
// the counts of writers that are gone.
//
// A ManagedWriter is the owner of one TraceWriter: it leases an id, and gives
// it back with the counts at its end. Writers keep their ring alive, so both
// outlive the producer safely.
//
// Thread-safe unless stated, by one lock that nothing holds while it waits. In
// a forked child nothing takes that lock, which may be held there for ever; a
// writer that ends there is destroyed and no more.
#ifndef TRACERING_SRC_PRODUCER_MANAGED_RING_H_
#define TRACERING_SRC_PRODUCER_MANAGED_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/common/abi/geometry.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/unique_fd.h"
#include "src/producer/fork_guard.h"
#include "src/producer/producer_ring.h"
#include "src/producer/trace_writer_impl.h"
#include "src/producer/writer_id_pool.h"
#include "tracering/ids.h"
#include "tracering/producer.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

class ManagedRing;

class ManagedWriter {
 public:
  // Traces into nothing.
  ManagedWriter();
  // With an id of `home`, or as a surplus writer that counts its packets as
  // lost. See ManagedRing::AddWriter.
  ManagedWriter(std::shared_ptr<ManagedRing> home, WriterLease lease,
                BufferId buffer, const WriterOptions& options);
  ~ManagedWriter();
  ManagedWriter(const ManagedWriter&) = delete;
  ManagedWriter& operator=(const ManagedWriter&) = delete;

  // Stays where it is for the life of this object.
  TraceWriterImpl& writer() { return *writer_; }

  bool is_surplus() const { return is_surplus_; }

  // The producer ends: publishes what the writer holds back, and gives up a
  // packet that is open. On the writer's thread.
  void Release();

  // Once the producer is gone: lets go of the ring's memory and traces into
  // nothing from now on. No effect while a packet or a batch is open, or was
  // when the writer was released, and in a forked child. On the writer's
  // thread.
  void LetGoIfClosed();

 private:
  friend class ManagedRing;

  std::shared_ptr<ManagedRing> home_;  // null: traces into nothing
  bool is_surplus_ = false;
  bool is_listed_ = false;  // in the ring's list
  // Somewhere up the stack a packet may still point into the ring.
  bool is_pinned_ = false;
  size_t index_ = 0;  // in the ring's list; guarded by its lock
  // Never empty; replaced in place.
  std::optional<TraceWriterImpl> writer_;
};

class ManagedRing : public std::enable_shared_from_this<ManagedRing> {
 public:
  struct Config {
    std::string name;  // of its buffer, for statistics and /proc
    abi::Geometry geometry;
    RingMode mode = RingMode::kOn;
    bool metadata = false;
    uint16_t max_writer_id = 65535;
  };

  // Allocates the ring's memory: a memfd, or the file of that name. The error
  // says what is missing.
  static absl::StatusOr<std::shared_ptr<ManagedRing>> Create(
      Config config, std::shared_ptr<const os::GuardedFd> event_slot,
      const std::string& file = std::string());

  ManagedRing(const ManagedRing&) = delete;
  ManagedRing& operator=(const ManagedRing&) = delete;

  const std::string& name() const { return config_.name; }
  const Ring& ring() const { return ring_->ring(); }
  ProducerRing& producer_ring() const { return *ring_; }
  const os::GuardedFd& memfd() const { return memfd_; }

  // Never null; a surplus writer if no id is left. Throws std::bad_alloc, and
  // has changed nothing.
  std::unique_ptr<ManagedWriter> AddWriter(BufferId buffer,
                                           const WriterOptions& options);
  // The same, but null if no id is left.
  std::unique_ptr<ManagedWriter> TryAddWriter(BufferId buffer,
                                              const WriterOptions& options);

  // A consumer is there: writers may wait for it, and hand it the losses that
  // they have counted for themselves. A ring that was off is on.
  void Attach();
  // It is gone. `mode_without` is kOn or kOff.
  void Detach(RingMode mode_without);
  // The end: writers trace into nothing from now on.
  void Close();

  Producer::RingStats ReadStats();

 private:
  friend class ManagedWriter;

  ManagedRing(Config config, os::UniqueFd memfd,
              std::shared_ptr<ProducerRing> ring);

  std::unique_ptr<ManagedWriter> AddWriterWithLease(
      WriterLease lease, BufferId buffer, const WriterOptions& options);
  WriterLease Lease();
  // By a writer that ends. Not in a forked child.
  void Remove(ManagedWriter* writer);
  void FoldLosses();
  bool InForkedChild() const {
    return ForkGuard::Generation() != fork_generation_;
  }

  const Config config_;
  const uint32_t fork_generation_;
  const os::GuardedFd memfd_;
  const std::shared_ptr<ProducerRing> ring_;

  std::mutex mutex_;
  // Guarded by mutex_.
  WriterIdPool ids_;
  std::vector<ManagedWriter*> writers_;
  uint64_t num_surplus_ = 0;
  // Of writers that have ended.
  uint64_t attempted_ = 0;
  uint64_t discarded_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_MANAGED_RING_H_
