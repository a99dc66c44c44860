// Reads a fuzzer's input as a script: a byte at a time from the front, zeroes
// once it has ended, so that every input means something and short ones do
// little.
//
// Knows nothing of the product. One thread.
#ifndef TRACERING_TESTS_FUZZ_FUZZ_INPUT_H_
#define TRACERING_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tracering::test {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* bytes, size_t size)
      : rest_(reinterpret_cast<const char*>(bytes), size) {}

  bool done() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint32_t Below(uint32_t limit) { return Byte() % limit; }  // at most 256
  uint16_t Word16() {
    const uint16_t low = Byte();
    return static_cast<uint16_t>(low | Byte() << 8);
  }
  uint32_t Word32() {
    const uint32_t low = Word16();
    return low | uint32_t{Word16()} << 16;
  }
  uint64_t Word64() {
    const uint64_t low = Word32();
    return low | uint64_t{Word32()} << 32;
  }
  // At most so many: the input may end before.
  std::string Bytes(size_t size) {
    size = std::min(size, rest_.size());
    std::string bytes(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_FUZZ_FUZZ_INPUT_H_
