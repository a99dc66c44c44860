// The stall loop; see capacity_wait.h for who may call it and what it trusts.
#include "src/common/ring/capacity_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/common/os/futex.h"
#include "src/common/ring/notification.h"

namespace tracering::internal {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kMaxSlice = std::chrono::milliseconds(10);
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
  NotifyIfArmed(ring, event_fd);
  const WaiterHint hint(ring);
  SharedWord<uint32_t>& word = ring.words().read_pos;
  for (;;) {
    if (word.Load(std::memory_order_seq_cst) != sampled.value()) {
      return CapacityWaitOutcome::kRetry;
    }
    if (!consumer_attached.load(std::memory_order_acquire)) {
      return CapacityWaitOutcome::kNoConsumer;
    }
    const int64_t left_ns = deadline_ns - os::MonotonicNs();
    if (left_ns <= 0) return CapacityWaitOutcome::kDeadline;
    const nanoseconds slice = std::min(kMaxSlice, nanoseconds(left_ns));
    OnSharedAccess(SharedAccess::kFutexWait, &word);
    if (os::FutexWait(&word, sampled.value(), slice) ==
        os::FutexWaitOutcome::kUnavailable) {
      std::this_thread::sleep_for(std::min(kPollSlice, slice));
    }
    if (word.Load(std::memory_order_seq_cst) == sampled.value()) {
      os::SignalEventFd(event_fd);
    }
  }
}

}  // namespace tracering::internal
