// Races on the cursors and on the words that wake somebody, with each side of
// each race winning, and the two handshakes against a lost wake-up in all of
// their interleavings.
//
// Steps are sequentially consistent here: that the orders of the operations
// suffice on weaker hardware is argued in docs/memory-model.md, not tested.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <vector>

#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/common/ring/capacity_wait.h"
#include "src/common/ring/notification.h"
#include "src/common/ring/ring.h"
#include "tests/support/ring_image.h"
#include "tests/support/step_sequencer.h"

namespace tracering::internal {
namespace {

using test::Actor;
using test::RingImage;
using test::RingImageOptions;
using test::StepSequencer;

class CursorRaceTest : public ::testing::Test {
 protected:
  static RingImageOptions FourChunks() { return {}; }

  const void* read_pos() const { return &ring_.words().read_pos; }
  const void* write_pos() const { return &ring_.words().write_pos; }

  RingImage image_ = RingImage::InMemfd(FourChunks());
  const Ring ring_{image_.base(), image_.geometry()};
};

TEST_F(CursorRaceTest, RingThatGetsRoomWhileAWriterLooksIsNotCalledFull) {
  image_.set_write_pos(4);
  StepSequencer sequencer;
  Reservation reservation;
  ReserveOutcome outcome{};
  Actor& writer = sequencer.Start(
      "writer", [&] { outcome = ring_.TryReserve(&reservation); });
  ASSERT_TRUE(writer.RunBefore(SharedAccess::kLoad, read_pos(), 2));
  ring_.PublishReadPos(abi::Position(1));
  writer.RunToEnd();
  EXPECT_EQ(outcome, ReserveOutcome::kReserved);
  EXPECT_EQ(reservation.position, abi::Position(4));
  EXPECT_EQ(reservation.distance, 4u);
}

TEST_F(CursorRaceTest, RingThatFillsAgainWhileAWriterLooksIsFull) {
  image_.set_write_pos(4);
  StepSequencer sequencer;
  Reservation reservation;
  ReserveOutcome outcome{};
  Actor& writer = sequencer.Start(
      "writer", [&] { outcome = ring_.TryReserve(&reservation); });
  ASSERT_TRUE(writer.RunBefore(SharedAccess::kLoad, read_pos(), 2));
  ring_.PublishReadPos(abi::Position(1));
  Reservation other;
  ASSERT_EQ(ring_.TryReserve(&other), ReserveOutcome::kReserved);
  writer.RunToEnd();
  EXPECT_EQ(outcome, ReserveOutcome::kFull);
  // What a stalling writer then waits on is the value that is still current.
  EXPECT_EQ(reservation.read_pos, abi::Position(1));
}

TEST_F(CursorRaceTest, LostReservationRaceCostsNoPosition) {
  StepSequencer sequencer;
  Reservation reservation;
  ReserveOutcome outcome{};
  Actor& writer = sequencer.Start(
      "writer", [&] { outcome = ring_.TryReserve(&reservation); });
  ASSERT_TRUE(writer.RunBefore(SharedAccess::kCompareExchange, write_pos()));
  Reservation other;
  ASSERT_EQ(ring_.TryReserve(&other), ReserveOutcome::kReserved);
  writer.RunToEnd();
  EXPECT_EQ(outcome, ReserveOutcome::kReserved);
  EXPECT_EQ(other.position, abi::Position(0));
  EXPECT_EQ(reservation.position, abi::Position(1));
  EXPECT_EQ(image_.write_pos(), 2u);
}

// A distance that is too large costs a look at reader_armed; one that is too
// small would lose a wake-up.
TEST_F(CursorRaceTest, ReportedDistanceIsNeverLessThanTheTrueOne) {
  StepSequencer sequencer;
  Reservation reservation;
  Actor& writer =
      sequencer.Start("writer", [&] { (void)ring_.TryReserve(&reservation); });
  ASSERT_TRUE(writer.RunBefore(SharedAccess::kCompareExchange, write_pos()));
  Reservation other;
  ASSERT_EQ(ring_.TryReserve(&other), ReserveOutcome::kReserved);
  ring_.PublishReadPos(abi::Position(1));
  writer.RunToEnd();
  const uint32_t true_distance = image_.write_pos() - image_.read_pos();
  EXPECT_EQ(true_distance, 1u);
  EXPECT_GE(reservation.distance, true_distance);
}

RingImage* forged_image = nullptr;

// A reader that moves read_pos at every look, and never makes room.
TEST_F(CursorRaceTest, ReservationEndsThoughReadPosNeverRests) {
  image_.set_write_pos(0x8000'0000);
  forged_image = &image_;
  shared_word_hook.store([](SharedAccess access, const void* word) {
    if (access == SharedAccess::kLoad &&
        word == forged_image->base() + abi::kReadPosOffset) {
      forged_image->set_read_pos(forged_image->read_pos() + 1);
    }
  });
  Reservation reservation;
  const ReserveOutcome outcome = ring_.TryReserve(&reservation);
  shared_word_hook.store(nullptr);
  EXPECT_EQ(outcome, ReserveOutcome::kFull);
}

// Runs `scenario` once for every order in which its two actors can take turns.
// The scenario starts afresh each time, calls `next_is_first` whenever either
// could go on, and reports what was wrong with that order.
void ForEachInterleaving(
    const std::function<void(const std::function<bool()>&)>& scenario,
    int* num_orders) {
  std::vector<bool> choices;
  for (*num_orders = 1;; ++*num_orders) {
    size_t depth = 0;
    scenario([&] {
      if (depth == choices.size()) choices.push_back(false);
      return choices[depth++];
    });
    ASSERT_EQ(depth, choices.size());
    // The next order differs in its last turn that has not gone both ways.
    while (!choices.empty() && choices.back()) choices.pop_back();
    if (choices.empty()) return;
    choices.back() = true;
  }
}

TEST_F(CursorRaceTest, TwoWritersThatSeeOneArmingSignalOnce) {
  const os::UniqueFd event = *os::CreateEventFd();
  ArmReader(ring_);
  {
    StepSequencer sequencer;
    const auto notify = [&] { NotifyIfArmed(ring_, event.get()); };
    for (const char* name : {"one", "other"}) {
      ASSERT_TRUE(
          sequencer.Start(name, notify)
              .RunBefore(SharedAccess::kExchange, &ring_.words().reader_armed));
    }
  }
  uint64_t signals = 0;
  ASSERT_EQ(read(event.get(), &signals, sizeof(signals)),
            static_cast<ssize_t>(sizeof(signals)));
  EXPECT_EQ(signals, 1u);
}

// A writer that reserves the position at the threshold, against a reader that
// is about to sleep.
TEST_F(CursorRaceTest, ReaderNeverSleepsThroughAReservationAtTheThreshold) {
  int num_orders = 0;
  int slept = 0;
  int stayed_awake = 0;
  ForEachInterleaving(
      [&](const std::function<bool()>& next_is_first) {
        RingImage image = RingImage::InMemfd(FourChunks());
        const Ring ring(image.base(), image.geometry());
        ring.StoreWakeupThreshold(1);
        const os::UniqueFd event = *os::CreateEventFd();
        bool sleeps = false;
        StepSequencer sequencer;
        Actor& writer = sequencer.Start("writer", [&] {
          Reservation reservation;
          ASSERT_EQ(ring.TryReserve(&reservation), ReserveOutcome::kReserved);
          if (reservation.distance >= ring.LoadWakeupThreshold()) {
            NotifyIfArmed(ring, event.get());
          }
        });
        Actor& reader = sequencer.Start("reader", [&] {
          ArmReader(ring);
          sleeps = OutstandingSeqCst(ring, abi::Position(0)) < 1;
        });
        writer.Step();
        reader.Step();
        while (!writer.finished() || !reader.finished()) {
          const bool writer_next =
              reader.finished() || (!writer.finished() && next_is_first());
          (writer_next ? writer : reader).Step();
        }
        uint64_t signals = 0;
        (void)!read(event.get(), &signals, sizeof(signals));
        EXPECT_TRUE(!sleeps || signals == 1) << "lost wake-up";
        EXPECT_LE(signals, 1u);
        ++(sleeps ? slept : stayed_awake);
      },
      &num_orders);
  // Both outcomes were among the orders.
  EXPECT_GT(num_orders, 10);
  EXPECT_GT(slept, 0);
  EXPECT_GT(stayed_awake, 0);
}

// A writer that is about to wait for capacity, against a reader that publishes
// some.
TEST_F(CursorRaceTest, WriterNeverSleepsThroughAPublicationOfReadPos) {
  int num_orders = 0;
  int slept = 0;
  int went_on = 0;
  ForEachInterleaving(
      [&](const std::function<bool()>& next_is_first) {
        RingImage image = RingImage::InMemfd(FourChunks());
        const Ring ring(image.base(), image.geometry());
        const os::UniqueFd event = *os::CreateEventFd();
        const std::atomic<bool> attached{true};
        CapacityWaitOutcome outcome{};
        bool woke = false;
        StepSequencer sequencer;
        Actor& writer = sequencer.Start("writer", [&] {
          outcome = WaitForCapacity(ring, abi::Position(0),
                                    os::MonotonicNs() + 60'000'000'000,
                                    event.get(), attached);
        });
        Actor& reader = sequencer.Start(
            "reader", [&] { ring.PublishReadPos(abi::Position(1)); });
        const auto at_futex = [&] {
          return writer.pending().kind == SharedAccess::kFutexWait;
        };
        writer.Step();
        reader.Step();
        while (!reader.finished() || !(writer.finished() || at_futex())) {
          const bool writer_may = !writer.finished() && !at_futex();
          const bool writer_next =
              reader.finished() || (writer_may && next_is_first());
          if (!writer_next && reader.pending().kind == SharedAccess::kFutexWake)
            woke = true;
          (writer_next ? writer : reader).Step();
        }
        // One that is about to sleep is woken, or the kernel finds the word
        // changed. Since the reader has stored before it looked, only the first
        // is certain without the kernel's help.
        if (at_futex()) {
          EXPECT_TRUE(woke) << "lost wake-up";
          ++slept;
        } else {
          ++went_on;
        }
        writer.RunToEnd();
        EXPECT_EQ(outcome, CapacityWaitOutcome::kRetry);
      },
      &num_orders);
  EXPECT_GT(num_orders, 10);
  EXPECT_GT(slept, 0);
  EXPECT_GT(went_on, 0);
}

}  // namespace
}  // namespace tracering::internal
