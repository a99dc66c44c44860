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
// have sent soon, on a thread that ends when it has nothing to do. While that
// is stuck in one of them for a second, another thread goes on with the rest,
// up to 32 of them; what they cannot take stays open until one is free. A
// forked child does not close what waited when it was forked.
void CloseUntrusted(std::vector<UniqueFd> fds) noexcept;

// Closes a connection after taking out of it what the peer has sent and nobody
// has received, so that no descriptor is closed along with the socket.
void CloseConnection(UniqueFd socket) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_UNTRUSTED_FDS_H_
