// A module that is loaded, sampled and unloaded.
#include <atomic>
#include <cstdint>

extern "C" __attribute__((visibility("default"))) uint64_t ProfiledPluginSpin(
    const std::atomic<bool>* stop) {
  uint64_t state = 1;
  while (!stop->load(std::memory_order_relaxed)) {
    asm volatile("" : "+m"(state));
    ++state;
  }
  return state;
}
