// Track events from a program in another process, in the file that the service
// saves, as a real protobuf parser and importers see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/events_test.h"
#include "tests/support/sanitizers.h"

namespace tracering::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

class TrackEventTest : public EventsTest {
 protected:
  ChildProcess SpawnTraced(const std::string& what) const {
    return SpawnProgram({TRACERING_TRACK_EVENT_PROGRAM, what});
  }
  // Runs the program to its end, saves and checks.
  void Record(const std::string& what) {
    StartConsumer();
    ChildProcess child = SpawnTraced(what);
    Finish(child);
  }
  void Finish(ChildProcess& child) {
    const auto exit = child.Wait();
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->code, 0) << child.error_output();
    ASSERT_TRUE(AwaitNobody());
    SaveEvents();
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const TracePacket& packet : events_) {
      const TrackEvent& event = packet.track_event();
      if (event.has_name()) names.push_back(event.name());
    }
    return names;
  }
};

const DebugAnnotation& Argument(const TrackEvent& event,
                                const std::string& name) {
  static const DebugAnnotation none;
  for (const DebugAnnotation& argument : event.debug_annotations()) {
    if (argument.name() == name) return argument;
  }
  ADD_FAILURE() << "no argument '" << name << "'";
  return none;
}

TEST_F(TrackEventTest, SlicesNestAndCarryTheirArguments) {
  Record("features");
  const TrackEvent& outer = Event("outer");
  EXPECT_THAT(outer.categories(), ElementsAre("app"));
  EXPECT_EQ(Argument(outer, "depth").int_value(), 0);
  EXPECT_TRUE(Argument(outer, "depth").has_int_value());
  const std::vector<std::string> expected = {"B outer",
                                             "B inner",
                                             "I tick",
                                             "E",
                                             "B begun",
                                             "E",
                                             "I made at 2026",
                                             "B scoped",
                                             "I made at 2026",
                                             "E",
                                             "B function",
                                             "E",
                                             "E"};
  std::vector<std::string> shape = Shape(outer.track_uuid());
  ASSERT_GE(shape.size(), expected.size());
  shape.resize(expected.size());
  EXPECT_EQ(shape, expected);
  EXPECT_THAT(Event("scoped").categories(), ElementsAre("runtime"));
  size_t results = 0;
  for (const TracePacket& packet : events_) {
    for (const auto& argument : packet.track_event().debug_annotations()) {
      if (argument.name() != "result") continue;
      ++results;
      EXPECT_EQ(packet.track_event().type(), TrackEvent::TYPE_SLICE_END);
      EXPECT_EQ(argument.int_value(), 42);
    }
  }
  EXPECT_EQ(results, 1u);
}

