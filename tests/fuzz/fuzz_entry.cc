// libFuzzer's way in. TRACERING_FUZZ_TARGET names the function of
// fuzz_targets.h that this fuzzer runs.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string wrong = tracering::test::TRACERING_FUZZ_TARGET(bytes, size);
  if (wrong.empty()) return 0;
  fprintf(stderr, "fault: %s\n", wrong.c_str());
  abort();
}
