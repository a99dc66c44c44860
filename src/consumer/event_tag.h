// What the consumer's epoll reports: a kind of event and, for most kinds, the
// number of a session. Numbers instead of pointers, because an event may be
// reported after its session has gone. constexpr only.
#ifndef TRACERING_SRC_CONSUMER_EVENT_TAG_H_
#define TRACERING_SRC_CONSUMER_EVENT_TAG_H_

#include <cstdint>

namespace tracering::internal {

enum class EventKind : uint32_t {
  kWakeUp,         // another thread wants the loop to look
  kTimer,          // drain_period
  kListener,       // a connection waits
  kConnection,     // of a session: a message, or a hang-up
  kProcessExit,    // of a session: its pidfd
  kWritersSignal,  // of a session: its eventfd
};

inline constexpr int kTagKindShift = 60;

// Sessions are numbered from 1; nobody lives to see 2^60 of them.
constexpr uint64_t EventTag(EventKind kind, uint64_t session = 0) {
  return uint64_t{static_cast<uint32_t>(kind)} << kTagKindShift | session;
}
constexpr EventKind KindOfTag(uint64_t tag) {
  return static_cast<EventKind>(tag >> kTagKindShift);
}
constexpr uint64_t SessionOfTag(uint64_t tag) {
  return tag & ((uint64_t{1} << kTagKindShift) - 1);
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_EVENT_TAG_H_
