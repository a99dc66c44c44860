// How large a test of many things is: small in every build, and as large as its
// promise says where somebody has the time (scripts/proof.sh scale). Knows
// nothing of the product; any thread may ask.
#ifndef TRACERING_TESTS_SUPPORT_SCALE_H_
#define TRACERING_TESTS_SUPPORT_SCALE_H_

#include <cstdint>
#include <cstdlib>

namespace tracering::test {

// `full` where $TRACERING_FULL_SCALE is set.
inline uint64_t Scaled(uint64_t quick, uint64_t full) {
  return std::getenv("TRACERING_FULL_SCALE") != nullptr ? full : quick;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_SCALE_H_
