// Runs threads one shared access at a time, in the order that a test dictates.
//
//   StepSequencer sequencer;
//   auto& writer = sequencer.Start("writer", [&] { Publish(); });
//   auto& reader = sequencer.Start("reader", [&] { Drain(); });
//   writer.RunBefore(SharedAccess::kCompareExchange, chunk_word);
//   reader.RunToEnd();                      // the reader wins the race
//   writer.RunToEnd();
//
// An actor stands still before every access to a shared word (the hook of
// SharedWord) until it is told to go on, so at most one of them runs at any
// time: no sleeps, no luck. Whoever calls Step() on whichever actor it likes,
// and looks at pending(), can walk other orders than a test writes down.
//
// Needs the hooked libraries. The hand-over between actors orders everything,
// so a data race in the code under test is invisible to TSan here; that is the
// stress test's business.
#ifndef TRACERING_TESTS_SUPPORT_STEP_SEQUENCER_H_
#define TRACERING_TESTS_SUPPORT_STEP_SEQUENCER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/common/sync/shared_word.h"

#ifndef TRACERING_SHARED_WORD_HOOK
#error "link the hooked libraries: tracering_test(... HOOKED ...)"
#endif

namespace tracering::test {

using internal::SharedAccess;

struct PendingAccess {
  SharedAccess kind = SharedAccess::kLoad;
  const void* word = nullptr;  // null for a fence
};

// One thread under control. All methods are for the controlling thread.
class Actor {
 public:
  Actor(std::string name, std::function<void()> body);
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  // Lets the body run to its end.
  ~Actor();

  // Goes on, through the access before which the actor stands, until it stands
  // before the next one. False if the body ended first.
  bool Step();

  // Runs until the actor is about to make the `nth` access of that kind to
  // `word`; the one before which it stands already counts. False if the body
  // ended first, which a test must check.
  [[nodiscard]] bool RunBefore(SharedAccess kind, const void* word,
                               int nth = 1);
  void RunToEnd();

  // Lets the actor run by itself from here on, and returns at once: for what
  // blocks in the kernel until another actor acts. RunToEnd() waits for it.
  void Release();

  bool finished() const;
  // The access before which the actor stands; a load of no word before the
  // first step and after the end.
  PendingAccess pending() const;

  // For the hook, on the actor's own thread.
  void StandBefore(const PendingAccess& access);

 private:
  enum class State { kStanding, kRunning, kFinished };

  void Await(std::unique_lock<std::mutex>& lock, State state) const;

  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_ = State::kStanding;
  bool released_ = false;
  PendingAccess pending_;
  std::thread thread_;
};

// Owns the hook and the actors. At most one exists at a time. Threads that are
// not actors pass the hook untouched.
class StepSequencer {
 public:
  StepSequencer();
  ~StepSequencer();
  StepSequencer(const StepSequencer&) = delete;
  StepSequencer& operator=(const StepSequencer&) = delete;

  // Starts a thread that stands before the first statement of `body`.
  Actor& Start(std::string name, std::function<void()> body);

 private:
  std::vector<std::unique_ptr<Actor>> actors_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_STEP_SEQUENCER_H_
