// The producer's background thread: started without any signal, ended within a
// bounded time, and forgotten in a forked child.
//
// Not std::thread, whose destructor wants to be joined: in a child made by
// fork() there is nothing to join, and a body that user code holds up must not
// hold up the program's exit.
#ifndef TRACERING_SRC_PRODUCER_CONTROL_THREAD_H_
#define TRACERING_SRC_PRODUCER_CONTROL_THREAD_H_

#include <pthread.h>

#include <chrono>
#include <functional>

#include "absl/status/status.h"

namespace tracering::internal {

class ControlThread {
 public:
  ControlThread() = default;
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // Runs `body` on a thread named "tracering" with all signals blocked, and
  // destroys it there, unless it returns in a forked child. Once.
  absl::Status Start(std::function<void()> body);

  // Waits for the thread to end, at most `timeout`, and then leaves it to
  // itself; at once if called on it. Not in a forked child.
  void Join(std::chrono::milliseconds timeout);

 private:
  pthread_t thread_{};
  bool running_ = false;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CONTROL_THREAD_H_
