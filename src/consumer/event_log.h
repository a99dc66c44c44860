// Lines for the user's log callback: collected anywhere, handed over where no
// lock is held.
//
// Thread-safe. Bounded: what a noisy peer causes beyond that is counted, not
// kept.
#ifndef TRACERING_SRC_CONSUMER_EVENT_LOG_H_
#define TRACERING_SRC_CONSUMER_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tracering::internal {

class EventLog {
 public:
  using Callback = std::function<void(std::string_view)>;
  static constexpr size_t kMaxLines = 1024;

  // A null callback makes all of this a no-op.
  explicit EventLog(Callback callback) : callback_(std::move(callback)) {}
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Queues one line. Any lock may be held.
  void Add(std::string line);

  // Calls back for what is queued. No lock may be held. Where another thread,
  // or this one further up its stack, is at it already, that one does it all.
  void Dispatch();

 private:
  const Callback callback_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
  bool dispatching_ = false;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_EVENT_LOG_H_
