// SharedWord does what its names say, and the shipped build has no trace of
// the hook. The hooked build is looked at in tests/race.
#include "src/common/sync/shared_word.h"

#include <gtest/gtest.h>

#include <string>

#ifdef TRACERING_SHARED_WORD_HOOK
#error "this test is about the build that users get"
#endif

namespace tracering::internal {
namespace {

template <typename T>
class SharedWordTest : public ::testing::Test {
 protected:
  SharedWord<T>& word() { return *reinterpret_cast<SharedWord<T>*>(&memory_); }

  static constexpr T kBig = T{0} - 2;  // needs every byte
  alignas(8) T memory_ = 0;
};

using Words = ::testing::Types<uint32_t, uint64_t>;
struct BitsOf {
  template <typename T>
  static std::string GetName(int) {
    return std::to_string(sizeof(T) * 8);
  }
};
TYPED_TEST_SUITE(SharedWordTest, Words, BitsOf);

TYPED_TEST(SharedWordTest, TakesExactlyTheBytesOfItsValue) {
  EXPECT_EQ(sizeof(SharedWord<TypeParam>), sizeof(TypeParam));
  EXPECT_EQ(alignof(SharedWord<TypeParam>), sizeof(TypeParam));
}

TYPED_TEST(SharedWordTest, ZeroedMemoryIsAWordOfZero) {
  EXPECT_EQ(this->word().Load(std::memory_order_relaxed), 0u);
}

TYPED_TEST(SharedWordTest, StoreIsSeenByLoad) {
  this->word().Store(this->kBig, std::memory_order_release);
  EXPECT_EQ(this->word().Load(std::memory_order_acquire), this->kBig);
}

TYPED_TEST(SharedWordTest, ReadModifyWritesReturnWhatStoodBefore) {
  auto& word = this->word();
  EXPECT_EQ(word.Exchange(5, std::memory_order_seq_cst), 0u);
  EXPECT_EQ(word.FetchAdd(3, std::memory_order_relaxed), 5u);
  EXPECT_EQ(word.FetchSub(7, std::memory_order_relaxed), 8u);
  EXPECT_EQ(word.Load(std::memory_order_relaxed), 1u);
}

TYPED_TEST(SharedWordTest, FetchSubWrapsAroundLikeTheCursors) {
  this->word().FetchSub(2, std::memory_order_relaxed);
  EXPECT_EQ(this->word().Load(std::memory_order_relaxed), this->kBig);
}

TYPED_TEST(SharedWordTest, CompareExchangeStoresOnlyOnAnExactMatch) {
  auto& word = this->word();
  TypeParam expected = 1;
  EXPECT_FALSE(word.CompareExchange(expected, 9, std::memory_order_release,
                                    std::memory_order_acquire));
  EXPECT_EQ(expected, 0u);
  EXPECT_EQ(word.Load(std::memory_order_relaxed), 0u);
  EXPECT_TRUE(word.CompareExchange(expected, 9, std::memory_order_release,
                                   std::memory_order_acquire));
  EXPECT_EQ(word.Load(std::memory_order_relaxed), 9u);
}

}  // namespace
}  // namespace tracering::internal
