// Waiting for what another thread or process is about to do, where nothing
// signals it: looks again and again, and gives up at a generous deadline.
//
// The only place in the tests that sleeps, between two looks. A test that can
// wait for an exit, a byte or a wake-up should do that instead.
#ifndef TRACERING_TESTS_SUPPORT_EVENTUALLY_H_
#define TRACERING_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <thread>

namespace tracering::test {

// Whether `condition()` came to hold within `timeout`.
template <typename Condition>
[[nodiscard]] bool Eventually(
    Condition condition,
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_EVENTUALLY_H_
