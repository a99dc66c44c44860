// Operations on a profile buffer, read from bytes, each held against a model
// that keeps whole records in a list and positions in numbers that never wrap.
// For a test with random bytes and for a fuzzer.
#ifndef TRACERING_TESTS_COMMON_PROFILE_PROFILE_OPERATIONS_H_
#define TRACERING_TESTS_COMMON_PROFILE_PROFILE_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace tracering::test {

// What differed first, or nothing.
std::string RunProfileOperations(const uint8_t* bytes, size_t size);

}  // namespace tracering::test

#endif  // TRACERING_TESTS_COMMON_PROFILE_PROFILE_OPERATIONS_H_
