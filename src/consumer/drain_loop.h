// The consumer's event loop: one epoll over the listening socket, connections,
// eventfds, pidfds and the period, and slices of draining in between.
//
// One thread at a time drives it by Step(); the loop mutex is held for bounded
// pieces of that and never while waiting. Between two looks at the sockets it
// drains for about a millisecond, one slice per ring in turn: a hot ring
// starves neither another ring nor the control plane nor whoever waits for the
// mutex.
#ifndef TRACERING_SRC_CONSUMER_DRAIN_LOOP_H_
#define TRACERING_SRC_CONSUMER_DRAIN_LOOP_H_

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "src/common/os/epoll.h"
#include "src/common/os/timerfd.h"
#include "src/common/os/unique_fd.h"
#include "src/consumer/buffer_set.h"
#include "src/consumer/control_server.h"
#include "src/consumer/event_log.h"
#include "src/consumer/loop_mutex.h"
#include "src/consumer/ring_scheduler.h"
#include "src/consumer/session_registry.h"

namespace tracering::internal {

class DrainLoop {
 public:
  // What the loop drives. All outlive it; `server` may be null.
  struct Parts {
    LoopMutex* mutex = nullptr;
    os::Epoll* epoll = nullptr;
    BufferSet* buffers = nullptr;
    RingScheduler* scheduler = nullptr;
    SessionRegistry* registry = nullptr;
    ControlServer* server = nullptr;
    EventLog* log = nullptr;
    // Called without the mutex when a stream should come before its period.
    std::function<void()> on_stream_pressure;
  };

  static absl::StatusOr<std::unique_ptr<DrainLoop>> Create(
      const Parts& parts, std::chrono::milliseconds period);

  DrainLoop(const DrainLoop&) = delete;
  DrainLoop& operator=(const DrainLoop&) = delete;

  // Handles what is ready and drains a bounded amount. With `may_block` it
  // first waits until something is due. Without, the epoll stays readable if
  // work is left.
  void Step(bool may_block);

  // Makes a Step that waits, or the next one, return. Thread-safe.
  void WakeUp();

  // The set of sessions has changed outside of a Step. Under the mutex.
  void OnSessionsChanged();

 private:
  DrainLoop(const Parts& parts, std::chrono::milliseconds period,
            os::TimerFd timer, os::UniqueFd wake_up);

  void Dispatch(const epoll_event& event);
  void SyncTimer();
  // Drains until there is nothing to do or the time is up.
  void RunSlices();

  const Parts parts_;
  const std::chrono::milliseconds period_;
  os::TimerFd timer_;
  const os::UniqueFd wake_up_;
  bool timer_runs_ = false;  // under the mutex

  // All rings that may sleep are armed. Of the driving thread.
  bool may_sleep_ = false;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_DRAIN_LOOP_H_