TEST_F(TrackEventTest, ArgumentsHaveTheirTypes) {
  Record("features");
  const TrackEvent& scalars = Event("scalars");
  EXPECT_TRUE(Argument(scalars, "bool").bool_value());
  EXPECT_EQ(Argument(scalars, "int").int_value(), -5);
  EXPECT_EQ(Argument(scalars, "uint").uint_value(), 5u);
  EXPECT_EQ(Argument(scalars, "big").uint_value(), UINT64_MAX);
  EXPECT_EQ(Argument(scalars, "small").int_value(), -1);
  EXPECT_EQ(Argument(scalars, "double").double_value(), 1.25);
  EXPECT_EQ(Argument(scalars, "float").double_value(), 0.5);
  EXPECT_EQ(Argument(scalars, "string").string_value(), "s");
  EXPECT_EQ(Argument(scalars, "view").string_value(), "v");
  EXPECT_EQ(Argument(scalars, "literal").string_value(), "l");
  EXPECT_EQ(Argument(scalars, "none").string_value(), "(null)");
  EXPECT_NE(Argument(scalars, "pointer").pointer_value(), 0u);
  EXPECT_TRUE(Argument(scalars, "null").has_pointer_value());
  EXPECT_EQ(Argument(scalars, "enum").uint_value(), 7u);
  EXPECT_EQ(Argument(scalars, "long").string_value(), std::string(300, 'x'));

  const TrackEvent& nested = Event("nested");
  const DebugAnnotation& numbers = Argument(nested, "numbers");
  ASSERT_THAT(numbers.array_values(), SizeIs(3));
  EXPECT_EQ(numbers.array_values(2).int_value(), 3);
  const DebugAnnotation& table = Argument(nested, "table");
  ASSERT_THAT(table.dict_entries(), SizeIs(2));
  EXPECT_EQ(table.dict_entries(1).name(), "b");
  EXPECT_EQ(table.dict_entries(1).double_value(), 1.5);
  EXPECT_EQ(Argument(nested, "point").dict_entries(0).int_value(), 7);
  const DebugAnnotation& points = Argument(nested, "points");
  ASSERT_THAT(points.array_values(), SizeIs(2));
  EXPECT_EQ(points.array_values(1).dict_entries(1).double_value(), 4);

  const TrackEvent& written = Event("written");
  EXPECT_EQ(Argument(written, "x").int_value(), 1);
  const DebugAnnotation& dict = Argument(written, "dict");
  ASSERT_THAT(dict.dict_entries(), SizeIs(2));
  const DebugAnnotation& items = dict.dict_entries(1);
  EXPECT_EQ(items.array_values(0).string_value(), "first");
  EXPECT_EQ(items.array_values(1).dict_entries(0).name(), "second");
  EXPECT_EQ(Argument(Event("lazy"), "value").int_value(), 2);
  EXPECT_THAT(Names(), Not(Contains("never")));
}

TEST_F(TrackEventTest, CountersTracksAndFlowsHaveTheirDescriptors) {
  Record("features");
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, CounterDescriptor> units;
  for (const TracePacket& packet : events_) {
    const TrackEvent& event = packet.track_event();
    if (event.type() != TrackEvent::TYPE_COUNTER) continue;
    const TrackDescriptor& track = TrackOf(event);
    EXPECT_TRUE(track.has_counter());
    units[track.name()] = track.counter();
    values[track.name()].push_back(
        event.has_counter_value() ? static_cast<double>(event.counter_value())
                                  : event.double_counter_value());
  }
  EXPECT_THAT(values["requests"], ElementsAre(0, 0.5, 1));
  EXPECT_THAT(values["heap"], ElementsAre(0, 1000, 2000));
  EXPECT_THAT(values["plain"], ElementsAre(0, 1, 2));
  EXPECT_EQ(units["requests"].unit_name(), "requests per second");
  EXPECT_EQ(units["heap"].unit(), CounterDescriptor::UNIT_SIZE_BYTES);

  const TrackEvent& handle = Event("handle");
  const TrackDescriptor& request = TrackOf(handle);
  EXPECT_EQ(request.name(), "request 1");
  EXPECT_THAT(Shape(request.uuid()), ElementsAre("B handle", "E"));
  const TrackDescriptor& part = TrackOf(Event("half"));
  EXPECT_EQ(part.parent_uuid(), request.uuid());
  EXPECT_THAT(Shape(part.uuid()),
              ElementsAre("I half", "B left to the track", "E"));

  const TrackEvent& taken = Event("taken");
  EXPECT_EQ(TrackOf(taken).thread().thread_name(), "a worker");
  ASSERT_THAT(handle.flow_ids(), SizeIs(1));
  EXPECT_THAT(taken.flow_ids(), ElementsAre(handle.flow_ids(0)));
  EXPECT_NE(handle.flow_ids(0), 17u);
  EXPECT_THAT(Event("to everybody").flow_ids(), ElementsAre(4711u));
  std::vector<uint64_t> ended;
  for (const TracePacket& packet : events_) {
    for (const uint64_t id : packet.track_event().terminating_flow_ids()) {
      ended.push_back(id);
    }
  }
  EXPECT_THAT(ended, ElementsAre(handle.flow_ids(0)));

  bool has_process = false;
  for (const auto& [uuid, track] : tracks_) {
    has_process |= track.process().process_name() == "track_event_program";
  }
  EXPECT_TRUE(has_process);
}

