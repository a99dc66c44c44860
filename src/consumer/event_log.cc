// See event_log.h.
#include "src/consumer/event_log.h"

#include <fmt/format.h>

#include <utility>

#include "src/common/ring/draining_thread.h"

namespace tracering::internal {

void EventLog::Add(std::string line) {
  if (callback_ == nullptr) return;
  std::lock_guard<std::mutex> guard(mutex_);
  if (lines_.size() >= kMaxLines) {
    ++dropped_;
    return;
  }
  lines_.push_back(std::move(line));
}

void EventLog::AddTrigger(TriggerEvent trigger) {
  if (on_trigger_ == nullptr) return;
  std::lock_guard<std::mutex> guard(mutex_);
  if (triggers_.size() >= kMaxTriggers) return;
  size_t of_producer = 0;
  for (const TriggerEvent& queued : triggers_) {
    if (queued.producer != trigger.producer) continue;
    if (queued.name == trigger.name) return;
    if (++of_producer == kMaxTriggersPerProducer) return;
  }
  triggers_.push_back(std::move(trigger));
}

void EventLog::Dispatch() {
  std::unique_lock<std::mutex> guard(mutex_);
  if (dispatching_) return;
  if (lines_.empty() && triggers_.empty()) return;
  dispatching_ = true;
  // A callback that traces with a stalling writer must not wait for the very
  // thread that it keeps from draining.
  DrainingSeat seat;
  seat.Take();
  while (!lines_.empty() || !triggers_.empty()) {
    if (lines_.empty()) {
      const TriggerEvent trigger = std::move(triggers_.front());
      triggers_.pop_front();
      guard.unlock();
      on_trigger_(trigger);
      guard.lock();
      continue;
    }
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    guard.unlock();
    callback_(line);
    guard.lock();
    if (lines_.empty() && dropped_ != 0) {
      lines_.push_back(fmt::format("{} further lines were left out",
                                   std::exchange(dropped_, 0)));
    }
  }
  dispatching_ = false;
}

}  // namespace tracering::internal
