// A thread of a library inside somebody else's program: named, and with all
// signals blocked, so that the program's signals stay on its own threads.
//
// Not std::thread, which throws where the system has no thread to give. One
// owner at a time; not for forked children.
#ifndef TRACERING_SRC_COMMON_OS_BACKGROUND_THREAD_H_
#define TRACERING_SRC_COMMON_OS_BACKGROUND_THREAD_H_

#include <pthread.h>

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"

namespace tracering::os {

class BackgroundThread {
 public:
  BackgroundThread() = default;
  BackgroundThread(BackgroundThread&& other) noexcept
      : thread_(other.thread_),
        running_(std::exchange(other.running_, false)) {}
  BackgroundThread& operator=(BackgroundThread&& other) noexcept {
    Join();
    thread_ = other.thread_;
    running_ = std::exchange(other.running_, false);
    return *this;
  }
  ~BackgroundThread() { Join(); }

  // Runs `body` on a thread called `name` (at most 15 bytes).
  static absl::StatusOr<BackgroundThread> Start(const char* name,
                                                std::function<void()> body);

  // Waits until the body has returned. No effect without a thread.
  void Join();

  // The same, for at most `timeout`. False: it still runs, or this is it.
  bool JoinWithin(std::chrono::milliseconds timeout);

  // Lets the thread go on by itself, also beyond this object.
  void Detach();

 private:
  pthread_t thread_{};
  bool running_ = false;
};

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_BACKGROUND_THREAD_H_
