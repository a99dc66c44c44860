// Signals that interrupt whatever this process does, as long as it exists.
//
// One at a time in a process, which has no other use for SIGALRM.
#ifndef TRACERING_TESTS_SUPPORT_SIGNAL_STORM_H_
#define TRACERING_TESTS_SUPPORT_SIGNAL_STORM_H_

#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>

#include "tests/support/require.h"

namespace tracering::test {

class SignalStorm {
 public:
  explicit SignalStorm(std::chrono::microseconds period) {
    struct sigaction action {};
    // Without SA_RESTART: system calls fail.
    action.sa_handler = [](int) { signals_.fetch_add(1); };
    signals_ = 0;
    Require(sigaction(SIGALRM, &action, &before_) == 0, "sigaction");
    SetTimer(period);
  }
  ~SignalStorm() {
    SetTimer(std::chrono::microseconds(0));
    sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

  // That have come so far.
  int signals() const { return signals_; }

 private:
  static void SetTimer(std::chrono::microseconds period) {
    const timeval every{0, period.count()};
    const itimerval times{every, every};
    Require(setitimer(ITIMER_REAL, &times, nullptr) == 0, "setitimer");
  }

  inline static std::atomic<int> signals_{0};
  struct sigaction before_ {};
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_SIGNAL_STORM_H_
