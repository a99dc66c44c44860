// Hand-over by one mutex and one condition variable per actor; see the header.
#include "tests/support/step_sequencer.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tracering::test {
namespace {

// An actor that does not come to its next access within this time waits for
// something that the test holds back: a mistake in the test, or a hang found.
constexpr std::chrono::seconds kStuck{60};

thread_local Actor* current_actor = nullptr;

void OnAccess(SharedAccess kind, const void* word) {
  if (current_actor != nullptr) current_actor->StandBefore({kind, word});
}

}  // namespace

Actor::Actor(std::string name, std::function<void()> body)
    : name_(std::move(name)) {
  thread_ = std::thread([this, run = std::move(body)] {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return state_ == State::kRunning; });
    }
    current_actor = this;
    run();
    current_actor = nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    state_ = State::kFinished;
    pending_ = {};
    changed_.notify_all();
  });
}

Actor::~Actor() {
  RunToEnd();
  thread_.join();
}

// Waits while the actor is in `state`.
void Actor::Await(std::unique_lock<std::mutex>& lock, State state) const {
  if (!changed_.wait_for(lock, kStuck, [&] { return state_ != state; })) {
    std::fprintf(stderr, "actor \"%s\" is stuck after access %d to %p\n",
                 name_.c_str(), static_cast<int>(pending_.kind), pending_.word);
    std::abort();
  }
}

bool Actor::Step() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (state_ == State::kStanding) {
    state_ = State::kRunning;
    changed_.notify_all();
  }
  Await(lock, State::kRunning);
  return state_ != State::kFinished;
}

bool Actor::RunBefore(SharedAccess kind, const void* word, int nth) {
  const auto matches = [&] {
    const PendingAccess access = pending();
    return access.kind == kind && access.word == word;
  };
  for (;;) {
    if (matches() && --nth == 0) return true;
    if (!Step()) return false;
  }
}

void Actor::Release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  released_ = true;
  if (state_ == State::kStanding) state_ = State::kRunning;
  changed_.notify_all();
}

void Actor::RunToEnd() {
  Release();
  std::unique_lock<std::mutex> lock(mutex_);
  Await(lock, State::kRunning);
}

bool Actor::finished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kFinished;
}

PendingAccess Actor::pending() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pending_;
}

void Actor::StandBefore(const PendingAccess& access) {
  std::unique_lock<std::mutex> lock(mutex_);
  pending_ = access;
  if (released_) return;
  state_ = State::kStanding;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ == State::kRunning; });
}

StepSequencer::StepSequencer() {
  internal::SharedWordHook none = nullptr;
  if (!internal::shared_word_hook.compare_exchange_strong(none, &OnAccess)) {
    std::fprintf(stderr, "the hook of SharedWord is taken\n");
    std::abort();
  }
}

StepSequencer::~StepSequencer() {
  // All of them first: one may be waiting for another.
  for (const auto& actor : actors_) actor->Release();
  actors_.clear();
  internal::shared_word_hook.store(nullptr);
}

Actor& StepSequencer::Start(std::string name, std::function<void()> body) {
  actors_.push_back(std::make_unique<Actor>(std::move(name), std::move(body)));
  return *actors_.back();
}

}  // namespace tracering::test
