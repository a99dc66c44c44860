// Chains of frame pointers, good and broken, in memory of the test's own.
#include "src/producer/stack_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

namespace tracering::internal {
namespace {

using testing::ElementsAre;

constexpr size_t kPages = 8;
constexpr size_t kPageBytes = 4096;
constexpr uintptr_t kPc = 0x401000;

// A stack of a few pages, with nothing mapped behind it.
class StackWalkTest : public testing::Test {
 protected:
  StackWalkTest() {
    void* memory =
        mmap(nullptr, (kPages + 1) * kPageBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    words_ = static_cast<uintptr_t*>(memory);
    EXPECT_EQ(mprotect(words_ + kWords, kPageBytes, PROT_NONE), 0);
  }
  ~StackWalkTest() override { munmap(words_, (kPages + 1) * kPageBytes); }

  static constexpr size_t kWords = kPages * kPageBytes / sizeof(uintptr_t);

  uintptr_t Address(size_t index) const {
    return reinterpret_cast<uintptr_t>(words_ + index);
  }
  void SetFrame(size_t index, uintptr_t caller, uintptr_t return_address) {
    words_[index] = caller;
    words_[index + 1] = return_address;
  }
  // With all, nothing, or a part of the stack known, which makes no difference
  // to what is found.
  std::vector<uintptr_t> Walk(uintptr_t frame_pointer) {
    const StackRegisters registers{kPc, Address(0), frame_pointer};
    const std::vector<uintptr_t> found =
        WalkKnowing(registers, {Address(0) - 100, Address(kWords)});
    EXPECT_EQ(WalkKnowing(registers, {}), found);
    EXPECT_EQ(WalkKnowing(registers, {Address(0), Address(11)}), found);
    // Another stack than the one that the thread runs on.
    EXPECT_EQ(WalkKnowing(registers, {Address(1), Address(0) + (1 << 30)}),
              found);
    return found;
  }
  std::vector<uintptr_t> WalkKnowing(const StackRegisters& registers,
                                     const StackBounds& stack) {
    walker_.Walk(registers, stack, &trace_);
    return {trace_.frames.begin(), trace_.frames.begin() + trace_.size};
  }

  uintptr_t* words_ = nullptr;
  StackWalker walker_{getpid()};
  StackTrace trace_;
};

TEST_F(StackWalkTest, AChainIsFollowedToItsEnd) {
  SetFrame(4, Address(10), 0x401111);
  SetFrame(10, Address(3000), 0x402222);  // pages further up
  SetFrame(3000, 0, 0x403333);
  EXPECT_THAT(Walk(Address(4)), ElementsAre(kPc, 0x401111, 0x402222, 0x403333));
  EXPECT_FALSE(trace_.truncated);
}

TEST_F(StackWalkTest, AFrameMayStraddlePages) {
  const size_t last_word = kPageBytes / sizeof(uintptr_t) - 1;
  SetFrame(last_word, Address(last_word + 2), 0x401111);
  SetFrame(last_word + 2, 0, 0x402222);
  EXPECT_THAT(Walk(Address(last_word)), ElementsAre(kPc, 0x401111, 0x402222));
}

TEST_F(StackWalkTest, NoChainLeavesThePc) {
  for (const uintptr_t frame_pointer :
       {uintptr_t{0}, uintptr_t{1}, UINTPTR_MAX, UINTPTR_MAX - 7,
        Address(4) + 1, Address(0) - 8, Address(kWords), Address(kWords - 1),
        Address(0) + (uintptr_t{1} << 40)}) {
    EXPECT_THAT(Walk(frame_pointer), ElementsAre(kPc)) << frame_pointer;
  }
}

TEST_F(StackWalkTest, AChainThatDoesNotGoUpEnds) {
  SetFrame(4, Address(10), 0x401111);
  for (const uintptr_t caller : {Address(10), Address(4), Address(11)}) {
    SetFrame(10, caller, 0x402222);
    EXPECT_THAT(Walk(Address(4)), ElementsAre(kPc, 0x401111, 0x402222));
    EXPECT_FALSE(trace_.truncated);
  }
}

TEST_F(StackWalkTest, AChainIntoUnreadableMemoryEnds) {
  SetFrame(4, Address(kWords + 2), 0x401111);
  EXPECT_THAT(Walk(Address(4)), ElementsAre(kPc, 0x401111));
  // Half of it can be read.
  SetFrame(4, Address(kWords - 1), 0x401111);
  EXPECT_THAT(Walk(Address(4)), ElementsAre(kPc, 0x401111));
}

TEST_F(StackWalkTest, WhatCannotBeCodeEndsTheChain) {
  SetFrame(4, Address(10), 0x401111);
  for (const uintptr_t address : {uintptr_t{0}, uintptr_t{4095}, UINTPTR_MAX}) {
    SetFrame(10, Address(20), address);
    EXPECT_THAT(Walk(Address(4)), ElementsAre(kPc, 0x401111));
  }
}

TEST_F(StackWalkTest, ADeepChainIsTruncatedAndMarked) {
  for (size_t i = 0; i < 100; ++i) {
    SetFrame(4 + 2 * i, Address(6 + 2 * i), 0x401000 + i);
  }
  SetFrame(204, 0, 0);
  EXPECT_EQ(Walk(Address(4)).size(), kMaxStackFrames);
  EXPECT_TRUE(trace_.truncated);
  // Exactly as many as there is room for.
  SetFrame(4 + 2 * 62, 0, 0x409999);
  EXPECT_EQ(Walk(Address(4)).size(), kMaxStackFrames);
  EXPECT_EQ(trace_.frames[kMaxStackFrames - 1], 0x409999u);
  EXPECT_FALSE(trace_.truncated);
}

TEST(StackBoundsTest, EachThreadKnowsItsOwnStack) {
  int here = 0;
  NoteStackBounds();
  const StackBounds of_test = CurrentStackBounds();
  EXPECT_TRUE(of_test.Hold(reinterpret_cast<uintptr_t>(&here)));
  std::thread([&] {
    int there = 0;
    EXPECT_EQ(CurrentStackBounds().end, 0u);
    errno = 77;
    NoteStackBounds();
    EXPECT_EQ(errno, 77);
    const StackBounds of_thread = CurrentStackBounds();
    EXPECT_TRUE(of_thread.Hold(reinterpret_cast<uintptr_t>(&there)));
    EXPECT_FALSE(of_thread.Hold(reinterpret_cast<uintptr_t>(&here)));
    EXPECT_FALSE(of_test.Hold(reinterpret_cast<uintptr_t>(&there)));
  }).join();
}

// Its owner may have cut it up, with pages in it that cannot be read.
TEST(StackBoundsTest, AStackOfTheProgramsOwnMakingIsNotKnown) {
  constexpr size_t kBytes = 256 * 1024;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstack(&attributes, memory, kBytes), 0);
  pthread_t thread;
  uintptr_t end = 1;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* result) -> void* {
                  NoteStackBounds();
                  *static_cast<uintptr_t*>(result) = CurrentStackBounds().end;
                  return nullptr;
                },
                &end),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  munmap(memory, kBytes);
  EXPECT_EQ(end, 0u);
}

}  // namespace
}  // namespace tracering::internal
