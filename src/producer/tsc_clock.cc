// Lines, how they are published and how they follow each other; see
// tsc_clock.h.
#include "src/producer/tsc_clock.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tracering::internal {
namespace {

using Line = TscClock::Line;

// The best of so many readings of both clocks is taken: the processor may be
// taken away in the middle of one.
constexpr int kReadings = 8;
// What a rate may differ from the last one by before it is a step of
// CLOCK_BOOTTIME instead, as after a suspend: one part of so many.
constexpr uint64_t kMaxRateChange = 1000;
// How much slower than CLOCK_BOOTTIME a line may be that is ahead of it.
constexpr uint64_t kMaxSlowdown = 10;
// Counters of two processors may differ by as much.
constexpr uint64_t kMaxSkewTicks = uint64_t{1} << 16;
constexpr std::chrono::milliseconds kFirstReading{5};

uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

struct Reading {
  uint64_t ticks;
  uint64_t ns;
};

Reading ReadBoth() {
  Reading best{0, 0};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t before = Ticks();
    const uint64_t ns = NowNs();
    const uint64_t width = Ticks() - before;
    if (width >= best_width) continue;
    best_width = width;
    best = {before + width / 2, ns};
  }
  return best;
}

// By 2^-32.
uint64_t RateOf(uint64_t ns, uint64_t ticks) {
  return static_cast<uint64_t>(static_cast<double>(ns) /
                               static_cast<double>(ticks) * 4294967296.0);
}

uint64_t TicksIn(uint64_t ns, uint64_t rate) {
  return static_cast<uint64_t>(static_cast<double>(ns) * 4294967296.0 /
                               static_cast<double>(rate));
}

// Each line is written to a slot of its own, by its number, and then made the
// one in force, unless another thread was quicker. A slot is used again after
// so many lines; whoever reads it meanwhile sees that by its number.
constexpr uint64_t kLineSlots = 16;
struct alignas(64) LineSlot {
  std::atomic<uint64_t> number{0};  // 0: being written
  std::atomic<uint64_t> ticks{0};
  std::atomic<uint64_t> ns{0};
  std::atomic<uint64_t> true_ns{0};
  std::atomic<uint64_t> ns_per_tick{0};
  std::atomic<uint64_t> true_rate{0};
  std::atomic<uint64_t> max_ticks{0};
};
LineSlot line_slots[kLineSlots];
std::atomic<uint64_t> num_lines{0};
std::atomic<uint64_t> line_in_force{0};  // 0: none
// Of the line in force, should that be written over by a thread that has slept
// in the middle of it.
std::atomic<uint64_t> last_rate{0};

uint64_t WriteLine(const Line& line) {
  const uint64_t number = 1 + num_lines.fetch_add(1, std::memory_order_relaxed);
  LineSlot& slot = line_slots[number % kLineSlots];
  slot.number.store(0, std::memory_order_relaxed);
  // Release: not to be seen before the number is gone.
  slot.ticks.store(line.ticks, std::memory_order_release);
  slot.ns.store(line.ns, std::memory_order_release);
  slot.true_ns.store(line.true_ns, std::memory_order_release);
  slot.ns_per_tick.store(line.ns_per_tick, std::memory_order_release);
  slot.true_rate.store(line.true_rate, std::memory_order_release);
  slot.max_ticks.store(line.max_ticks, std::memory_order_release);
  slot.number.store(number, std::memory_order_release);
  return number;
}

// Acquire throughout: the number is looked at again behind the last of them.
Line LoadLine(const LineSlot& slot) {
  Line line;
  line.ticks = slot.ticks.load(std::memory_order_acquire);
  line.ns = slot.ns.load(std::memory_order_acquire);
  line.true_ns = slot.true_ns.load(std::memory_order_acquire);
  line.ns_per_tick = slot.ns_per_tick.load(std::memory_order_acquire);
  line.true_rate = slot.true_rate.load(std::memory_order_acquire);
  line.max_ticks = slot.max_ticks.load(std::memory_order_acquire);
  return line;
}

