// The stall loop; see capacity_wait.h for who may call it and what it trusts.
#include "src/common/ring/capacity_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/common/os/clock.h"
#include "src/common/os/errno_saver.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/futex.h"
#include "src/common/ring/notification.h"

namespace tracering::internal {
namespace {

using std::chrono::nanoseconds;

// How long a waiter relies on a wake-up before it signals the consumer again.
constexpr int64_t kMaxSliceNs = 10'000'000;
// Where futexes are denied, polling replaces them.
constexpr nanoseconds kPollSlice = std::chrono::microseconds(200);

// Announces the waiter for as long as it may be asleep. The hint is raised
// before read_pos is looked at and the reader looks at it after a fence, so one
// of the two sees the other.
class WaiterHint {
 public:
  explicit WaiterHint(const Ring& ring) : ring_(ring) {
    ring_.words().num_writers_waiting.FetchAdd(1, std::memory_order_seq_cst);
  }
  ~WaiterHint() {
    ring_.words().num_writers_waiting.FetchSub(1, std::memory_order_relaxed);
  }
  WaiterHint(const WaiterHint&) = delete;
  WaiterHint& operator=(const WaiterHint&) = delete;

 private:
  const Ring& ring_;
};

}  // namespace

CapacityWaitOutcome WaitForCapacity(
    const Ring& ring, abi::Position sampled, int64_t deadline_ns, int event_fd,
    const std::atomic<bool>& consumer_attached) {
  const os::ErrnoSaver errno_saver;
  NotifyIfArmed(ring, event_fd);
  const WaiterHint hint(ring);
  SharedWord<uint32_t>& word = ring.words().read_pos;
  int64_t signal_at_ns = os::MonotonicNs() + kMaxSliceNs;
  for (;;) {
    // First of all, so that a read_pos which moves for ever, forged or to the
    // good of other writers, cannot hold this one beyond its deadline.
    const int64_t now_ns = os::MonotonicNs();
    if (now_ns >= deadline_ns) return CapacityWaitOutcome::kDeadline;
    if (word.Load(std::memory_order_seq_cst) != sampled.value()) {
      return CapacityWaitOutcome::kRetry;
    }
    if (!consumer_attached.load(std::memory_order_acquire)) {
      return CapacityWaitOutcome::kNoConsumer;
    }
    if (now_ns >= signal_at_ns) {
      os::SignalEventFd(event_fd);
      signal_at_ns = now_ns + kMaxSliceNs;
    }
    const nanoseconds slice(std::min(signal_at_ns, deadline_ns) - now_ns);
    OnSharedAccess(SharedAccess::kFutexWait, &word);
    if (os::FutexWait(&word, sampled.value(), slice) ==
        os::FutexWaitOutcome::kUnavailable) {
      std::this_thread::sleep_for(std::min(kPollSlice, slice));
    }
  }
}

}  // namespace tracering::internal
