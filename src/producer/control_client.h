// The producer's end of the control socket: connects, shows the rings, learns
// the eventfd, notices the end, and starts over.
//
//            timer (50 ms .. 2 s)            Welcome
//   idle  ----------------------> greeting ----------> attached
//    ^                               |                    |
//    +---------- hang-up, Reject, nonsense, errors -------+
//
// One thread at a time drives it: the background thread (Run) or whoever calls
// Drive. It knows sockets and messages, and nothing of rings and writers: what
// a session means is the delegate's business.
//
// Trust: the service may be frozen, dead or send anything. No call blocks, and
// what it sends costs the driving thread a bounded amount of work at a time.
// Nothing is sent to a service of a user that is not trusted.
#ifndef TRACERING_SRC_PRODUCER_CONTROL_CLIENT_H_
#define TRACERING_SRC_PRODUCER_CONTROL_CLIENT_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/control/messages.h"
#include "src/common/os/epoll.h"
#include "src/common/os/guarded_fd.h"
#include "src/common/os/timerfd.h"
#include "src/common/os/unique_fd.h"
#include "src/producer/fork_guard.h"

namespace tracering::internal {

class ControlClient {
 public:
  // Called on the driving thread, without locks of the client.
  class Delegate {
   public:
    virtual ~Delegate() = default;

    // A consumer has attached the rings and waits on `event_fd`. `first_error`
    // refuses it: the connection ends.
    virtual absl::Status OnAttached(const os::UniqueFd& event_fd,
                                    const control::Welcome& welcome) = 0;
    // The consumer has other categories enabled than those of its Welcome.
    virtual void OnCategories(std::vector<std::string> patterns) = 0;
    // The consumer of the last OnAttached is gone.
    virtual void OnDetached() = 0;
    // Called while attached: after RequestWork, and again after a moment if it
    // returned that something is left to do.
    virtual bool DoWork() = 0;
  };

  struct Config {
    std::string socket_path;  // empty: there is no service
    std::string process_name;
    std::vector<uid_t> allowed_uids;  // besides our own and root
    // What is shown to each consumer; the memfds are the delegate's and stay
    // open as long as the client.
    std::vector<control::RingInfo> rings;
    std::vector<const os::GuardedFd*> memfds;
  };

  // `delegate` outlives the client.
  static absl::StatusOr<std::unique_ptr<ControlClient>> Create(
      Config config, Delegate* delegate);

  // Says goodbye to a consumer that is there. Nobody drives it any more.
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Drives until Stop. On a thread that nobody else competes with.
  void Run();

  // Does what is due, after waiting for it for at most `timeout` (negative: for
  // ever). Returns false, at once, while somebody else drives or in a call
  // from the delegate, in a forked child, and if it cannot wait.
  bool Drive(std::chrono::milliseconds timeout);

  // Readable while Drive has something to do.
  int poll_fd() const { return epoll_.fd(); }

  // Ends Run, soon. Any thread.
  void Stop();

  // Makes DoWork be called if a consumer is attached. Any thread.
  void RequestWork();

  // Names a buffer to the present consumer and to all later ones, or throws
  // because there is no memory, and has not done so. When it
  // returns the message is on its way, so that it arrives before packets for
  // that buffer can be seen (unless the service does not read its socket). Any
  // thread.
  void AddBuffer(control::BufferInfo buffer);

  // Sends a trigger to the consumer that is attached, or about to be. Any
  // thread.
  absl::Status SendTrigger(std::string_view name);

  // Why there is no consumer. Empty while one is attached. Any thread.
  std::string last_error() const;

 private:
  enum class State { kIdle, kGreeting, kAttached };

  ControlClient(Config config, Delegate* delegate, os::Epoll epoll,
                os::TimerFd timer, os::GuardedFd wake_fd);

  // A call of the delegate has forked, and this is the child. It shares the
  // epoll instance and the timer with its parent.
  bool InForkedChild() const {
    return ForkGuard::Generation() != fork_generation_;
  }

  bool HandleReady(std::chrono::milliseconds timeout);
  void HandleTimer();
  void HandleWake();
  void HandleSocket(uint32_t events);
  void HandleMessage(const char* bytes, size_t size,
                     const std::vector<os::UniqueFd>& fds);
  void HandleWelcome(const control::Welcome& welcome,
                     const std::vector<os::UniqueFd>& fds);
  void Work();

  absl::StatusOr<os::UniqueFd> ConnectToTrusted() const;
  absl::Status Greet(os::UniqueFd socket);
  void Disconnect(std::string reason);
  // Out of memory: starts over, later.
  void GiveUpSession() noexcept;
  void ScheduleRetry();

  // With mutex_ held.
  absl::Status SendGreeting();
  void SendBuffers();
  template <typename Message>
  size_t TakeBuffers(Message* message) const;
  void CloseSocket();

  const Config config_;
  Delegate* const delegate_;
  os::Epoll epoll_;
  os::TimerFd timer_;
  const os::GuardedFd wake_fd_;

  std::atomic<bool> stop_{false};
  std::atomic<bool> driven_{false};

  // Of the driving thread.
  State state_ = State::kIdle;
  std::chrono::milliseconds retry_delay_;
  std::unique_ptr<char[]> receive_buffer_;

  mutable std::mutex mutex_;
  // Guarded by mutex_. Changed on the driving thread only, which may read it
  // without.
  os::GuardedFd socket_;
  std::vector<control::BufferInfo> buffers_;
  size_t num_buffers_sent_ = 0;  // to the present socket
  bool want_writable_ = false;
  std::string last_error_;

  const uint32_t fork_generation_;
  // socket_, for the fork handler.
  ForkGuard::Socket guarded_socket_;
  ForkGuard::Registration fork_registration_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CONTROL_CLIENT_H_
