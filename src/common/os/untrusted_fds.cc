// Closing what peers have sent; see untrusted_fds.h for what may go wrong.
#include "src/common/os/untrusted_fds.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "src/common/os/background_thread.h"
#include "src/common/os/fork_safe.h"
#include "src/common/os/unix_socket.h"

namespace tracering::os {
namespace {

// Answered without asking the file system behind `fd`; see CheckSealedMemory.
bool IsMemoryFile(const UniqueFd& fd) {
  return fcntl(fd.get(), F_GET_SEALS) >= 0;
}

// How long a descriptor waits behind another one before it gets a thread of
// its own, and how long threads stay without work.
constexpr std::chrono::seconds kPatience(1);

// A peer needs so many seconds, and as many descriptors that never close, to
// get hold of all of them.
constexpr int kMaxClosers = 32;

// The descriptors that wait to be closed. A thread closes them in order; a
// second one watches it and starts another once the first is stuck. Nothing is
// given up: what waits is no more than this process can have open.
class Closing {
 public:
  void Add(std::vector<UniqueFd> fds);

 private:
  struct Waiting {
    UniqueFd fd;
    std::chrono::steady_clock::time_point since;
  };

  static bool Start(const char* name, std::function<void()> body);
  void Watch();
  void Close();
  // False once there has been nothing to do for a while.
  bool AwaitWork(std::unique_lock<std::mutex>* lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  int closers_ = 0;
  bool watched_ = false;
};

void Closing::Add(std::vector<UniqueFd> fds) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (UniqueFd& fd : fds) waiting_.push_back({std::move(fd), now});
  // Without a thread to be had they wait for the next ones.
  if (!watched_) {
    watched_ = Start("tracering-fds", [this] { Watch(); });
  }
  changed_.notify_all();
}

bool Closing::Start(const char* name, std::function<void()> body) {
  absl::StatusOr<BackgroundThread> thread =
      BackgroundThread::Start(name, std::move(body));
  if (thread.ok()) thread->Detach();
  return thread.ok();
}

bool Closing::AwaitWork(std::unique_lock<std::mutex>* lock) {
  return changed_.wait_for(*lock, kPatience,
                           [this] { return !waiting_.empty(); });
}

void Closing::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (AwaitWork(&lock)) {
    const bool is_stuck =
        std::chrono::steady_clock::now() - waiting_.front().since >= kPatience;
    if (closers_ == 0 || (is_stuck && closers_ < kMaxClosers)) {
      if (Start("tracering-close", [this] { Close(); })) ++closers_;
    }
    changed_.wait_for(lock, kPatience, [this] { return waiting_.empty(); });
  }
  watched_ = false;
}

void Closing::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (AwaitWork(&lock)) {
    UniqueFd fd = std::move(waiting_.front().fd);
    waiting_.pop_front();
    if (waiting_.empty()) changed_.notify_all();
    lock.unlock();
    fd.reset();
    lock.lock();
  }
  --closers_;
}

// Never freed: its threads outlive everybody.
std::atomic<Closing*> closing{nullptr};

// A forked child has none of the threads, and perhaps a lock that nobody
// releases: it starts anew. Async-signal-safe.
void OnForkInChild() { closing.store(nullptr, std::memory_order_relaxed); }

Closing& GetClosing() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, OnForkInChild); });
  return GetOrMake(&closing, [] { return std::make_unique<Closing>(); });
}

}  // namespace

void CloseUntrusted(std::vector<UniqueFd> fds) noexcept {
  fds.erase(std::remove_if(fds.begin(), fds.end(), IsMemoryFile), fds.end());
  if (!fds.empty()) GetClosing().Add(std::move(fds));
}

void CloseConnection(UniqueFd socket) noexcept {
  // The peer can add nothing after this, so the loop ends.
  if (!socket.valid() || shutdown(socket.get(), SHUT_RDWR) != 0) return;
  for (;;) {
    char byte = 0;
    ReceivedMessage message =
        ReceiveMessage(socket.get(), &byte, sizeof(byte), kMaxFdsPerMessage);
    CloseUntrusted(std::move(message.fds));
    if (message.outcome != ReceiveOutcome::kMessage &&
        message.outcome != ReceiveOutcome::kPayloadTruncated &&
        message.outcome != ReceiveOutcome::kControlTruncated) {
      return;
    }
  }
}

}  // namespace tracering::os
