// The slot list and the child handler; see fork_guard.h.
#include "src/producer/fork_guard.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <new>

#include "src/common/os/errno_saver.h"
#include "src/common/os/fork_safe.h"
#include "src/common/os/shared_mapping.h"
#include "src/producer/producer_ring.h"

namespace tracering::internal {

// Never freed, so that the list can be walked at any instant; a free slot is
// taken again. In one cache line, and so in one page: a child sees the state
// that belongs to the targets that it sees.
struct alignas(64) ForkGuard::Slot {
  enum class State : uint32_t {
    kFree,
    kTaken,  // its targets are being written: nothing of them is in use yet
    kLive,
  };

  std::atomic<State> state{State::kTaken};
  Targets targets;
  Slot* next = nullptr;  // immutable once the slot is in the list
};

namespace {

static_assert(sizeof(ForkGuard::Slot) == 64);

// Constant-initialised and trivially destroyed: usable before and after
// everything else.
std::atomic<uint32_t> generation{0};
std::atomic<ForkGuard::Slot*> slots{nullptr};

struct Abandoned {
  const void* object;
  Abandoned* next;
};
std::atomic<Abandoned*> abandoned{nullptr};

void Neutralise(const ForkGuard::Targets& targets) {
  if (targets.mapping != nullptr) {
    targets.mode->store(RingMode::kClosed, std::memory_order_relaxed);
    targets.consumer_attached->store(false, std::memory_order_relaxed);
    // Fails only for lack of kernel memory. Then the mode alone protects the
    // parent, from everything but a packet that is open right now.
    (void)os::ReplaceWithPrivateZeroes(targets.mapping, targets.mapping_bytes);
  }
  if (targets.socket != nullptr) {
    const int fd =
        targets.socket->number.exchange(-1, std::memory_order_acquire);
    struct stat info {};
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) &&
        info.st_ino == targets.socket->inode.load(std::memory_order_relaxed)) {
      close(fd);
    }
  }
}

// Only the forking thread exists here. Async-signal-safe, as the child of a
// process with threads must be until it execs.
void OnForkInChild() {
  os::ErrnoSaver saver;
  generation.fetch_add(1, std::memory_order_relaxed);
  for (ForkGuard::Slot* slot = slots.load(std::memory_order_acquire);
       slot != nullptr; slot = slot->next) {
    if (slot->state.load(std::memory_order_acquire) ==
        ForkGuard::Slot::State::kLive) {
      Neutralise(slot->targets);
    }
  }
}

// call_once is pthread_once, which knows about fork: a child of a fork in the
// middle of it starts over instead of waiting for a thread that it has not got.
// A handler that is there twice does no harm.
void InstallOnce() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, OnForkInChild); });
}

}  // namespace

uint32_t ForkGuard::Generation() {
  return generation.load(std::memory_order_relaxed);
}

ForkGuard::Registration::Registration(const Targets& targets) {
  InstallOnce();
  for (Slot* slot = slots.load(std::memory_order_acquire); slot != nullptr;
       slot = slot->next) {
    Slot::State expected = Slot::State::kFree;
    if (slot->state.compare_exchange_strong(expected, Slot::State::kTaken,
                                            std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      slot_ = slot;
      break;
    }
  }
  if (slot_ == nullptr) {
    slot_ = new Slot;
    os::PushFront(&slots, slot_);
  }
  slot_->targets = targets;
  slot_->state.store(Slot::State::kLive, std::memory_order_release);
}

ForkGuard::Registration::~Registration() {
  slot_->state.store(Slot::State::kFree, std::memory_order_release);
}

void Abandon(const void* object) {
  auto* const entry = new (std::nothrow) Abandoned{object, nullptr};
  if (entry != nullptr) os::PushFront(&abandoned, entry);
}

}  // namespace tracering::internal
