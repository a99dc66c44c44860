// What happens to rings and sockets in a child made by fork().
//
// The child shares the parent's memory files and socket. From its first
// instruction on nothing it does may reach them: the pthread_atfork child
// handler walks a list that is readable at any instant, whatever other threads
// were doing when fork() was called, closes what is registered as a socket,
// and puts private zeroes in place of each ring. A packet that was open goes on
// writing there and finds an unexpected word at its end.
//
// Locks are of no use here: one that another thread held at fork() is held for
// ever in the child. Code that may run in a child asks Generation() before it
// locks or joins anything.
#ifndef TRACERING_SRC_PRODUCER_FORK_GUARD_H_
#define TRACERING_SRC_PRODUCER_FORK_GUARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tracering::internal {

enum class RingMode : uint32_t;

class ForkGuard {
 public:
  struct Slot;

  // Differs between a process and its forked children. Async-signal-safe.
  static uint32_t Generation();

  // The number of a socket, or -1, and its inode, which is stored first and
  // tells it from whatever else the program may have at that number.
  struct Socket {
    std::atomic<uint64_t> inode{0};
    std::atomic<int> number{-1};
  };

  // What a registration covers. The members are read in the child handler and
  // stay in place while the registration exists.
  struct Targets {
    // A ring: its mapping, and the flags that its writers look at.
    void* mapping = nullptr;
    size_t mapping_bytes = 0;
    std::atomic<RingMode>* mode = nullptr;
    std::atomic<bool>* consumer_attached = nullptr;
    // Closed, and -1 in the child.
    Socket* socket = nullptr;
  };

  // Covers its targets from construction to destruction; the first one of the
  // process installs the handler. Thread-safe; takes no lock, and so may be
  // destroyed in a child. Allocates at construction.
  class Registration {
   public:
    explicit Registration(const Targets& targets);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    Slot* slot_ = nullptr;
  };
};

// For objects that cannot be destroyed: in a child, because another thread may
// have been in the middle of changing them; elsewhere, because somebody never
// let go of them. Keeps `object` reachable for ever, so that it is no leak.
// Lock-free.
void Abandon(const void* object);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_FORK_GUARD_H_
