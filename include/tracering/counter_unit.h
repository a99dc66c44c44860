// What a counter counts, where the trace format has a word for it.
//
// Values are those of the format, and only ever added. No threading rules.
#ifndef TRACERING_COUNTER_UNIT_H_
#define TRACERING_COUNTER_UNIT_H_

#include <cstdint>

namespace tracering {

enum class CounterUnit : uint32_t {
  kUnspecified = 0,
  kTimeNs = 1,
  kCount = 2,
  kSizeBytes = 3,
};

}  // namespace tracering

#endif  // TRACERING_COUNTER_UNIT_H_
