// The profile buffer against a simple model, on random operations.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tests/common/profile/profile_operations.h"
#include "tests/support/sanitizers.h"

namespace tracering::test {
namespace {

TEST(ProfileModelTest, RandomOperationsAgreeWithTheModel) {
  std::mt19937_64 random(20);
  const int sequences = kSanitized ? 2'000 : 20'000;
  for (int i = 0; i < sequences; ++i) {
    std::vector<uint8_t> bytes(3 + random() % 200);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    ASSERT_EQ(RunProfileOperations(bytes.data(), bytes.size()), "") << i;
  }
}

}  // namespace
}  // namespace tracering::test
