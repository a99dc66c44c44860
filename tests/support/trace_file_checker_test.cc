// One good file, and one bad file for every rule of the checker.
#include "tests/support/trace_file_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tracering::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kStart = 1'000'000'000;
constexpr uint32_t kThread = 2;  // sequence of the events
constexpr uint64_t kThreadTrack = 77;
constexpr uint64_t kCounterTrack = 78;

TracePacket* AddPacket(Trace* trace, uint32_t sequence) {
  TracePacket* packet = trace->add_packet();
  packet->set_trusted_packet_sequence_id(sequence);
  packet->set_trusted_uid(0);
  if (sequence != 1) packet->set_trusted_pid(100);
  return packet;
}

TracePacket* AddEvent(Trace* trace, TrackEvent::Type type, uint64_t time) {
  TracePacket* packet = AddPacket(trace, kThread);
  packet->set_timestamp(kStart + time);
  TrackEvent* event = packet->mutable_track_event();
  event->set_type(type);
  event->set_track_uuid(kThreadTrack);
  return packet;
}

TracePacket* AddClocks(Trace* trace, uint64_t time) {
  TracePacket* packet = AddPacket(trace, 1);
  ClockSnapshot* snapshot = packet->mutable_clock_snapshot();
  snapshot->set_primary_trace_clock(BUILTIN_CLOCK_BOOTTIME);
  for (uint32_t id : {6u, 1u, 3u}) {
    ClockSnapshot::Clock* clock = snapshot->add_clocks();
    clock->set_clock_id(id);
    clock->set_timestamp(kStart + time);
  }
  return packet;
}

// Descriptors, a snapshot, a slice of 10 ns, a counter, stats.
Trace GoodTrace() {
  Trace trace;
  TrackDescriptor* track = AddPacket(&trace, 3)->mutable_track_descriptor();
  track->set_uuid(kThreadTrack);
  track->mutable_thread()->set_pid(100);
  track->mutable_thread()->set_tid(101);
  track = AddPacket(&trace, 3)->mutable_track_descriptor();
  track->set_uuid(kCounterTrack);
  track->set_parent_uuid(kThreadTrack);
  track->mutable_counter()->set_unit(CounterDescriptor::UNIT_COUNT);
  AddClocks(&trace, 0);
  AddEvent(&trace, TrackEvent::TYPE_SLICE_BEGIN, 10);
  AddEvent(&trace, TrackEvent::TYPE_SLICE_END, 20);
  TrackEvent* counter =
      AddEvent(&trace, TrackEvent::TYPE_COUNTER, 15)->mutable_track_event();
  counter->set_track_uuid(kCounterTrack);
  counter->set_counter_value(3);
  AddPacket(&trace, 1)->mutable_trace_stats()->set_producers_seen(1);
  return trace;
}

constexpr int kSnapshot = 2;
constexpr int kBegin = 3;
constexpr int kEnd = 4;
constexpr int kCounter = 5;

std::vector<std::string> Check(const Trace& trace,
                               const TraceCheckOptions& options = {}) {
  return CheckTrace(ReadTraceBytes(trace.SerializeAsString()), options);
}

TEST(ReadTraceTest, FramesPacketsAsProtobufDoes) {
  const Trace trace = GoodTrace();
  const std::string bytes = trace.SerializeAsString();
  const TraceFile file = ReadTraceBytes(bytes);
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_EQ(file.cut_bytes, 0u);
  ASSERT_THAT(file.packets, SizeIs(trace.packet_size()));
  for (int i = 0; i < trace.packet_size(); ++i) {
    EXPECT_EQ(file.packets[i].SerializeAsString(),
              trace.packet(i).SerializeAsString());
    EXPECT_EQ(bytes[file.offsets[i]], '\x0a');
  }
}

TEST(ReadTraceTest, EveryCutOfTheLastPacketKeepsTheOthers) {
  const Trace trace = GoodTrace();
  const std::string bytes = trace.SerializeAsString();
  const size_t last = ReadTraceBytes(bytes).offsets.back();
  for (size_t size = last + 1; size < bytes.size(); ++size) {
    const TraceFile file = ReadTraceBytes(bytes.substr(0, size));
    EXPECT_THAT(file.packets, SizeIs(trace.packet_size() - 1));
    EXPECT_EQ(file.cut_bytes, size - last);
    EXPECT_THAT(CheckTrace(file), Contains(HasSubstr("cut off")));
    TraceCheckOptions options;
    options.complete = false;
    EXPECT_THAT(CheckTrace(file, options), IsEmpty());
  }
}

TEST(ReadTraceTest, ForeignByteBetweenPacketsIsAComplaint) {
  const TraceFile file = ReadTraceBytes("\x12");
  EXPECT_THAT(file.complaints, ElementsAre(HasSubstr("should begin")));
}

