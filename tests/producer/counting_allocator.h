// Replaces operator new of the binary that links it with one that counts.
//
// The replacements are in a source of their own: where the compiler sees both
// sides it takes them for a mismatch. Thread-safe.
#ifndef TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_
#define TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_

#include <cstdint>

namespace tracering::test {

// Calls of any operator new so far, in all threads.
uint64_t NumAllocations();

}  // namespace tracering::test

#endif  // TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_
