// Who we are: names and ids of this process and thread, where the service's
// socket is unless somebody says otherwise, and how much we may still open.
//
// Asks the kernel and the environment each time; keeps no state.
#ifndef TRACERING_SRC_COMMON_OS_PROCESS_H_
#define TRACERING_SRC_COMMON_OS_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tracering::os {

// The program's name without its directory; never empty.
std::string ProcessName();

// The calling thread's name as the kernel has it, at most 15 bytes.
std::string CurrentThreadName();

// The kernel's id of the calling thread. Not cached, so that it is right in a
// forked child. Async-signal-safe.
pid_t CurrentThreadId() noexcept;

// `configured` unless it is empty, else $TRACERING_SOCKET, else
// $XDG_RUNTIME_DIR/tracering.sock, else /tmp/tracering-<uid>.sock. The
// environment is ignored in a program that runs with raised privileges.
std::string ResolveSocketPath(std::string_view configured);

// Whether the next descriptor would get one of the last `reserve` numbers that
// this process may use. No more than half of them are reserved. False if
// there is none at all: whoever opens it finds out why.
bool NextFdIsReserved(size_t reserve) noexcept;

}  // namespace tracering::os

#endif  // TRACERING_SRC_COMMON_OS_PROCESS_H_