TEST(ReadTraceTest, PacketThatDoesNotParseIsAComplaint) {
  const TraceFile file = ReadTraceBytes("\x0a\x02\x40\x80");
  EXPECT_THAT(file.complaints, ElementsAre(HasSubstr("does not parse")));
}

TEST(ReadTraceTest, MissingFileIsAComplaint) {
  EXPECT_THAT(CheckTraceFile("/nowhere/file"),
              Contains(HasSubstr("cannot open /nowhere/file")));
}

TEST(CheckTraceTest, GoodTraceHasNoComplaints) {
  TraceCheckOptions strict;
  strict.forbid_loss = true;
  strict.forbid_open_slices = true;
  strict.require_pid = true;
  EXPECT_THAT(Check(GoodTrace(), strict), IsEmpty());
}

// How a good trace is spoilt, and the one complaint that must come of it.
struct Fault {
  const char* name;
  std::function<void(Trace*)> spoil;
  const char* complaint;
};

class CheckTraceFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(CheckTraceFaultTest, IsTheOnlyComplaint) {
  Trace trace = GoodTrace();
  GetParam().spoil(&trace);
  EXPECT_THAT(Check(trace), ElementsAre(HasSubstr(GetParam().complaint)));
}

const Fault kFaults[] = {
    {"NoSequenceId",
     [](Trace* t) {
       t->mutable_packet(kSnapshot)->clear_trusted_packet_sequence_id();
     },
     "has no sequence id"},
    {"SequenceOfTwoProcesses",
     [](Trace* t) { t->mutable_packet(kEnd)->set_trusted_pid(101); },
     "sequence 2 belongs to pid 100 and to 101"},
    {"FirstPacketTwice",
     [](Trace* t) {
       t->mutable_packet(kEnd)->set_first_packet_on_sequence(true);
     },
     "is not the first of sequence 2"},
    {"UnknownField",
     [](Trace* t) {
       t->mutable_packet(kEnd)->mutable_unknown_fields()->AddVarint(69, 1);
     },
     "unknown field 69"},
    {"NoSnapshotFirst",
     [](Trace* t) { t->mutable_packet()->SwapElements(kSnapshot, kBegin); },
     "before any clock snapshot"},
    {"SameClockTwice",
     [](Trace* t) {
       auto* snapshot = t->mutable_packet(kSnapshot)->mutable_clock_snapshot();
       *snapshot->add_clocks() = snapshot->clocks(2);
     },
     "clock 3 twice"},
    {"ClockRunsBackwards",
     [](Trace* t) {
       AddClocks(t, 0)
           ->mutable_clock_snapshot()
           ->mutable_clocks(2)
           ->set_timestamp(1);
       t->mutable_packet()->SwapElements(t->packet_size() - 1,
                                         t->packet_size() - 2);
     },
     "clock 3 runs backwards"},
    {"PrimaryClockMissing",
     [](Trace* t) {
       t->mutable_packet(kSnapshot)
           ->mutable_clock_snapshot()
           ->set_primary_trace_clock(BUILTIN_CLOCK_MONOTONIC_RAW);
       for (int i : {kBegin, kEnd, kCounter}) {
         t->mutable_packet(i)->set_timestamp_clock_id(6);
       }
     },
     "primary clock 5"},
    {"NoTimestamp",
     [](Trace* t) { t->mutable_packet(kCounter)->clear_timestamp(); },
     "has no timestamp"},
    {"UnknownClock",
     [](Trace* t) { t->mutable_packet(kCounter)->set_timestamp_clock_id(64); },
     "no snapshot has clock 64"},
    {"FarFuture",
     [](Trace* t) {
       t->mutable_packet(kCounter)->set_timestamp(kStart * 100'000);
     },
     "lies in the future"},
    {"LossWithoutPresentBit",
     [](Trace* t) {
       t->mutable_packet(kCounter)->set_previous_packet_dropped(256);
     },
     "without its present bit"},
    {"LossWithUnknownBit",
     [](Trace* t) {
       t->mutable_packet(kCounter)->set_previous_packet_dropped(513);
     },
     "unknown bits"},
    {"LossBeforeAServicePacket",
     [](Trace* t) {
       t->mutable_packet(kSnapshot)->set_previous_packet_dropped(1);
     },
     "packet of the service"},
    {"StateNeverSetUp",
     [](Trace* t) { t->mutable_packet(kBegin)->set_sequence_flags(2); },
     "needs incremental state"},
    {"TrackNotDescribed",
     [](Trace* t) {
       t->mutable_packet(kCounter)->mutable_track_event()->set_track_uuid(5);
     },
     "track 5 is not described"},
    {"ParentNotDescribed",
     [](Trace* t) {
       t->mutable_packet(1)->mutable_track_descriptor()->set_parent_uuid(5);
     },
     "has the parent 5"},
    {"TrackWithoutUuid",
     [](Trace* t) {
       t->mutable_packet(1)->mutable_track_descriptor()->clear_uuid();
       t->mutable_packet()->DeleteSubrange(kCounter, 1);
     },
     "without uuid"},
    {"TrackIsTwoThings",
     [](Trace* t) {
       t->mutable_packet(1)->mutable_track_descriptor()->set_uuid(kThreadTrack);
       t->mutable_packet(1)->mutable_track_descriptor()->clear_counter();
       t->mutable_packet()->DeleteSubrange(kCounter, 1);
     },
     "as another thing"},
    {"CounterOnASliceTrack",
     [](Trace* t) {
       t->mutable_packet(kCounter)->mutable_track_event()->set_track_uuid(
           kThreadTrack);
     },
     "track 77 is no counter track"},
    {"EventWithoutType",
     [](Trace* t) {
       TrackEvent* event = t->mutable_packet(kBegin)->mutable_track_event();
       event->clear_type();
       t->mutable_packet(kEnd)->mutable_track_event()->set_type(
           TrackEvent::TYPE_INSTANT);
     },
     "without a type"},
    {"EndWithoutBegin",
     [](Trace* t) { t->mutable_packet(kEnd)->set_timestamp(kStart + 1); },
     "ends that never began"},
    {"NoStats", [](Trace* t) { t->mutable_packet()->RemoveLast(); },
     "no trace stats"},
};

INSTANTIATE_TEST_SUITE_P(Faults, CheckTraceFaultTest,
                         ::testing::ValuesIn(kFaults),
                         [](const auto& tested) { return tested.param.name; });

TEST(CheckTraceTest, LossExplainsAnEndWithoutBegin) {
  Trace trace = GoodTrace();
  TracePacket* end = trace.mutable_packet(kEnd);
  end->set_previous_packet_dropped(1);
  trace.mutable_packet()->DeleteSubrange(kBegin, 1);
  EXPECT_THAT(Check(trace), IsEmpty());
  TraceCheckOptions options;
  options.forbid_loss = true;
  EXPECT_THAT(Check(trace, options), ElementsAre(HasSubstr("was lost")));
}

TEST(CheckTraceTest, LaterLossExplainsNothing) {
  Trace trace = GoodTrace();
  trace.mutable_packet(kCounter)->set_previous_packet_dropped(1);
  trace.mutable_packet()->DeleteSubrange(kBegin, 1);
  EXPECT_THAT(Check(trace), ElementsAre(HasSubstr("never began")));
}

TEST(CheckTraceTest, LossElsewhereInTheProcessExplainsAnAsyncEnd) {
  Trace trace = GoodTrace();
  // The track is no thread's own, and another thread lost something.
  trace.mutable_packet(0)->mutable_track_descriptor()->clear_thread();
  trace.mutable_packet()->DeleteSubrange(kBegin, 1);
  EXPECT_THAT(Check(trace), ElementsAre(HasSubstr("never began")));
  trace.mutable_packet(1)->set_previous_packet_dropped(1);
  EXPECT_THAT(Check(trace), IsEmpty());
}

TEST(CheckTraceTest, OpenSliceIsLegalUnlessForbidden) {
  Trace trace = GoodTrace();
  trace.mutable_packet()->DeleteSubrange(kEnd, 1);
  EXPECT_THAT(Check(trace), IsEmpty());
  TraceCheckOptions options;
  options.forbid_open_slices = true;
  EXPECT_THAT(Check(trace, options), ElementsAre(HasSubstr("never end")));
}

TEST(CheckTraceTest, EventsAreBalancedInTheOrderOfTime) {
  Trace trace = GoodTrace();
  trace.mutable_packet()->SwapElements(kBegin, kEnd);
  EXPECT_THAT(Check(trace), IsEmpty());
  // As one thread never writes them.
  TraceCheckOptions options;
  options.require_order = true;
  EXPECT_THAT(Check(trace, options), ElementsAre(HasSubstr("on its sequence")));
}

TEST(CheckTraceTest, ClearedStateServesUntilALoss) {
  Trace trace = GoodTrace();
  trace.mutable_packet(kBegin)->set_sequence_flags(3);
  trace.mutable_packet(kEnd)->set_sequence_flags(2);
  EXPECT_THAT(Check(trace), IsEmpty());
}

TEST(CheckTraceTest, PidCanBeRequired) {
  Trace trace = GoodTrace();
  for (int i : {0, 1}) trace.mutable_packet(i)->clear_trusted_pid();
  EXPECT_THAT(Check(trace), IsEmpty());
  TraceCheckOptions options;
  options.require_pid = true;
  EXPECT_THAT(Check(trace, options), SizeIs(2));
}

}  // namespace
}  // namespace tracering::test
