// The checker of accounts must itself notice every way of being wrong.
#include "tests/support/accounting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TracePacket Numbered(uint64_t writer, uint64_t index, bool lost = false) {
  TracePacket packet;
  packet.set_trusted_pid(10);
  if (lost) packet.set_previous_packet_dropped(1);
  DebugAnnotation* note = packet.mutable_track_event()->add_debug_annotations();
  note->set_name("writer");
  note->set_uint_value(writer);
  note = packet.mutable_track_event()->add_debug_annotations();
  note->set_name("index");
  note->set_uint_value(index);
  return packet;
}

TEST(NumberOfTest, NeedsBothAnnotations) {
  EXPECT_FALSE(NumberOf(TracePacket()).has_value());
  TracePacket packet = Numbered(3, 9);
  ASSERT_TRUE(NumberOf(packet).has_value());
  EXPECT_EQ(NumberOf(packet)->writer, 3u);
  EXPECT_EQ(NumberOf(packet)->index, 9u);
  packet.mutable_track_event()->mutable_debug_annotations()->RemoveLast();
  EXPECT_FALSE(NumberOf(packet).has_value());
}

TEST(AccountingTest, InterleavedWritersInOrderBalance) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0), Numbered(2, 0), Numbered(1, 1), TracePacket(),
                  Numbered(2, 1)});
  accounting.ExpectBalance(10, 1, 2, 0);
  accounting.ExpectBalance(10, 2, 2, 0);
  accounting.ExpectTotal(4, 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(accounting.delivered(), 4u);
  EXPECT_EQ(accounting.DeliveredOf(10, 2), 2u);
  EXPECT_EQ(accounting.marks(), 0u);
}

TEST(AccountingTest, MarkedGapAndLostTailBalance) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0), Numbered(1, 4, /*lost=*/true)});
  accounting.ExpectBalance(10, 1, 7, 5);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(accounting.missing(), 3u);
  EXPECT_EQ(accounting.marks(), 1u);
  EXPECT_EQ(accounting.marks_without_gap(), 0u);
}

TEST(AccountingTest, DuplicateIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0), Numbered(1, 0)});
  EXPECT_THAT(accounting.complaints(), ElementsAre(HasSubstr("twice")));
}

TEST(AccountingTest, ReversedOrderIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 1, /*lost=*/true), Numbered(1, 0)});
  EXPECT_THAT(accounting.complaints(), ElementsAre(HasSubstr("out of order")));
}

TEST(AccountingTest, UnmarkedGapIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0), Numbered(1, 2)});
  EXPECT_THAT(accounting.complaints(),
              ElementsAre(HasSubstr("1 packets are missing without a mark")));
}

TEST(AccountingTest, MarkWithoutGapIsCounted) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0, /*lost=*/true)});
  EXPECT_EQ(accounting.marks_without_gap(), 1u);
}

TEST(AccountingTest, SourcesAreApart) {
  Accounting accounting;
  accounting.Add(1, {7, 0}, false);
  accounting.Add(2, {7, 0}, false);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

TEST(AccountingTest, ImbalanceIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0)});
  accounting.ExpectBalance(10, 1, 3, 1);
  EXPECT_THAT(
      accounting.complaints(),
      ElementsAre(HasSubstr("3 attempted, but 1 delivered and 1 lost")));
}

TEST(AccountingTest, TotalImbalanceIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0)});
  accounting.ExpectTotal(1, 1);
  EXPECT_THAT(accounting.complaints(), ElementsAre(HasSubstr("1 attempted")));
}

TEST(AccountingTest, IndexThatWasNeverAttemptedIsAComplaint) {
  Accounting accounting;
  accounting.Add({Numbered(1, 0), Numbered(1, 1)});
  accounting.ExpectBalance(10, 1, 1, 0);
  EXPECT_THAT(accounting.complaints(),
              ElementsAre(HasSubstr("index 1 was never attempted"),
                          HasSubstr("1 attempted, but 2 delivered")));
}

TEST(AccountingTest, SilentWriterMayHaveLostAll) {
  Accounting accounting;
  accounting.ExpectBalance(10, 1, 5, 5);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

}  // namespace
}  // namespace tracering::test
