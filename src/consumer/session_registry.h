// All producer sessions: attach with its checks and limits, grants of buffers,
// the orderly end, and the counts of those that are gone.
//
// Trust: descriptors, geometry and names come from peers. Each request is
// checked in full before any of it takes effect. Guarded by the loop mutex;
// logs through EventLog and never blocks.
#ifndef TRACERING_SRC_CONSUMER_SESSION_REGISTRY_H_
#define TRACERING_SRC_CONSUMER_SESSION_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/control/messages.h"
#include "src/common/os/epoll.h"
#include "src/common/os/unique_fd.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/event_log.h"
#include "src/consumer/producer_session.h"
#include "src/consumer/ring_scheduler.h"
#include "tracering/consumer.h"

namespace tracering::internal {

// A ring that somebody asks to be read.
struct RingRequest {
  int memfd = -1;  // the caller's, not needed afterwards
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
  bool metadata = false;
};

using BufferRequests = std::vector<std::pair<BufferId, std::string>>;

class SessionRegistry {
 public:
  // The pointers outlive this object.
  SessionRegistry(const ConsumerLimits& limits, uint32_t wakeup_threshold,
                  BufferSet* buffers, RingScheduler* scheduler,
                  os::Epoll* epoll, EventLog* log);
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // A new session in phase kGreeting, or the limit that stands against it.
  absl::StatusOr<ProducerSession*> Open();

  // Takes back what Open returned, which has no rings yet.
  void Abandon(ProducerSession* session);

  // Null if there is none (any more).
  ProducerSession* Find(uint64_t id);
  const std::map<uint64_t, std::unique_ptr<ProducerSession>>& sessions() const {
    return sessions_;
  }
  // How many were ever removed: whoever waits for descriptors may try again.
  uint64_t removals() const { return removals_; }

  // Grants `session` what it asks for, and appends the names that we do not
  // have to `unknown`. Asking again for the same is no error; another name for
  // an id is.
  absl::Status GrantBuffers(ProducerSession* session,
                            const BufferRequests& requests,
                            std::vector<std::string>* unknown);

  // Checks all of `requests`, maps them and becomes their reader. A session
  // that has one of them already is removed first: one ring never has two
  // readers. On an error nothing has changed.
  absl::Status AttachRings(ProducerSession* session,
                           const std::vector<RingRequest>& requests);

  // The session is complete and counts as a producer. For the log and counts.
  void MarkAttached(ProducerSession* session);

  // Watches the eventfd that the session's writers signal, and keeps it.
  absl::Status WatchEventFd(ProducerSession* session, os::UniqueFd event_fd);

  // Its writers signalled: all of its rings get a pass.
  void OnWritersSignalled(uint64_t id);

  // Takes what the rings hold by now, slice by slice, and removes the session
  // after that; at once if there is nothing to take. `reason` is for the log.
  void BeginClose(ProducerSession* session, std::string_view reason);

  // After a slice of `ring` by whomever: notes a stop, ends what is complete.
  // `ring`, and its session, may be gone afterwards.
  void OnSlice(AttachedRing* ring);

  // One slice for a session that is closing. False once it is gone.
  bool RunClosingSlice(uint64_t id);

  // --- Counts ---

  // Of all sessions ever.
  RingCounts Totals();
  // Fills the producers and their totals.
  void FillStats(ConsumerStats* stats);

  // For an observer: producers with ids above `after`, as many as a message
  // holds, and what is known of the rest. Bounded, however many there are.
  control::ServiceStats StatsPage(uint64_t after);

  // By number of the buffer, metadata last.
  struct TargetLosses {
    uint64_t packets = 0;  // lost before they got to any buffer
    uint64_t chunks = 0;   // that broke the rules
  };
  std::vector<TargetLosses> LossesByTarget();
  uint64_t producers_connected() const;
  uint64_t producers_seen() const { return producers_seen_; }
  void CountRefusal() { ++producers_refused_; }

  // "producer 7 'name' (pid 42)", with strange bytes escaped.
  static std::string Describe(const ProducerSession& session);

 private:
  absl::StatusOr<std::vector<AttachedRing::Options>> CheckRings(
      const ProducerSession& session,
      const std::vector<RingRequest>& requests) const;
  void AddLosses(AttachedRing* ring, std::vector<TargetLosses>* losses) const;
  // Counts and logs a stop of `ring`, once.
  void NoteStop(const ProducerSession& session, AttachedRing* ring);
  bool IsDrained(const ProducerSession& session) const;
  void StopWatching(ProducerSession* session);
  void Remove(ProducerSession* session);

  const ConsumerLimits limits_;
  const uint32_t wakeup_threshold_;
  BufferSet* const buffers_;
  RingScheduler* const scheduler_;
  os::Epoll* const epoll_;
  EventLog* const log_;

  std::map<uint64_t, std::unique_ptr<ProducerSession>> sessions_;
  uint64_t last_id_ = 0;

  // Which session has a memory file.
  std::map<std::pair<dev_t, ino_t>, uint64_t> by_identity_;

  // Of sessions that are gone.
  RingCounts gone_;
  std::vector<TargetLosses> gone_losses_;
  uint64_t producers_seen_ = 0;
  uint64_t producers_refused_ = 0;
  uint64_t rings_stopped_ = 0;
  uint64_t removals_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_SESSION_REGISTRY_H_
