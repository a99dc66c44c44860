// The profile buffer's writer and blocking reader, one shared access at a time,
// in a few thousand of the orders with two or three preemptions.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/common/sync/shared_word.h"
#include "tests/support/step_sequencer.h"
#include "tracering/profile_buffer.h"

namespace tracering::internal {
namespace {

using test::Actor;
using test::StepSequencer;

// What the reader got: numbers of events, a dropped one as -n.
using Got = std::vector<int64_t>;

void Write(ProfileBuffer& buffer, uint64_t number, size_t stack_words) {
  const std::vector<uintptr_t> stack(stack_words, number);
  buffer.Write(number, number, nullptr, 0, stack.data(), stack.size());
}

void ReadToEnd(ProfileBuffer& buffer, Got* got) {
  for (;;) {
    const ProfileRecords records = buffer.Read(ProfileReadMode::kBlocking);
    if (records.outcome != ProfileReadOutcome::kRecords) return;
    size_t at = 0;
    for (size_t i = 0; i < records.num_tags; ++i) {
      const uint64_t* record = records.data + at;
      const auto number = static_cast<int64_t>(record[1]);
      if (records.tags[i] != 0) {
        got->push_back(number);
      } else {
        for (uint64_t k = 0; k < record[2]; ++k) {
          got->push_back(-number - static_cast<int64_t>(k));
        }
      }
      at += record[0];
    }
  }
}

// Whether the actor can go on: a reader that is about to wait cannot, until it
// was woken.
bool CanStep(const Actor& actor) {
  if (actor.finished()) return false;
  const test::PendingAccess& access = actor.pending();
  if (access.kind != SharedAccess::kFutexWait) return true;
  return static_cast<const SharedWord<uint32_t>*>(access.word)
             ->Load(std::memory_order_seq_cst) != 0;
}

// One run: the writer begins, or the reader, and the other one takes over
// before each step in `switches`, and wherever somebody cannot go on. Returns
// the number of steps; 0 if both were stuck.
size_t RunOrder(bool reader_first, const std::vector<size_t>& switches,
                Got* got) {
  auto buffer = ProfileBuffer::Create({0, 8, 2});
  EXPECT_TRUE(buffer.ok());
  StepSequencer sequencer;
  Actor* actors[] = {
      &sequencer.Start("writer",
                       [&] {
                         Write(**buffer, 1, 1);
                         Write(**buffer, 2, 7);  // never fits
                         Write(**buffer, 3, 1);
                         Write(**buffer, 4, 0);
                         (*buffer)->Close();
                       }),
      &sequencer.Start("reader", [&] { ReadToEnd(**buffer, got); })};
  size_t now = reader_first ? 1 : 0;
  size_t steps = 0;
  while (!actors[0]->finished() || !actors[1]->finished()) {
    for (const size_t at : switches) {
      if (at == steps) now = 1 - now;
    }
    if (!CanStep(*actors[now])) now = 1 - now;
    if (!CanStep(*actors[now])) {
      // Let the reader end, so that the test can.
      (*buffer)->Write(9, 9, nullptr, 0, nullptr, 0);
      (*buffer)->Close();
      for (Actor* actor : actors) actor->Release();
      return 0;
    }
    actors[now]->Step();
    ++steps;
  }
  return steps;
}

// Event 2 is dropped wherever the reader stands. 3 is dropped unless that is
// told already or both fit; nothing else is open, and order never is.
void ExpectExact(const Got& got) {
  ASSERT_EQ(got.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got[i] < 0 ? -got[i] : got[i], static_cast<int64_t>(i + 1));
  }
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], -2);
}

TEST(ProfileRaceTest, OrdersAreExactAndEndWithoutALostWakeUp) {
  size_t runs = 0;
  size_t told_by_writer_or_early = 0;
  for (const bool reader_first : {false, true}) {
    Got got;
    const size_t steps = RunOrder(reader_first, {}, &got);
    ASSERT_GT(steps, 20u);
    // A switch may add steps; a few more positions than the plain run has.
    const size_t end = steps + 8;
    for (size_t a = 0; a < end; a += 2) {
      for (size_t b = a; b < end; ++b) {
        // No third; or seven steps later, when the writer has gone once
        // through a write and the reader's view is oldest.
        for (const size_t c : {end, b + 7}) {
          got.clear();
          ++runs;
          ASSERT_GT(RunOrder(reader_first, {a, b, c}, &got), 0u)
              << "lost wake-up: " << reader_first << " " << a << " " << b << " "
              << c;
          SCOPED_TRACE(testing::PrintToString(got) +
                       testing::PrintToString(std::vector<size_t>{a, b, c}));
          ExpectExact(got);
          if (HasFatalFailure()) return;
          if (got[2] == 3) ++told_by_writer_or_early;
        }
      }
    }
  }
  EXPECT_GT(told_by_writer_or_early, 0u);
  EXPECT_LT(told_by_writer_or_early, runs);
}

}  // namespace
}  // namespace tracering::internal
