// Identities that travel in every chunk, as types that cannot be swapped.
//
// Plain values: no threading rules, no validation beyond what is stated.
#ifndef TRACERING_IDS_H_
#define TRACERING_IDS_H_

#include <cstdint>

namespace tracering {

// Names one writer within one ring. 1..65535 are writers; 0 names nobody and
// never appears in a data-bearing state word that we write.
class WriterId {
 public:
  constexpr WriterId() = default;
  constexpr explicit WriterId(uint16_t value) : value_(value) {}
  constexpr uint16_t value() const { return value_; }
  friend constexpr bool operator==(WriterId a, WriterId b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(WriterId a, WriterId b) { return !(a == b); }

 private:
  uint16_t value_ = 0;
};

// Names a target buffer within one producer. The producer allocates it, so
// that it can trace before a consumer exists; the consumer maps it to one of
// its own buffers by name.
class BufferId {
 public:
  constexpr BufferId() = default;
  constexpr explicit BufferId(uint16_t value) : value_(value) {}
  constexpr uint16_t value() const { return value_; }
  friend constexpr bool operator==(BufferId a, BufferId b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(BufferId a, BufferId b) { return !(a == b); }

 private:
  uint16_t value_ = 0;
};

}  // namespace tracering

#endif  // TRACERING_IDS_H_
