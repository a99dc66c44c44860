// See background_thread.h.
#include "src/common/os/background_thread.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <memory>

#include "absl/status/status.h"

namespace tracering::os {
namespace {

struct Body {
  const char* name;
  std::function<void()> run;
};

void* Main(void* argument) {
  const std::unique_ptr<Body> body(static_cast<Body*>(argument));
  pthread_setname_np(pthread_self(), body->name);
  body->run();
  return nullptr;
}

}  // namespace

absl::StatusOr<BackgroundThread> BackgroundThread::Start(
    const char* name, std::function<void()> body) {
  auto argument = std::make_unique<Body>(Body{name, std::move(body)});
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  BackgroundThread thread;
  const int error =
      pthread_create(&thread.thread_, nullptr, Main, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return absl::ErrnoToStatus(error,
                               fmt::format("cannot start thread '{}'", name));
  }
  (void)argument.release();
  thread.running_ = true;
  return thread;
}

void BackgroundThread::Join() {
  if (std::exchange(running_, false)) pthread_join(thread_, nullptr);
}

bool BackgroundThread::JoinWithin(std::chrono::milliseconds timeout) {
  if (!running_) return true;
  if (pthread_equal(thread_, pthread_self())) return false;
  timespec deadline{};
  clock_gettime(CLOCK_REALTIME, &deadline);
  const std::chrono::nanoseconds fraction =
      timeout % std::chrono::seconds(1) +
      std::chrono::nanoseconds(deadline.tv_nsec);
  deadline.tv_sec +=
      timeout / std::chrono::seconds(1) + fraction / std::chrono::seconds(1);
  deadline.tv_nsec = (fraction % std::chrono::seconds(1)).count();
  if (pthread_timedjoin_np(thread_, nullptr, &deadline) != 0) return false;
  running_ = false;
  return true;
}

void BackgroundThread::Detach() {
  if (std::exchange(running_, false)) pthread_detach(thread_);
}

}  // namespace tracering::os
