// The counts of a tracing service in another process, asked for through its
// socket.
//
// A client of the control protocol; needs no Consumer of its own.
#ifndef TRACERING_SERVICE_STATS_H_
#define TRACERING_SERVICE_STATS_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "tracering/consumer_stats.h"
#include "tracering/export.h"

namespace tracering {

// What Consumer::stats() says there of packets, and of the producers that are
// connected: their packets, and of each ring num_chunks, outstanding and
// stopped. Nothing of buffers, flushes and descriptors.
//
// The service answers its own user, and root where root may connect. Errors:
// it is not there (UNAVAILABLE, NOT_FOUND), it refuses (PERMISSION_DENIED), it
// does not answer within `timeout` (DEADLINE_EXCEEDED), or it answers nonsense
// (DATA_LOSS). It is trusted no further: an answer costs a bounded amount of
// memory. Thread-safe.
TRACERING_EXPORT absl::StatusOr<ConsumerStats> QueryServiceStats(
    const std::string& socket_path, std::chrono::milliseconds timeout);

}  // namespace tracering

#endif  // TRACERING_SERVICE_STATS_H_
