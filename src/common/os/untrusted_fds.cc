// Closing what peers have sent; see untrusted_fds.h for what may go wrong.
#include "src/common/os/untrusted_fds.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "src/common/os/background_thread.h"
#include "src/common/os/unix_socket.h"

namespace tracering::os {
namespace {

constexpr int kMaxClosers = 8;
std::atomic<int> closers{0};

// Answered without asking the file system behind `fd`; see CheckSealedMemory.
bool IsMemoryFile(const UniqueFd& fd) {
  return fcntl(fd.get(), F_GET_SEALS) >= 0;
}

// Starts a thread that closes and frees `fds`. False if there is none to be
// had; nothing has happened then.
bool CloseInThread(std::vector<UniqueFd>* fds) {
  if (closers.fetch_add(1, std::memory_order_relaxed) < kMaxClosers) {
    absl::StatusOr<BackgroundThread> thread =
        BackgroundThread::Start("tracering-close", [fds] {
          delete fds;
          closers.fetch_sub(1, std::memory_order_relaxed);
        });
    if (thread.ok()) {
      thread->Detach();
      return true;
    }
  }
  closers.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

void CloseUntrusted(std::vector<UniqueFd> fds) noexcept {
  fds.erase(std::remove_if(fds.begin(), fds.end(), IsMemoryFile), fds.end());
  if (fds.empty()) return;
  auto owned = std::make_unique<std::vector<UniqueFd>>(std::move(fds));
  if (CloseInThread(owned.get())) {
    (void)owned.release();
    return;
  }
  for (UniqueFd& fd : *owned) (void)fd.release();  // left open on purpose
}

void CloseConnection(UniqueFd socket) noexcept {
  // The peer can add nothing after this, so the loop ends.
  if (!socket.valid() || shutdown(socket.get(), SHUT_RDWR) != 0) return;
  for (;;) {
    char byte = 0;
    ReceivedMessage message =
        ReceiveMessage(socket.get(), &byte, sizeof(byte), kMaxFdsPerMessage);
    CloseUntrusted(std::move(message.fds));
    if (message.outcome != ReceiveOutcome::kMessage &&
        message.outcome != ReceiveOutcome::kPayloadTruncated &&
        message.outcome != ReceiveOutcome::kControlTruncated) {
      return;
    }
  }
}

}  // namespace tracering::os
