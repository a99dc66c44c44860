// Switching stacks: by hand on x86-64, by ucontext elsewhere; see fiber.h.
#include "tests/explore/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "tests/support/require.h"

namespace tracering::test {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

#if defined(__x86_64__)
constexpr bool kByHand = true;

extern "C" void TraceringSwitchStacks(void** leave, void* enter);

// What a function call does not preserve is saved by the caller; this saves the
// rest, and nobody changes the floating-point modes.
asm(R"(
  .text
  .globl TraceringSwitchStacks
  .hidden TraceringSwitchStacks
  .type TraceringSwitchStacks, @function
TraceringSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size TraceringSwitchStacks, . - TraceringSwitchStacks
)");
constexpr size_t kSavedRegisters = 6;

#else
constexpr bool kByHand = false;
constexpr size_t kSavedRegisters = 0;
void TraceringSwitchStacks(void**, void*) {}
#endif

}  // namespace

void ExecutionContext::SwitchTo(ExecutionContext& next) {
  if constexpr (kByHand) {
    TraceringSwitchStacks(&stack_pointer_, next.stack_pointer_);
  } else {
    swapcontext(&context_, &next.context_);
  }
}

Fiber::Fiber()
    : stack_(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {
  Require(stack_ != MAP_FAILED, "mapping a stack");
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::Prepare(void (*entry)()) {
  if constexpr (kByHand) {
    // As if `entry` had been called: above its return address, which is never
    // used, the stack is aligned to 16 bytes.
    auto* top = reinterpret_cast<uintptr_t*>(static_cast<char*>(stack_) +
                                             kStackBytes - 64 - 8);
    *top = 0;
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (size_t i = 0; i < kSavedRegisters; ++i) *--top = 0;
    context_.stack_pointer_ = top;
  } else {
    getcontext(&context_.context_);
    context_.context_.uc_stack.ss_sp = stack_;
    context_.context_.uc_stack.ss_size = kStackBytes;
    context_.context_.uc_link = nullptr;
    makecontext(&context_.context_, entry, 0);
  }
}

}  // namespace tracering::test
