// What the consumer holds on behalf of one producer: its connection, its rings
// and what they may write to. A ring attached by hand is a session without a
// connection.
//
// A plain struct; SessionRegistry keeps its invariants. Guarded by the loop
// mutex.
#ifndef TRACERING_SRC_CONSUMER_PRODUCER_SESSION_H_
#define TRACERING_SRC_CONSUMER_PRODUCER_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/common/os/unique_fd.h"
#include "src/common/os/unix_socket.h"
#include "src/consumer/attached_ring.h"

namespace tracering::internal {

enum class SessionPhase {
  kGreeting,  // connected; Hello is awaited, there are no rings
  kAttached,
  kClosing,  // takes what is left in the rings, then goes
};

// A message that was taken off the socket before its turn.
struct EarlyMessage {
  os::ReceivedMessage received;
  std::string bytes;
};

struct ProducerSession {
  ProducerSession(uint64_t session_id, size_t partial_limit)
      : id(session_id), owner(session_id, partial_limit) {}

  const uint64_t id;
  SessionPhase phase = SessionPhase::kGreeting;
  std::string name;  // as the peer says: any bytes
  // Asks for stats instead of saying Hello. Not before it has asked.
  bool is_observer = false;

  os::UniqueFd socket;  // invalid for a ring that was attached by hand
  std::deque<EarlyMessage> early_messages;
  // It is to be told, once its socket takes it, which categories are enabled.
  bool owes_categories = false;
  os::UniqueFd pidfd;
  os::UniqueFd event_fd;

  // Rings point to it.
  RingOwner owner;

  std::vector<std::unique_ptr<AttachedRing>> rings;
  size_t ring_bytes = 0;
  // While closing: what each ring has to reach, and how many more slices that
  // may take.
  std::vector<uint64_t> closing_ends;
  uint64_t closing_slices_left = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_PRODUCER_SESSION_H_
