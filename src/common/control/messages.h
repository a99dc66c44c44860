// What producer and consumer say to each other on the control socket, as plain
// structs; docs/control.proto is their normative form on the wire.
//
// No I/O, no judgement of content: names, geometry and ids are checked by
// whoever receives them. Descriptors travel beside a message (see NumFds).
#ifndef TRACERING_SRC_COMMON_CONTROL_MESSAGES_H_
#define TRACERING_SRC_COMMON_CONTROL_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tracering::control {

// One message is one datagram. A longer one is neither sent nor accepted.
inline constexpr size_t kMaxMessageSize = 64 * 1024;
// One descriptor each, and the kernel passes at most 253 with one datagram.
// A producer with more rings sends the rest in AddRings.
inline constexpr size_t kMaxRingsPerMessage = 253;
inline constexpr size_t kMaxBuffersPerMessage = 1024;
// Names of unknown buffers, category patterns.
inline constexpr size_t kMaxNamesPerMessage = 1024;
// Any name or pattern, in bytes. Names are bytes, by convention UTF-8.
inline constexpr size_t kMaxNameSize = 255;
inline constexpr size_t kMaxReasonSize = 1024;
inline constexpr size_t kMaxProducersPerMessage = 1024;
inline constexpr size_t kMaxLossCauses = 64;

// An enum of protobuf is signed, and has another form where it is negative.
inline constexpr uint32_t kMaxRingRole = 0x7fff'ffff;

// What a ring is for, so that statistics can say so. Roles of a newer peer
// keep their number.
enum class RingRole : uint32_t {
  kShared = 0,       // all buffers without a ring of their own
  kOwnBuffer = 1,    // one target buffer only
  kDescriptors = 2,  // descriptors of processes, threads and tracks
};

struct RingInfo {
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
  RingRole role = RingRole::kShared;
  // Counts the producer's rings from 0; stays the same across sessions.
  uint32_t index = 0;
};

struct BufferInfo {
  uint16_t id = 0;  // allocated by the producer, see BufferId
  std::string name;
};

// --- Producer to consumer ---

// First message of a connection, once.
struct Hello {
  // The range of ring ABI versions that the producer can write. Its rings are
  // laid out in the highest.
  uint32_t abi_version_min = 0;
  uint32_t abi_version_max = 0;
  std::string process_name;
  // As the producer sees itself. For display; the socket's peer credentials
  // are what counts.
  uint32_t pid = 0;
  std::vector<RingInfo> rings;
  std::vector<BufferInfo> buffers;
};

struct AddRings {
  std::vector<RingInfo> rings;
};

struct AddBuffers {
  std::vector<BufferInfo> buffers;
};

struct Trigger {
  std::string name;
};

// The producer shuts down in good order: a hang-up that follows is no crash.
struct Goodbye {};

// Instead of Hello: asks for counts of producers with ids above this one.
struct StatsRequest {
  uint64_t after_producer = 0;
};

// --- Consumer to producer ---

// Answers Hello: the rings are attached. Carries the eventfd.
struct Welcome {
  uint32_t abi_version = 0;  // within the range of Hello
  std::vector<std::string> unknown_buffers;
  std::vector<std::string> enabled_categories;  // glob patterns
};

// Answers Hello, and closes the connection.
struct Reject {
  std::string reason;
};

// Replaces the patterns of Welcome or of an earlier SetEnabled.
struct SetEnabled {
  std::vector<std::string> patterns;
};

// Packets, by cause where they are lost.
struct PacketInfo {
  uint64_t delivered = 0;
  uint64_t delivered_bytes = 0;
  std::vector<uint64_t> lost;
};

struct RingLoad {
  uint32_t num_chunks = 0;
  uint32_t outstanding = 0;
  bool stopped = false;
};

struct ProducerInfo {
  uint64_t id = 0;
  std::string name;
  uint32_t pid = 0;
  uint32_t uid = 0;
  std::optional<PacketInfo> packets;
  std::vector<RingLoad> rings;
};

// Answers StatsRequest.
struct ServiceStats {
  std::vector<ProducerInfo> producers;
  bool more = false;
  std::optional<PacketInfo> gone;
  uint64_t producers_seen = 0;
  uint64_t producers_refused = 0;
  uint64_t rings_stopped = 0;
};

// monostate: a kind of message that this version does not know. To be ignored.
using ProducerMessage =
    std::variant<std::monostate, Hello, AddRings, AddBuffers, Trigger, Goodbye,
                 StatsRequest>;
using ConsumerMessage =
    std::variant<std::monostate, Welcome, Reject, SetEnabled, ServiceStats>;

// How many descriptors travel with a message: one per ring, in the order of
// the rings; the eventfd with Welcome; none otherwise. A receiver refuses a
// message that comes with another number. Nothing is known of an unknown
// message, so that any number of descriptors may come with it.
size_t NumFds(const ProducerMessage& message);
size_t NumFds(const ConsumerMessage& message);

}  // namespace tracering::control

#endif  // TRACERING_SRC_COMMON_CONTROL_MESSAGES_H_
