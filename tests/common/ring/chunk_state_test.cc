// Every transition of the state word: it happens from the exact word that its
// caller observed, and from no other, whatever state that one is in.
#include "src/common/ring/chunk_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tracering::internal {
namespace {

constexpr abi::WrapCount kWrap{7};
constexpr abi::WrapCount kNextWrap{8};

// One word in plain memory, as it would lie at the start of a chunk.
class StateWord {
 public:
  explicit StateWord(uint32_t value) : value_(value) {}

  ChunkState state() { return ChunkState(word()); }
  uint32_t value() { return word().Load(std::memory_order_relaxed); }

 private:
  SharedWord<uint32_t>& word() {
    return *reinterpret_cast<SharedWord<uint32_t>*>(&value_);
  }

  alignas(4) uint32_t value_;
};

struct Transition {
  std::string name;
  // The word that the caller observed, and what stands there afterwards.
  uint32_t from;
  uint32_t to;
  // Makes the attempt; if the method reports the word found, stores it in
  // `observed`.
  std::function<bool(ChunkState, uint32_t* observed)> attempt;
  bool reports_found = false;
};

// Literal words: writer 0x1234, flags and counts chosen so that no bit of the
// word can get lost unnoticed.
std::vector<Transition> AllTransitions() {
  return {
      {"TryClaim", 0x0000'0007, 0x2100'1234,
       [](ChunkState state, uint32_t*) {
         return state.TryClaim(kWrap, 0x2100'1234);
       }},
      {"TryPublish", 0x2503'1234, 0x4704'1234,
       [](ChunkState state, uint32_t* observed) {
         *observed = 0x2503'1234;
         return state.TryPublish(*observed, 0x4704'1234);
       },
       true},
      {"TryReuse", 0x4504'1234, 0x2504'1234,
       [](ChunkState state, uint32_t*) { return state.TryReuse(0x4504'1234); }},
      {"TryAcknowledge", 0x7dff'ffff, 0x8000'0000,
       [](ChunkState state, uint32_t*) {
         return state.TryAcknowledge(0x7dff'ffff);
       }},
      {"TryAdvanceFree", 0x0000'0007, 0x0000'0008,
       [](ChunkState state, uint32_t* observed) {
         *observed = abi::FreeForWrap(kWrap);
         return state.TryAdvanceFree(*observed, kNextWrap);
       },
       true},
      {"TryRequestRewrite", 0x3dff'ffff, 0x7dff'ffff,
       [](ChunkState state, uint32_t* observed) {
         *observed = 0x3dff'ffff;
         return state.TryRequestRewrite(*observed);
       },
       true},
      {"TryReclaimComplete", 0x5fff'ffff, 0x0000'0008,
       [](ChunkState state, uint32_t* observed) {
         *observed = 0x5fff'ffff;
         return state.TryReclaimComplete(*observed, kNextWrap);
       },
       true},
      {"TryReclaimAcknowledged", 0x8000'0000, 0x0000'0008,
       [](ChunkState state, uint32_t*) {
         return state.TryReclaimAcknowledged(kNextWrap);
       }},
  };
}

// A word of every state, and those that differ from a transition's starting
// point in one bit.
std::vector<uint32_t> OtherWords(uint32_t from) {
  std::vector<uint32_t> words;
  for (uint32_t state = 0; state < 8; ++state) {
    for (const uint32_t low : {0x0000'0000u, 0x0000'0007u, 0x0000'0008u,
                               0x0503'1234u, 0x0504'1234u, 0x1fff'ffffu}) {
      words.push_back(state << 29 | low);
    }
  }
  for (uint32_t bit = 0; bit < 32; ++bit) words.push_back(from ^ (1u << bit));
  std::vector<uint32_t> others;
  for (const uint32_t word : words) {
    if (word != from) others.push_back(word);
  }
  return others;
}

TEST(ChunkStateTest, EachTransitionLeavesTheObservedWord) {
  for (const Transition& transition : AllTransitions()) {
    SCOPED_TRACE(transition.name);
    StateWord word(transition.from);
    uint32_t observed = 0;
    EXPECT_TRUE(transition.attempt(word.state(), &observed));
    EXPECT_EQ(word.value(), transition.to);
  }
}

TEST(ChunkStateTest, NoTransitionTouchesAnyOtherWord) {
  for (const Transition& transition : AllTransitions()) {
    for (const uint32_t other : OtherWords(transition.from)) {
      SCOPED_TRACE(transition.name + " on " + std::to_string(other));
      StateWord word(other);
      uint32_t observed = 0;
      EXPECT_FALSE(transition.attempt(word.state(), &observed));
      EXPECT_EQ(word.value(), other);
      if (transition.reports_found) {
        EXPECT_EQ(observed, other);
      }
    }
  }
}

TEST(ChunkStateTest, RewriteRequestKeepsEverythingBelowTheState) {
  for (const uint32_t low : {0x0000'0001u, 0x0503'1234u, 0x18ff'0000u}) {
    StateWord word(0x2000'0000 | low);
    uint32_t observed = 0x2000'0000 | low;
    EXPECT_TRUE(word.state().TryRequestRewrite(observed));
    EXPECT_EQ(word.value(), 0x6000'0000 | low);
  }
}

TEST(ChunkStateTest, LoadReturnsTheWord) {
  StateWord word(0xdead'beef);
  EXPECT_EQ(word.state().LoadAcquire(), 0xdead'beefu);
}

}  // namespace
}  // namespace tracering::internal
