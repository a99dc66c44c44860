// Tags and varints, both ways, at the edges of their sizes.
#include "tracering/internal/wire_format.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tracering::internal {
namespace {

using Bytes = std::vector<uint8_t>;

struct ReadResult {
  bool ok;
  uint64_t value;
  size_t consumed;
};

ReadResult Read(const Bytes& bytes) {
  const uint8_t* position = bytes.data();
  uint64_t value = 0;
  const bool ok = ReadVarint(&position, bytes.data() + bytes.size(), &value);
  return {ok, value, static_cast<size_t>(position - bytes.data())};
}

void ExpectRoundTrip(uint64_t value) {
  uint8_t buffer[kMaxVarintSize];
  const uint8_t* end = WriteVarint(buffer, value);
  ASSERT_EQ(static_cast<size_t>(end - buffer), VarintSize(value));
  const ReadResult result =
      Read(Bytes(static_cast<const uint8_t*>(buffer), end));
  EXPECT_TRUE(result.ok) << value;
  EXPECT_EQ(result.value, value);
  EXPECT_EQ(result.consumed, VarintSize(value));
}

TEST(WireFormatTest, EverySizeOfVarintIsReadBackAtItsBounds) {
  for (uint32_t bits = 0; bits < 64; ++bits) {
    ExpectRoundTrip(uint64_t{1} << bits);
    ExpectRoundTrip((uint64_t{1} << bits) - 1);
  }
  ExpectRoundTrip(~uint64_t{0});
}

TEST(WireFormatTest, VarintStopsAtItsLastByteAndLeavesTheRest) {
  const ReadResult result = Read({0xac, 0x02, 0xff});
  EXPECT_TRUE(result.ok);
  EXPECT_EQ(result.value, 300u);
  EXPECT_EQ(result.consumed, 2u);
}

TEST(WireFormatTest, TruncatedVarintIsRefusedAndMovesNothing) {
  for (size_t size = 0; size < kMaxVarintSize; ++size) {
    const ReadResult result = Read(Bytes(size, 0x80));
    EXPECT_FALSE(result.ok) << size;
    EXPECT_EQ(result.consumed, 0u);
  }
}

TEST(WireFormatTest, PaddedVarintIsReadUpToTenBytes) {
  Bytes bytes(9, 0x80);
  bytes[0] = 0x85;
  bytes.push_back(0x00);
  const ReadResult result = Read(bytes);
  EXPECT_TRUE(result.ok);
  EXPECT_EQ(result.value, 5u);
  EXPECT_EQ(result.consumed, 10u);
}

TEST(WireFormatTest, ElevenByteVarintIsRefused) {
  Bytes bytes(10, 0x80);
  bytes.push_back(0x00);
  EXPECT_FALSE(Read(bytes).ok);
}

TEST(WireFormatTest, VarintAbove64BitsIsRefused) {
  Bytes bytes(9, 0xff);
  bytes.push_back(0x01);
  EXPECT_EQ(Read(bytes).value, ~uint64_t{0});
  bytes.back() = 0x02;
  EXPECT_FALSE(Read(bytes).ok);
}

}  // namespace
}  // namespace tracering::internal
