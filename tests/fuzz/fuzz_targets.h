// What is fuzzed. Each function takes any bytes, says what of the product went
// wrong in words, or nothing, and leaves nothing behind: the same bytes mean
// the same again. docs/fuzzing.md says what each of them covers.
//
// A fuzzer links one of them to libFuzzer (fuzz_entry.cc), corpus_test.cc all
// of them to the inputs that are checked in. One thread, one call at a time;
// needs the hooked libraries.
#ifndef TRACERING_TESTS_FUZZ_FUZZ_TARGETS_H_
#define TRACERING_TESTS_FUZZ_FUZZ_TARGETS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace tracering::test {

using FuzzTarget = std::string(const uint8_t* bytes, size_t size);

FuzzTarget FuzzAssembler;
FuzzTarget FuzzControlMessage;
FuzzTarget FuzzControlServer;
FuzzTarget FuzzMetadata;
FuzzTarget FuzzProfile;
FuzzTarget FuzzRewriter;
FuzzTarget FuzzRing;

}  // namespace tracering::test

#endif  // TRACERING_TESTS_FUZZ_FUZZ_TARGETS_H_
