// The replacements of operator new and delete; see counting_allocator.h. All
// forms come down to one, so that any new goes with any delete. Thread-safe.
#include "tests/producer/counting_allocator.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> allocations{0};

std::atomic<bool> fails_elsewhere{false};
thread_local bool is_spared = false;
constexpr int64_t kNever = -1;
thread_local int64_t left = kNever;

bool Fails() {
  if (fails_elsewhere.load() && !is_spared) return true;
  if (left == 0) return true;
  if (left > 0) --left;
  return false;
}

void* Allocate(size_t size, size_t alignment) noexcept {
  allocations.fetch_add(1);
  if (Fails()) return nullptr;
  void* memory = nullptr;
  const size_t least = std::max(alignment, sizeof(void*));
  return posix_memalign(&memory, least, size) == 0 ? memory : nullptr;
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return AllocateOrThrow(size, 1); }
void* operator new[](size_t size) { return AllocateOrThrow(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 1);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tracering::test {

uint64_t NumAllocations() { return allocations.load(); }

void FailOwnAllocationsFrom(int64_t n) { left = n; }

void FailAllocationsElsewhere() {
  is_spared = true;
  fails_elsewhere.store(true);
}

void StopFailing() {
  left = kNever;
  fails_elsewhere.store(false);
}

}  // namespace tracering::test