// Takes the place of the line `number`, unless another one has done so.
void ReplaceLine(uint64_t number, const Line& line) {
  if (line_in_force.compare_exchange_strong(number, WriteLine(line))) {
    last_rate.store(line.true_rate, std::memory_order_relaxed);
  }
}

Line LineAt(const Reading& reading, uint64_t rate, uint64_t interval_ns) {
  Line line;
  line.ticks = reading.ticks;
  line.ns = line.true_ns = reading.ns;
  line.ns_per_tick = line.true_rate = rate;
  line.max_ticks = TicksIn(interval_ns, rate);
  return line;
}

Line FirstLine() {
  const Reading first = ReadBoth();
  std::this_thread::sleep_for(kFirstReading);
  const Reading second = ReadBoth();
  return LineAt(second,
                RateOf(second.ns - first.ns, second.ticks - first.ticks),
                TscClock::kFirstIntervalNs);
}

}  // namespace

std::atomic<bool> TscClock::in_use_{false};

bool TscClock::IsAvailable() {
#if defined(__x86_64__)
  constexpr unsigned kAdvancedPowerManagement = 0x8000'0007;
  constexpr unsigned kInvariantTsc = 1 << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(kAdvancedPowerManagement, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kInvariantTsc) != 0;
#else
  return false;
#endif
}

void TscClock::Use(bool use) {
  if (use && line_in_force.load(std::memory_order_acquire) == 0) {
    use = IsAvailable();
    if (use) ReplaceLine(0, FirstLine());
  }
  in_use_.store(use, std::memory_order_relaxed);
}

uint64_t TscClock::Read() {
  for (;;) {
    const uint64_t number = line_in_force.load(std::memory_order_acquire);
    const LineSlot& slot = line_slots[number % kLineSlots];
    const Line line = LoadLine(slot);
    const uint64_t ticks = Ticks();
    const bool whole = slot.number.load(std::memory_order_acquire) == number;
    // In force at that time, too: a line that follows may be a slower one.
    if (line_in_force.load(std::memory_order_acquire) != number) continue;
    if (__builtin_expect(whole, 1)) {
      const uint64_t elapsed = ticks - line.ticks;
      if (__builtin_expect(elapsed <= line.max_ticks, 1)) {
        return line.Along(elapsed);
      }
      if (line.ticks - ticks <= kMaxSkewTicks) return line.ns;
    }
    const Reading now = ReadBoth();
    ReplaceLine(number, whole
                            ? line.Next(now.ticks, now.ns)
                            : LineAt(now, last_rate.load(), kFirstIntervalNs));
  }
}

Line TscClock::Line::Next(uint64_t now_ticks, uint64_t now_ns) const {
  const uint64_t elapsed = now_ticks - ticks;
  Line next;
  next.ticks = now_ticks;
  next.true_ns = now_ns;
  // The latest that anybody was told.
  next.ns = std::max(now_ns, Along(std::min(elapsed, max_ticks)) + 1);
  next.true_rate = true_rate;
  if (now_ns > true_ns && elapsed >= max_ticks / 2) {
    const uint64_t rate = RateOf(now_ns - true_ns, elapsed);
    const uint64_t change =
        rate > true_rate ? rate - true_rate : true_rate - rate;
    if (change <= true_rate / kMaxRateChange) next.true_rate = rate;
  }
  next.ns_per_tick = next.true_rate;
  if (next.ns != now_ns) {
    const uint64_t ahead_ns =
        std::min(next.ns - now_ns, kIntervalNs / kMaxSlowdown);
    next.ns_per_tick -= static_cast<uint64_t>(
        static_cast<double>(next.true_rate) * static_cast<double>(ahead_ns) /
        static_cast<double>(kIntervalNs));
  }
  next.max_ticks = TicksIn(kIntervalNs, next.true_rate);
  return next;
}

}  // namespace tracering::internal
