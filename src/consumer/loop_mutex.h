// The mutex that guards everything the consumer drains: rings, sessions,
// buffers.
//
// First come, first served. The draining thread takes it anew for each bounded
// slice of work, and under an unfair mutex it would get it back each time while
// a flush or a snapshot waits for ever. Works with std::lock_guard. Not
// recursive; never held across file I/O, rewriting, callbacks or epoll_wait.
#ifndef TRACERING_SRC_CONSUMER_LOOP_MUTEX_H_
#define TRACERING_SRC_CONSUMER_LOOP_MUTEX_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tracering::internal {

class LoopMutex {
 public:
  LoopMutex() = default;
  LoopMutex(const LoopMutex&) = delete;
  LoopMutex& operator=(const LoopMutex&) = delete;

  void lock() {
    std::unique_lock<std::mutex> guard(mutex_);
    const uint64_t ticket = next_ticket_++;
    turn_.wait(guard, [&] { return now_serving_ == ticket; });
  }

  void unlock() {
    bool somebody_waits = false;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      ++now_serving_;
      somebody_waits = now_serving_ != next_ticket_;
    }
    if (somebody_waits) turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ticket_ = 0;
  uint64_t now_serving_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_LOOP_MUTEX_H_
