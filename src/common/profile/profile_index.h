// Both rings' counts in one word, so that one compare-exchange moves them
// together and no half of a record is ever seen.
//
//    63              34 33 32 31                               0
//   +------------------+--+--+----------------------------------+
//   | tag count (30)   |X |S | data count (32)                  |
//   +------------------+--+--+----------------------------------+
//     S  the reader sleeps: who clears it wakes it
//     X  something other than a record is there to be looked at: an overflow,
//        or the end
//
// Counts are of all that was ever written or read. They wrap at 2^30 and 2^32;
// rings are powers of two, so that a count modulo the ring is an index also
// across the wrap. Rings are below 2^28, so that no two counts that are
// compared are 2^29 apart.
//
// constexpr arithmetic only.
#ifndef TRACERING_SRC_COMMON_PROFILE_PROFILE_INDEX_H_
#define TRACERING_SRC_COMMON_PROFILE_PROFILE_INDEX_H_

#include <cstdint>

namespace tracering::internal {

class ProfileIndex {
 public:
  static constexpr uint64_t kReaderSleeping = uint64_t{1} << 32;
  static constexpr uint64_t kExtra = uint64_t{1} << 33;

  constexpr ProfileIndex() = default;
  constexpr explicit ProfileIndex(uint64_t word) : word_(word) {}
  constexpr uint64_t word() const { return word_; }

  constexpr uint32_t data_count() const { return static_cast<uint32_t>(word_); }
  constexpr uint32_t tag_count() const {
    return static_cast<uint32_t>(word_ >> 34);
  }
  constexpr bool reader_sleeping() const {
    return (word_ & kReaderSleeping) != 0;
  }
  constexpr bool extra() const { return (word_ & kExtra) != 0; }

  constexpr ProfileIndex With(uint64_t flags) const {
    return ProfileIndex(word_ | flags);
  }
  constexpr ProfileIndex Without(uint64_t flags) const {
    return ProfileIndex(word_ & ~flags);
  }
  // Both counts moved on, each wrapping where it does; no flags.
  constexpr ProfileIndex AddCountsAndClearFlags(uint32_t data,
                                                uint32_t tags) const {
    return ProfileIndex((((word_ >> 34) + tags) << 34) |
                        static_cast<uint32_t>(data_count() + data));
  }

  friend constexpr bool operator==(ProfileIndex a, ProfileIndex b) {
    return a.word_ == b.word_;
  }
  friend constexpr bool operator!=(ProfileIndex a, ProfileIndex b) {
    return !(a == b);
  }

 private:
  uint64_t word_ = 0;
};

// x - y for counts that are less than 2^29 apart: the low 30 bits of the
// difference with their sign, which is right for both wraps.
constexpr int32_t CountSub(uint32_t x, uint32_t y) {
  return static_cast<int32_t>((x - y) << 2) / 4;
}

static_assert(CountSub(5, 3) == 2 && CountSub(3, 5) == -2);
static_assert(CountSub(1, 0x3fff'ffff) == 2);  // tags wrap at 2^30
static_assert(CountSub(1, 0xffff'ffff) == 2);  // data wraps at 2^32
static_assert(CountSub(0x1fff'ffff, 0) == 0x1fff'ffff);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_PROFILE_PROFILE_INDEX_H_
