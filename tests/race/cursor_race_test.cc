// Races on the cursors and on the words that wake somebody, with each side of
// each race winning. The handshakes against a lost wake-up are walked in all of
// their orders by tests/explore.
//
// Steps are sequentially consistent here: that the orders of the operations
// suffice on weaker hardware is argued in docs/memory-model.md, not tested.
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/common/os/eventfd.h"
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

}  // namespace
}  // namespace tracering::internal
