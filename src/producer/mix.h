// Numbers that look random and never collide: for uuids of tracks and ids of
// flows.
//
// A pure function.
#ifndef TRACERING_SRC_PRODUCER_MIX_H_
#define TRACERING_SRC_PRODUCER_MIX_H_

#include <cstdint>

namespace tracering::internal {

// A bijection that spreads consecutive numbers over all 64 bits (the finaliser
// of splitmix64): those of one process never collide, those of two by chance
// only.
constexpr uint64_t Mix(uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58'476d'1ce4'e5b9;
  value ^= value >> 27;
  value *= 0x94d0'49bb'1331'11eb;
  value ^= value >> 31;
  return value;
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_MIX_H_
