// What the user's callbacks are to hear, lines for the log and triggers:
// collected anywhere, handed over where no lock is held.
//
// Thread-safe. Bounded: what a noisy peer causes beyond that is counted, not
// kept, and takes no trigger of another one's away.
#ifndef TRACERING_SRC_CONSUMER_EVENT_LOG_H_
#define TRACERING_SRC_CONSUMER_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tracering/consumer.h"

namespace tracering::internal {

class EventLog {
 public:
  using Callback = std::function<void(std::string_view)>;
  using TriggerCallback = std::function<void(const TriggerEvent&)>;
  static constexpr size_t kMaxLines = 1024;
  static constexpr size_t kMaxTriggers = 1024;
  static constexpr size_t kMaxTriggersPerProducer = 16;

  // What there is no callback for is dropped.
  explicit EventLog(Callback callback, TriggerCallback on_trigger = nullptr)
      : callback_(std::move(callback)), on_trigger_(std::move(on_trigger)) {}
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Queues one line. Any lock may be held.
  void Add(std::string line);

  // Queues a trigger, unless that producer has pulled it already or too many
  // others, and nobody has heard of them yet. Any lock may be held.
  void AddTrigger(TriggerEvent trigger);

  // Calls back for what is queued. No lock may be held. Where another thread,
  // or this one further up its stack, is at it already, that one does it all.
  void Dispatch();

 private:
  const Callback callback_;
  const TriggerCallback on_trigger_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  std::deque<TriggerEvent> triggers_;
  uint64_t dropped_ = 0;
  bool dispatching_ = false;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_EVENT_LOG_H_
