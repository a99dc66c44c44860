// See control_thread.h.
#include "src/producer/control_thread.h"

#include <signal.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "src/producer/fork_guard.h"

namespace tracering::internal {
namespace {

struct Body {
  std::function<void()> run;
  uint32_t fork_generation;
};

void* Main(void* argument) {
  std::unique_ptr<Body> body(static_cast<Body*>(argument));
  pthread_setname_np(pthread_self(), "tracering");
  body->run();
  // User code that the body called has forked, and this is the child.
  if (ForkGuard::Generation() != body->fork_generation) {
    AbandonInChild(body.release());
  }
  return nullptr;
}

timespec RealtimeAfter(std::chrono::milliseconds delay) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const int64_t ns = time.tv_nsec + (delay % std::chrono::seconds(1)).count() *
                                        int64_t{1'000'000};
  time.tv_sec += delay / std::chrono::seconds(1) + ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

}  // namespace

absl::Status ControlThread::Start(std::function<void()> body) {
  auto argument =
      std::make_unique<Body>(Body{std::move(body), ForkGuard::Generation()});
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Inherited by the new thread.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, Main, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return absl::ErrnoToStatus(error, "cannot start the background thread");
  }
  (void)argument.release();
  running_ = true;
  return absl::OkStatus();
}

void ControlThread::Join(std::chrono::milliseconds timeout) {
  if (!std::exchange(running_, false)) return;
  if (!pthread_equal(thread_, pthread_self())) {
    const timespec deadline = RealtimeAfter(timeout);
    if (pthread_timedjoin_np(thread_, nullptr, &deadline) == 0) return;
  }
  pthread_detach(thread_);
}

}  // namespace tracering::internal
