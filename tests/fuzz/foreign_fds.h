// Descriptors of every kind that a peer may send and that are no ring, made
// once and kept; and rings that are good, or nearly so.
//
// For the fuzzer of the control server. Knows nothing of the product. One
// thread.
#ifndef TRACERING_TESTS_FUZZ_FOREIGN_FDS_H_
#define TRACERING_TESTS_FUZZ_FOREIGN_FDS_H_

#include <cstddef>
#include <vector>

namespace tracering::test {

// Bytes of the memory files among them that have the size of a ring:
// 4 chunks of 256 bytes.
inline constexpr size_t kForeignRingSize = 256 + 4 * 256;

// At least one. They stay open until the process ends.
const std::vector<int>& ForeignFds();

}  // namespace tracering::test

#endif  // TRACERING_TESTS_FUZZ_FOREIGN_FDS_H_
