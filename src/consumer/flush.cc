// See flush.h. Takes the loop mutex itself.
#include "src/consumer/flush.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "src/common/os/clock.h"

namespace tracering::internal {
namespace {

int64_t DeadlineNs(std::chrono::nanoseconds timeout) {
  const int64_t now = os::MonotonicNs();
  const int64_t left = std::numeric_limits<int64_t>::max() - now;
  return now + std::clamp<int64_t>(timeout.count(), 0, left);
}

class Flush {
 public:
  Flush(LoopMutex* mutex, SessionRegistry* registry)
      : mutex_(mutex), registry_(registry) {}

  FlushResult Run(std::chrono::nanoseconds timeout) {
    const int64_t deadline_ns = DeadlineNs(timeout);
    Capture();
    bool in_time = true;
    while (!pending_.empty() && in_time) {
      const bool progress = RunRound(deadline_ns, timeout.count() > 0);
      in_time = os::MonotonicNs() < deadline_ns;
      if (!progress) std::this_thread::yield();
    }
    for (const Target& target : pending_) {
      Result(target).outcome = FlushOutcome::kDeadline;
      result_.complete = false;
    }
    CountOpenWriters();
    return std::move(result_);
  }

 private:
  struct Target {
    size_t producer = 0;  // index into the results
    size_t ring = 0;      // index into the session's rings
    uint64_t end = 0;
  };

  ProducerFlushResult& Result(const Target& target) {
    return result_.producers[target.producer];
  }

  void Capture() {
    std::lock_guard<LoopMutex> guard(*mutex_);
    for (const auto& [id, session] : registry_->sessions()) {
      if (session->phase == SessionPhase::kGreeting) continue;
      ProducerFlushResult producer;
      producer.id = id;
      producer.name = session->name;
      producer.pid = session->owner.pid;
      result_.producers.push_back(std::move(producer));
      for (size_t i = 0; i < session->rings.size(); ++i) {
        const uint64_t end = session->rings[i]->CaptureEnd();
        targets_.push_back({result_.producers.size() - 1, i, end});
      }
    }
    pending_ = targets_;
  }

  // One slice for each ring that is not there yet. False if none moved.
  bool RunRound(int64_t deadline_ns, bool heed_deadline) {
    bool progress = false;
    std::vector<Target> unfinished;
    for (const Target& target : pending_) {
      if (heed_deadline && os::MonotonicNs() >= deadline_ns) {
        unfinished.push_back(target);
        continue;
      }
      std::lock_guard<LoopMutex> guard(*mutex_);
      if (!RunSlice(target, &progress)) unfinished.push_back(target);
    }
    pending_ = std::move(unfinished);
    return progress;
  }

  // True if the target is reached, or never will be.
  bool RunSlice(const Target& target, bool* progress) {
    AttachedRing* ring = FindRing(target);
    // A session that went meanwhile was drained to its end.
    if (ring == nullptr) return true;
    const uint64_t before = ring->resolved();
    if (before < target.end) ring->DrainSlice(target.end);
    *progress |= ring->resolved() != before;
    const bool reached = ring->resolved() >= target.end;
    const bool stopped = ring->stopped();
    if (stopped) Result(target).outcome = FlushOutcome::kRingStopped;
    registry_->OnSlice(ring);  // the ring may be gone now
    return reached || stopped;
  }

  AttachedRing* FindRing(const Target& target) {
    ProducerSession* session = registry_->Find(Result(target).id);
    return session == nullptr ? nullptr : session->rings[target.ring].get();
  }

  void CountOpenWriters() {
    for (const Target& target : targets_) {
      std::lock_guard<LoopMutex> guard(*mutex_);
      AttachedRing* const ring = FindRing(target);
      if (ring == nullptr) continue;
      Result(target).open_writers += ring->CountOpenChunks();
    }
  }

  LoopMutex* const mutex_;
  SessionRegistry* const registry_;
  FlushResult result_;
  std::vector<Target> targets_;
  std::vector<Target> pending_;
};

}  // namespace

FlushResult FlushAll(std::chrono::nanoseconds timeout, LoopMutex* mutex,
                     SessionRegistry* registry) {
  return Flush(mutex, registry).Run(timeout);
}

}  // namespace tracering::internal