TEST_F(TrackEventTest, SwitchingInTheMiddleOfSlicesLeavesThemBalanced) {
  StartConsumer();
  ChildProcess child = SpawnTraced("switching");
  for (const char* pattern : {"b", "?", "b"}) {
    ASSERT_TRUE(child.AwaitReport());
    ASSERT_TRUE(consumer_->SetEnabledCategories({pattern}).ok());
    child.Release();
  }
  Finish(child);
  const TrackEvent& scope = Event("scope that is left open");
  EXPECT_THAT(
      Shape(scope.track_uuid()),
      ElementsAre("B scope that is left open", "B begin that is left open",
                  "B function that is left open", "I instant", "B b within",
                  "E", "I instant", "E", "E", "E"));
  const TrackEvent& async = Event("async that is left open");
  EXPECT_THAT(Shape(async.track_uuid()),
              ElementsAre("B async that is left open", "E"));
}

TEST_F(TrackEventTest, EventsOutlastThreadsForksAndStops) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "no threads in a forked child";
  strict_.forbid_open_slices = false;  // of the session that was stopped
  Record("lives");
  const std::vector<std::string> names = Names();
  EXPECT_THAT(names,
              IsSupersetOf({"thread", "thread-local destructor", "around fork",
                            "from the child", "open at the stop",
                            "second session", "atexit"}));
  for (const std::string& name : names) {
    EXPECT_NE(name.substr(0, 7), "nowhere") << name;
  }
  EXPECT_NE(Event("from the child").track_uuid(),
            Event("around fork").track_uuid());
  EXPECT_NE(Event("second session").track_uuid(),
            Event("around fork").track_uuid());
}

TEST_F(TrackEventTest, WhatTheEnvironmentEnablesIsTracedBeforeAConsumer) {
  ChildProcess child =
      ChildProcess::Spawn({TRACERING_TRACK_EVENT_PROGRAM, "early"},
                          {{"TRACERING_SOCKET", options_.socket_path},
                           {"TRACERING_CATEGORIES", "app,-*p,early*"}});
  ASSERT_TRUE(child.AwaitReport());
  StartConsumer();
  Finish(child);
  EXPECT_THAT(Names(), ElementsAre("before", "after", "after"));
}

TEST_F(TrackEventTest, NamesOutliveEventsThatWereOverwritten) {
  options_.buffers = {{"main", 4096, FillPolicy::kRing}};
  strict_ = {};
  Record("many");
  bool has_thread = false;
  for (const auto& [uuid, track] : tracks_) {
    has_thread |= track.thread().thread_name() == "a worker";
  }
  EXPECT_TRUE(has_thread);
  EXPECT_THAT(Names(), Not(Contains("oldest")));
}

// Of `nm`; empty if there is none.
std::string SymbolsOf(const std::string& object) {
  std::string output;
  FILE* const pipe = popen(("nm '" + object + "'").c_str(), "r");
  if (pipe == nullptr) return output;
  char block[4096];
  while (const size_t size = fread(block, 1, sizeof(block), pipe)) {
    output.append(block, size);
  }
  EXPECT_EQ(pclose(pipe), 0);
  return output;
}

TEST(TrackEventDisabledTest, NothingIsEvaluatedAndNoSymbolIsLeft) {
  ChildProcess child = ChildProcess::Spawn({TRACERING_DISABLED_PROGRAM});
  EXPECT_EQ(child.Wait()->code, 0);
  const std::string symbols = SymbolsOf(TRACERING_DISABLED_OBJECT);
  EXPECT_NE(symbols.find(" main"), std::string::npos) << symbols;
  EXPECT_EQ(symbols.find("tracering"), std::string::npos) << symbols;
}

}  // namespace
}  // namespace tracering::test
