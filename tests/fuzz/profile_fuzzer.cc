// The profile buffer, operation by operation against its model.
#include "tests/common/profile/profile_operations.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tracering::test {

std::string FuzzProfile(const uint8_t* bytes, size_t size) {
  return RunProfileOperations(bytes, size);
}

}  // namespace tracering::test
