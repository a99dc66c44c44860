// A C11 program under the service, and what it traced in the file, as a real
// protobuf parser and importers see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/events_test.h"
#include "tests/support/sanitizers.h"

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class CApiTest : public EventsTest {
 protected:
  // Runs the program to its end; the last line that it printed.
  std::string Run(const std::string& what) {
    StartConsumer();
    ChildProcess child = SpawnProgram({TRACERING_C_PROGRAM, what});
    const auto exit = child.Wait();
    EXPECT_TRUE(exit.has_value() && exit->code == 0) << child.error_output();
    EXPECT_TRUE(AwaitNobody());
    return child.LastLine();
  }
  // Both sides, and the file, agree on what became of each packet.
  Totals RunNumbered(const std::string& what, uint64_t attempted) {
    const Totals totals = ParseTotals(Run(what));
    EXPECT_EQ(totals.first, attempted);
    EXPECT_EQ(ExpectExact(attempted).lost.total(), totals.lost);
    return totals;
  }
};

TEST_F(CApiTest, ThreadsThatOverrunTheirRingAreAccountedForExactly) {
  RunNumbered("drop", 20'000);
}

TEST_F(CApiTest, ThreadsThatWaitLoseNothing) {
  EXPECT_EQ(RunNumbered("stall", 20'000).lost, 0u);
}

TEST_F(CApiTest, MisuseIsCountedAndLeavesOtherPacketsWhole) {
  EXPECT_EQ(RunNumbered("misuse", 6).lost, 3u);
}

TEST_F(CApiTest, HandlesAreHarmlessInAForkedChildWhichMayTraceByItself) {
  if (kThreadSanitizer) GTEST_SKIP() << "no threads in a forked child";
  RunNumbered("fork", 103);
}

// --- Track events ---

class CEventsTest : public CApiTest {
 protected:
  void Record() {
    options_.on_trigger = [this](const TriggerEvent& event) {
      triggers_.push_back(event.name);
    };
    Run("features");
    SaveEvents();
  }

  std::vector<std::string> triggers_;
};

TEST_F(CEventsTest, SlicesNestAndArgumentsHaveTheirTypes) {
  Record();
  const TrackEvent& outer = Event("outer");
  EXPECT_THAT(outer.categories(), ElementsAre("app"));
  EXPECT_THAT(Shape(outer.track_uuid()),
              ElementsAre("B outer", "B inner", "I tick", "E", "E", "I scalars",
                          "I nested"));
  const auto with_result = std::find_if(
      events_.begin(), events_.end(), [](const TracePacket& packet) {
        return packet.track_event().type() == TrackEvent::TYPE_SLICE_END &&
               packet.track_event().debug_annotations_size() == 1;
      });
  ASSERT_NE(with_result, events_.end());
  EXPECT_EQ(with_result->track_event().debug_annotations(0).int_value(), 42);

  const TrackEvent& scalars = Event("scalars");
  ASSERT_THAT(scalars.debug_annotations(), SizeIs(7));
  EXPECT_EQ(scalars.debug_annotations(0).name(), "bool");
  EXPECT_TRUE(scalars.debug_annotations(0).bool_value());
  EXPECT_EQ(scalars.debug_annotations(1).int_value(), INT64_MIN);
  EXPECT_EQ(scalars.debug_annotations(2).uint_value(), UINT64_MAX);
  EXPECT_EQ(scalars.debug_annotations(3).double_value(), 1.25);
  EXPECT_EQ(scalars.debug_annotations(4).string_value(), "text");
  EXPECT_EQ(scalars.debug_annotations(5).string_value(), "(null)");
  EXPECT_NE(scalars.debug_annotations(6).pointer_value(), 0u);

  const TrackEvent& nested = Event("nested");
  ASSERT_THAT(nested.debug_annotations(), SizeIs(3));
  const DebugAnnotation& dict = nested.debug_annotations(0);
  ASSERT_THAT(dict.dict_entries(), SizeIs(3));
  EXPECT_EQ(dict.dict_entries(0).name(), "one");
  EXPECT_EQ(dict.dict_entries(2).int_value(), 2);
  const DebugAnnotation& items = dict.dict_entries(1);
  EXPECT_EQ(items.name(), "items");
  ASSERT_THAT(items.array_values(), SizeIs(3));
  EXPECT_EQ(items.array_values(0).string_value(), "first");
  EXPECT_EQ(items.array_values(1).dict_entries(0).name(), "deep");
  EXPECT_FALSE(items.array_values(2).has_name());
  EXPECT_EQ(nested.debug_annotations(1).name(), "after");
  EXPECT_EQ(nested.debug_annotations(2).int_value(), 4);
}

TEST_F(CEventsTest, CountersTracksAndFlowsHaveTheirDescriptors) {
  Record();
  std::map<std::string, std::vector<double>> values;
  for (const TracePacket& packet : events_) {
    const TrackEvent& event = packet.track_event();
    if (event.type() != TrackEvent::TYPE_COUNTER) continue;
    const TrackDescriptor& track = TrackOf(event);
    values[track.name() + track.counter().unit_name()].push_back(
        event.has_counter_value() ? static_cast<double>(event.counter_value())
                                  : event.double_counter_value());
  }
  EXPECT_THAT(values["heap"], ElementsAre(0, 1000, 2000));
  EXPECT_THAT(values["requestsrequests per second"], ElementsAre(0, 0.5, 1));

  const TrackEvent& handle = Event("handle");
  EXPECT_EQ(TrackOf(handle).name(), "request 1");
  EXPECT_THAT(Shape(handle.track_uuid()),
              ElementsAre("B handle", "E", "I after"));
  const TrackEvent& half = Event("half");
  EXPECT_EQ(TrackOf(half).parent_uuid(), handle.track_uuid());
  EXPECT_THAT(Shape(half.track_uuid()),
              ElementsAre("I half", "B left to the track", "E"));
  const TrackEvent& taken = Event("taken");
  EXPECT_EQ(TrackOf(taken).thread().thread_name(), "a worker");
  ASSERT_THAT(handle.flow_ids(), SizeIs(1));
  EXPECT_THAT(taken.terminating_flow_ids(), ElementsAre(handle.flow_ids(0)));
  EXPECT_THAT(triggers_, ElementsAre("done"));
}

}  // namespace
}  // namespace tracering::test
