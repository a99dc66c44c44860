// Getting rid of descriptors that a peer has sent, and of the connection that
// may hold more of them.
//
// Closing one can block for as long as the peer likes: a lingering TCP socket
// waits for data that nobody reads, a file of a FUSE mount for a server that
// does not answer. Nothing here waits for that. Thread-safe.
#ifndef TRACERING_SRC_COMMON_OS_UNTRUSTED_FDS_H_
#define TRACERING_SRC_COMMON_OS_UNTRUSTED_FDS_H_

#include <vector>

#include "src/common/os/unique_fd.h"

namespace tracering::os {

// Closes `fds`: memory files, which cannot block, at once; what else a peer may
// have sent in a thread of its own. There are at most 8 such threads; while all
// of them are stuck, further descriptors are left open rather than waited for.
void CloseUntrusted(std::vector<UniqueFd> fds) noexcept;

// Closes a connection after taking out of it what the peer has sent and nobody
// has received, so that no descriptor is closed along with the socket.
void CloseConnection(UniqueFd socket) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_UNTRUSTED_FDS_H_
