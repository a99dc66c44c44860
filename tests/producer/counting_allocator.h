// Replaces operator new of the binary that links it with one that counts,
// and fails when told to.
//
// The replacements are in a source of their own: where the compiler sees both
// sides it takes them for a mismatch. Thread-safe.
#ifndef TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_
#define TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_

#include <cstdint>

namespace tracering::test {

// Calls of any operator new so far, in all threads.
uint64_t NumAllocations();

// From the calling thread's allocation number `n` (0: the next one) on, none of
// it succeeds.
void FailOwnAllocationsFrom(int64_t n);
// No allocation of the other threads succeeds.
void FailAllocationsElsewhere();
// All succeed again.
void StopFailing();

}  // namespace tracering::test

#endif  // TRACERING_TESTS_PRODUCER_COUNTING_ALLOCATOR_H_
