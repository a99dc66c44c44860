// The call stack of an interrupted thread, by its chain of frame pointers.
//
// The chain may be anything: code without frame pointers uses the register for
// other things. So nothing is read through it directly. The kernel copies the
// stack (process_vm_readv on ourselves) and says where there is none: one
// system call for each 4 KiB that the chain runs through. Async-signal-safe;
// changes errno. One walk at a time for each walker.
#ifndef TRACERING_SRC_PRODUCER_STACK_WALK_H_
#define TRACERING_SRC_PRODUCER_STACK_WALK_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/producer/stack_bounds.h"

namespace tracering::internal {

inline constexpr size_t kMaxStackFrames = 64;

struct StackRegisters {
  uintptr_t pc = 0;
  uintptr_t stack_pointer = 0;
  uintptr_t frame_pointer = 0;
};

// Of the ucontext_t that a signal handler is given.
StackRegisters RegistersOf(const void* context);

struct StackTrace {
  // Innermost first: the pc, then return addresses.
  std::array<uintptr_t, kMaxStackFrames> frames;
  size_t size = 0;
  bool truncated = false;  // the chain goes on
};

class StackWalker {
 public:
  explicit StackWalker(pid_t pid) : pid_(pid) {}

  // Always finds the pc. `stack`: of the interrupted thread, which stays
  // interrupted; empty where it is not known.
  void Walk(const StackRegisters& registers, const StackBounds& stack,
            StackTrace* trace);

 private:
  static constexpr size_t kBlockBytes = 4096;

  struct Frame {
    uintptr_t caller_frame_pointer;
    uintptr_t return_address;
  };

  static Frame LoadFrame(uintptr_t address);
  bool CopyFrame(uintptr_t address, Frame* frame);

  const pid_t pid_;
  // What lies from window_start_ to window_end_, as it was in this walk.
  uintptr_t window_start_ = 0;
  uintptr_t window_end_ = 0;
  std::array<unsigned char, kBlockBytes> window_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_STACK_WALK_H_
