// The walk; see stack_walk.h.
#include "src/producer/stack_walk.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

#include "absl/base/attributes.h"

namespace tracering::internal {
namespace {

// Nothing is mapped below, and no code lies in the kernel's half.
constexpr uintptr_t kMinCode = 4096;
constexpr uintptr_t kMaxCode = uintptr_t{1} << (8 * sizeof(uintptr_t) - 1);

bool IsCode(uintptr_t address) {
  return address >= kMinCode && address < kMaxCode;
}

// Frames lie above the stack pointer, each above the one that it called.
bool IsFramePointer(uintptr_t address, uintptr_t above, uintptr_t bottom) {
  return address % alignof(uintptr_t) == 0 && address >= above &&
         address - bottom < kMaxStackBytes;
}

}  // namespace

StackRegisters RegistersOf(const void* context) {
  StackRegisters registers;
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  registers.pc = static_cast<uintptr_t>(machine.gregs[REG_RIP]);
  registers.stack_pointer = static_cast<uintptr_t>(machine.gregs[REG_RSP]);
  registers.frame_pointer = static_cast<uintptr_t>(machine.gregs[REG_RBP]);
#elif defined(__aarch64__)
  registers.pc = machine.pc;
  registers.stack_pointer = machine.sp;
  registers.frame_pointer = machine.regs[29];
#else
  (void)machine;  // samples have a thread and a time, and no stack
#endif
  return registers;
}

void StackWalker::Walk(const StackRegisters& registers,
                       const StackBounds& stack, StackTrace* trace) {
  window_start_ = window_end_ = 0;
  trace->size = 0;
  trace->truncated = false;
  trace->frames[trace->size++] = registers.pc;
  uintptr_t above = registers.stack_pointer;
  uintptr_t address = registers.frame_pointer;
  // Where frames that begin below it can be loaded: each lies above the stack
  // pointer. None if that points elsewhere, into another stack of the program.
  const uintptr_t loadable =
      stack.Hold(registers.stack_pointer) ? stack.end - sizeof(Frame) + 1 : 0;
  Frame frame;
  while (IsFramePointer(address, above, registers.stack_pointer)) {
    if (address < loadable) {
      frame = LoadFrame(address);
    } else if (!CopyFrame(address, &frame)) {
      return;
    }
    if (!IsCode(frame.return_address)) return;
    if (trace->size == kMaxStackFrames) {
      trace->truncated = true;
      return;
    }
    trace->frames[trace->size++] = frame.return_address;
    above = address + sizeof(Frame);
    address = frame.caller_frame_pointer;
  }
}

// The frame pointer points to the caller's, beside which lies the address to
// return to, on x86-64 and aarch64 alike. A sanitizer would object to some of
// what lies there if the chain is none.
ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS ABSL_ATTRIBUTE_NO_SANITIZE_THREAD
    StackWalker::Frame
    StackWalker::LoadFrame(uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what it was before.
  const auto* const words = reinterpret_cast<const uintptr_t*>(address);
  return {words[0], words[1]};
}

bool StackWalker::CopyFrame(uintptr_t address, Frame* frame) {
  if (address < window_start_ || address + sizeof(Frame) > window_end_) {
    // To the end of the page, which the frame may straddle, and no further: the
    // next mapping may be one where a read waits for somebody.
    const size_t size =
        std::max<size_t>(kBlockBytes - address % kBlockBytes, sizeof(Frame));
    iovec local{window_.data(), size};
    // An address for the kernel only.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    iovec remote{reinterpret_cast<void*>(address), size};
    // Not by way of the C library: a sanitizer would have a look at it.
    const long copied =
        syscall(SYS_process_vm_readv, pid_, &local, 1UL, &remote, 1UL, 0UL);
    if (copied < static_cast<long>(sizeof(Frame))) return false;
    window_start_ = address;
    window_end_ = address + static_cast<uintptr_t>(copied);
  }
  std::memcpy(frame, window_.data() + (address - window_start_),
              sizeof(*frame));
  return true;
}

}  // namespace tracering::internal
