// tracering dump: what it prints, parsed by protobuf, is what was in the file;
// and files that are no good.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <stdint.h>

#include <limits>
#include <random>
#include <sstream>
#include <string>

#include "tests/support/trace.pb.h"
#include "tests/tools/tool_test.h"

namespace tracering::test {
namespace {

namespace pb = ::google::protobuf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Sets each field of `message`, repeated ones twice, and of messages in it,
// `depth` deep. Compressed packets would have to be some.
void FillAll(pb::Message* message, int depth) {
  const pb::Reflection* reflection = message->GetReflection();
  const pb::Descriptor* descriptor = message->GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const pb::FieldDescriptor* field = descriptor->field(i);
    if (field->name() == "compressed_packets") continue;
    const bool twice = field->is_repeated();
    for (int k = 0; k < (twice ? 2 : 1); ++k) {
      switch (field->cpp_type()) {
        case pb::FieldDescriptor::CPPTYPE_INT32:
          reflection->SetInt32(message, field, -7 - i);
          break;
        case pb::FieldDescriptor::CPPTYPE_INT64:
          reflection->SetInt64(message, field,
                               std::numeric_limits<int64_t>::min() + i);
          break;
        case pb::FieldDescriptor::CPPTYPE_UINT32:
          reflection->SetUInt32(message, field, 4000000000u + uint32_t(i));
          break;
        case pb::FieldDescriptor::CPPTYPE_UINT64:
          if (twice) {
            reflection->AddUInt64(message, field, UINT64_MAX - uint64_t(k));
          } else {
            reflection->SetUInt64(message, field, UINT64_MAX - uint64_t(i));
          }
          break;
        case pb::FieldDescriptor::CPPTYPE_DOUBLE:
          reflection->SetDouble(message, field, -1.0 / 3);
          break;
        case pb::FieldDescriptor::CPPTYPE_BOOL:
          reflection->SetBool(message, field, true);
          break;
        case pb::FieldDescriptor::CPPTYPE_ENUM: {
          const pb::EnumDescriptor* values = field->enum_type();
          reflection->SetEnum(message, field,
                              values->value(values->value_count() - 1));
          break;
        }
        case pb::FieldDescriptor::CPPTYPE_STRING: {
          std::string text = "quote \" \\ line\n tab\t \x7f umlaut \xc3\xa4";
          if (field->type() == pb::FieldDescriptor::TYPE_BYTES) {
            text += std::string("\0\xff\xfe", 3) + std::string(size_t(i), 'x');
          }
          if (twice) {
            reflection->AddString(message, field, text);
          } else {
            reflection->SetString(message, field, text);
          }
          break;
        }
        case pb::FieldDescriptor::CPPTYPE_MESSAGE:
          if (depth == 0) break;
          FillAll(twice ? reflection->AddMessage(message, field)
                        : reflection->MutableMessage(message, field),
                  depth - 1);
          break;
        default:
          ADD_FAILURE() << field->full_name() << " is of a type not thought of";
      }
    }
  }
}

class DumpTest : public ToolTest {
 protected:
  std::string Save(const std::string& bytes) {
    WriteFile(Path("trace"), bytes);
    return Path("trace");
  }
  static Trace FromText(const std::string& text) {
    Trace trace;
    EXPECT_TRUE(pb::TextFormat::ParseFromString(text, &trace)) << text;
    return trace;
  }
  static Trace FromJson(const std::string& text) {
    Trace trace;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto status =
          pb::util::JsonStringToMessage(line, trace.add_packet());
      EXPECT_TRUE(status.ok()) << status << "\n" << line;
    }
    return trace;
  }
};

TEST_F(DumpTest, EveryFieldComesBackFromTextAndJson) {
  Trace trace;
  FillAll(trace.add_packet(), 4);
  trace.add_packet();
  const std::string path = Save(trace.SerializeAsString());
  const ToolResult text = Run({"dump", path});
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_TRUE(
      pb::util::MessageDifferencer::Equals(FromText(text.output), trace))
      << text.output;
  const ToolResult json = Run({"dump", "--json", path});
  EXPECT_EQ(json.status, 0) << json.errors;
  EXPECT_TRUE(
      pb::util::MessageDifferencer::Equals(FromJson(json.output), trace))
      << json.output;
}

TEST_F(DumpTest, ReadsStandardInput) {
  Trace trace;
  trace.add_packet()->set_timestamp(5);
  const std::string path = Save(trace.SerializeAsString());
  ChildProcess child = ChildProcess::Spawn(
      {"/bin/sh", "-c", std::string(TRACERING_TOOL) + " dump - < " + path});
  const ToolResult result = Finish(child);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "packet {\n  timestamp: 5\n}\n");
}

// What is not known, not as it should be, or too deep is shown all the same.
TEST_F(DumpTest, ForeignPacketsArePrintedByNumber) {
  const std::string path =
      Save(std::string("\x0a\x02\x78\x05"              // 15: 5
                       "\x0a\x05\x5d\x01\x00\x00\x00"  // 11 as fixed32
                       "\x0a\x04\x5a\x02\x4a\x7f"      // 11 { broken }
                       "\x0a\x03\x40\x05\x07",
                       22));  // 8: 5, then no field
  const ToolResult text = Run({"dump", path});
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_EQ(text.output,
            "packet {\n  15: 5\n}\n"
            "packet {\n  11: 0x00000001\n}\n"
            "packet {\n  11: \"J\\177\"\n}\n"
            "packet {\n  timestamp: 5\n  0: \"\\007\"\n}\n");
  const ToolResult json = Run({"dump", "--json", path});
  EXPECT_EQ(json.output,
            "{\"15\":[\"5\"]}\n{\"11\":[\"1\"]}\n{\"11\":[\"Sn8=\"]}\n"
            "{\"timestamp\":\"5\",\"0\":[\"Bw==\"]}\n");
}

TEST_F(DumpTest, DeepPacketsEndAsBytes) {
  std::string message = "\x50\x01";
  Trace trace;
  DebugAnnotation* inner =
      trace.add_packet()->mutable_track_event()->add_debug_annotations();
  for (int i = 0; i < 90; ++i) inner = inner->add_array_values();
  inner->set_name("deep");
  const ToolResult result = Run({"dump", Save(trace.SerializeAsString())});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("deep"));
  EXPECT_THAT(result.output, HasSubstr("  12: \""));
}

// A terminal must not be at the mercy of a trace.
TEST_F(DumpTest, NothingControlsATerminal) {
  Trace trace;
  const std::string name = "\x1b[2J \xc2\x9b \xff \x08";
  TrackDescriptor* track = trace.add_packet()->mutable_track_descriptor();
  track->set_uuid(1);
  track->mutable_thread()->set_thread_name(name);
  for (const auto type :
       {TrackEvent::TYPE_SLICE_BEGIN, TrackEvent::TYPE_SLICE_END}) {
    TracePacket* packet = trace.add_packet();
    packet->set_timestamp(1);
    packet->mutable_track_event()->set_name(name);
    packet->mutable_track_event()->set_type(type);
    packet->mutable_track_event()->set_track_uuid(1);
  }
  for (const char* option : {"", "--json", "--summary"}) {
    std::vector<std::string> arguments = {"dump",
                                          Save(trace.SerializeAsString())};
    if (*option != '\0') arguments.push_back(option);
    const ToolResult result = Run(arguments);
    EXPECT_THAT(result.output, HasSubstr("[2J"));
    EXPECT_EQ(result.output.find_first_of("\x1b\x9b\xff\x08"),
              std::string::npos)
        << result.output;
  }
}

class SummaryTest : public DumpTest {
 protected:
  // Descriptors of a process with two threads and a counter.
  static Trace TraceOfAProgram() {
    return FromText(R"(
      packet { clock_snapshot { primary_trace_clock: BUILTIN_CLOCK_BOOTTIME } }
      packet { track_descriptor {
        uuid: 1 process { pid: 4711 process_name: "my_app" } } }
      packet { track_descriptor {
        uuid: 2 thread { pid: 4711 tid: 4711 thread_name: "main" } } }
      packet { track_descriptor {
        uuid: 3 thread { pid: 4711 tid: 4712 thread_name: "loader" } } }
      packet { track_descriptor {
        uuid: 4 parent_uuid: 1 name: "memory" counter {} } })");
  }
  static TracePacket* AddEvent(Trace* trace, uint64_t track, uint64_t time,
                               TrackEvent::Type type,
                               const std::string& name = "") {
    TracePacket* packet = trace->add_packet();
    packet->set_timestamp(time);
    packet->set_trusted_pid(4711);
    packet->mutable_track_event()->set_type(type);
    packet->mutable_track_event()->set_track_uuid(track);
    if (!name.empty()) packet->mutable_track_event()->set_name(name);
    return packet;
  }
  std::string Summary(const Trace& trace) {
    const ToolResult result =
        Run({"dump", "--summary", Save(trace.SerializeAsString())});
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.output;
  }
  // The line that begins with `name`, with one space in place of many.
  static std::string Line(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string squeezed;
      for (std::string word; words >> word;) {
        squeezed += (squeezed.empty() ? "" : " ") + word;
      }
      if (squeezed.rfind(name, 0) == 0) return squeezed;
    }
    return "no line of " + name;
  }
};

TEST_F(SummaryTest, EachTrackHasItsCounts) {
  Trace trace = TraceOfAProgram();
  // Two slices, one in the other, of 10 and 4 us.
  AddEvent(&trace, 2, 1000, TrackEvent::TYPE_SLICE_BEGIN, "frame");
  AddEvent(&trace, 2, 3000, TrackEvent::TYPE_SLICE_BEGIN, "draw");
  AddEvent(&trace, 4, 3500, TrackEvent::TYPE_COUNTER);
  AddEvent(&trace, 2, 7000, TrackEvent::TYPE_SLICE_END);
  AddEvent(&trace, 2, 11000, TrackEvent::TYPE_SLICE_END);
  AddEvent(&trace, 3, 9000, TrackEvent::TYPE_SLICE_BEGIN, "draw");
  AddEvent(&trace, 3, 17000, TrackEvent::TYPE_SLICE_END);
  AddEvent(&trace, 3, 18000, TrackEvent::TYPE_INSTANT, "done");
  AddEvent(&trace, 3, 18500, TrackEvent::TYPE_SLICE_BEGIN, "never ended");
  TracePacket* sample = trace.add_packet();
  sample->set_timestamp(2'001'000);
  sample->mutable_perf_sample()->set_pid(4711);
  sample->mutable_perf_sample()->set_tid(4712);
  TracePacket* raw = trace.add_packet();
  raw->set_trusted_pid(4711);
  raw->mutable_for_testing()->set_str("x");
  trace.add_packet()->mutable_trace_stats()->add_buffer_stats();
  const std::string text = Summary(trace);
  EXPECT_THAT(text, HasSubstr(" 11 packets of 1 program in 2.0 ms (5.5k/s"));
  // id, slices, instants, values, samples, other, gaps
  EXPECT_EQ(Line(text, "my_app"), "my_app 4711 4 1 1 1 1 -");
  EXPECT_EQ(Line(text, "main"), "main 4711 2 - - - - -");
  EXPECT_EQ(Line(text, "loader"), "loader 4712 2 1 - 1 - -");
  EXPECT_EQ(Line(text, "memory"), "memory - - 1 - - -");
  EXPECT_EQ(Line(text, "(no track)"), "(no track) - - - - 1 -");
  // count, total, mean, longest
  EXPECT_EQ(Line(text, "frame"), "frame 1 10.0 us 10.0 us 10.0 us");
  EXPECT_EQ(Line(text, "draw"), "draw 2 12.0 us 6.0 us 8.0 us");
  EXPECT_THAT(text, Not(HasSubstr("never ended")));
  EXPECT_THAT(text, EndsWith("\nNothing was lost.\n"));
}

TEST_F(SummaryTest, LossesAreToldWithWhatIsKnownOfThem) {
  Trace trace = TraceOfAProgram();
  AddEvent(&trace, 3, 1000, TrackEvent::TYPE_INSTANT)
      ->set_previous_packet_dropped(1 | 64 | 256);
  TracePacket* sample = trace.add_packet();
  sample->mutable_perf_sample()->set_pid(4711);
  sample->mutable_perf_sample()->set_kernel_records_lost(17);
  EXPECT_THAT(Summary(trace), HasSubstr("no statistics at the end"));
  TraceStats* stats = trace.add_packet()->mutable_trace_stats();
  stats->set_invalid_packets(3);
  for (int i = 0; i < 2; ++i) {
    stats->add_buffer_stats()->set_trace_writer_packet_loss(4);
    stats->mutable_buffer_stats(i)->set_chunks_discarded(5);
    stats->mutable_buffer_stats(i)->set_chunks_overwritten(6);
  }
  // Of descriptors, and of packets for buffers that nobody has.
  stats->add_buffer_stats()->set_chunks_overwritten(1000);
  stats->mutable_buffer_stats(2)->set_trace_writer_packet_loss(2);
  const std::string text = Summary(trace);
  EXPECT_EQ(Line(text, "loader"), "loader 4712 - 1 - - - 1");
  EXPECT_THAT(
      text, HasSubstr("Lost: 17 samples of the CPU profiler, 10 packets "
                      "before they came to a buffer, 10 that a full buffer "
                      "refused, 3 that were invalid, 12 records of one or more "
                      "packets that a ring buffer overwrote.\n1 packet is "
                      "marked to come after "
                      "a loss: overwritten, shared memory full.\n"));
}

TEST_F(SummaryTest, LongTablesAreCut) {
  Trace trace = TraceOfAProgram();
  for (uint64_t i = 0; i < 60; ++i) {
    const std::string name = "name " + std::string(i, 'x');
    TrackDescriptor* track = trace.add_packet()->mutable_track_descriptor();
    track->set_uuid(100 + i);
    track->mutable_thread()->set_pid(4711);
    track->mutable_thread()->set_thread_name(name);
    AddEvent(&trace, 100 + i, i, TrackEvent::TYPE_SLICE_BEGIN, name);
    AddEvent(&trace, 100 + i, 2 * i, TrackEvent::TYPE_SLICE_END);
  }
  const std::string text = Summary(trace);
  EXPECT_THAT(text, HasSubstr("  ... and 43 more\n"));
  EXPECT_THAT(text, HasSubstr("\n... and 40 more\n"));
  EXPECT_THAT(text, HasSubstr("xxx..."));
  EXPECT_THAT(text, Not(HasSubstr(std::string(40, 'x'))));
}

// Of tracks that lead in a circle, slices that end before they begin, and what
// is no message; and of an empty file.
TEST_F(SummaryTest, NonsenseIsCounted) {
  Trace trace = FromText(R"(
      packet { track_descriptor { uuid: 1 parent_uuid: 2 name: "a" } }
      packet { track_descriptor { uuid: 2 parent_uuid: 1 name: "b" } }
      packet { track_descriptor { uuid: 3 thread { tid: 1 } } }
      packet { timestamp: 9 track_event { type: TYPE_SLICE_END } }
      packet { timestamp: 9
               track_event { type: TYPE_SLICE_BEGIN track_uuid: 3 } }
      packet { timestamp: 5
               track_event { type: TYPE_SLICE_END track_uuid: 3 } }
      packet { track_event { track_uuid: 77 } }
      packet { perf_sample {} })");
  std::string text = Summary(trace);
  EXPECT_THAT(text, HasSubstr("5 packets of 1 program"));
  EXPECT_EQ(Line(text, "(no name) - -"), "(no name) - - - - 1 -");
  const ToolResult broken =
      Run({"dump", "--summary", Save("\x0a\x04\x5a\x02\x4a\x7f")});
  EXPECT_EQ(broken.status, 0);
  EXPECT_THAT(broken.output, HasSubstr(" 1 packet of 1 program\n"));
  EXPECT_THAT(Summary(Trace()), HasSubstr("0 B, 0 packets of 0 programs\n"));
}

TEST_F(DumpTest, CutFilesGiveWhatIsWhole) {
  Trace trace;
  for (int i = 1; i <= 3; ++i) {
    trace.add_packet()->mutable_track_event()->set_name("name");
  }
  const std::string bytes = trace.SerializeAsString();
  const size_t packet = bytes.size() / 3;
  for (const size_t size : {size_t{0}, size_t{1}, packet, packet + 1,
                            packet + 2, 2 * packet - 1, bytes.size()}) {
    const ToolResult result = Run({"dump", Save(bytes.substr(0, size))});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(FromText(result.output).packet_size(), int(size / packet));
    if (size % packet == 0) {
      EXPECT_EQ(result.errors, "");
    } else {
      EXPECT_THAT(result.errors, HasSubstr("cut off"));
      EXPECT_THAT(
          result.errors,
          HasSubstr("at byte " + std::to_string(size / packet * packet)));
    }
  }
}

TEST_F(DumpTest, WhatIsNoTraceIsAnErrorThatSaysWhere) {
  for (const char* option : {"--json", "--summary"}) {
    const ToolResult text = Run({"dump", option, Save("Hello\n")});
    EXPECT_EQ(text.status, 1);
    EXPECT_THAT(text.errors, HasSubstr("byte 0 is no packet"));
    EXPECT_EQ(text.output, "");
  }
  const ToolResult later = Run({"dump", Save(std::string("\x0a\x00x", 3))});
  EXPECT_EQ(later.status, 1);
  EXPECT_EQ(later.output, "packet {\n}\n");
  EXPECT_THAT(later.errors, HasSubstr("byte 2"));
  const ToolResult huge = Run({"dump", Save("\x0a\xff\xff\xff\xff\x7f"
                                            "xx")});
  EXPECT_EQ(huge.status, 1);
  EXPECT_THAT(huge.errors, HasSubstr("34359738367 bytes"));
  const ToolResult overflow =
      Run({"dump", Save("\x0a" + std::string(12, '\xff'))});
  EXPECT_EQ(overflow.status, 1);
  EXPECT_THAT(overflow.errors, HasSubstr("64 bits"));
  // A packet that claims to be compressed, and what is inflated is no packet.
  const ToolResult deflated =
      Run({"dump", Save(std::string("\x0a\x06\x92\x03\x03"
                                    "abc",
                                    8))});
  EXPECT_EQ(deflated.status, 1);
  EXPECT_EQ(Run({"dump", Path("nothing")}).status, 1);
  EXPECT_EQ(Run({"dump", directory_.path()}).status, 1);
}

TEST_F(DumpTest, RandomBytesAreHarmless) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::string packet(200, '\0');
    for (char& c : packet) c = static_cast<char>(random());
    packet[0] = '\x5a';  // a track event
    const std::string option = round % 3 == 0   ? "--json"
                               : round % 3 == 1 ? "--summary"
                                                : "--";
    const ToolResult result =
        Run({"dump", option, Save("\x0a\xc8\x01" + packet)});
    EXPECT_EQ(result.status, 0) << result.errors;
  }
}

TEST_F(DumpTest, WrongArgumentsAreNamed) {
  ExpectUsageError({"dump"}, "which FILE?");
  ExpectUsageError({"dump", "a", "b"}, "'b'");
  ExpectUsageError({"dump", "--xml", "a"}, "'--xml'");
  ExpectUsageError({"dump", "--json=1", "a"}, "--json takes no value");
  ExpectUsageError({"dump", "a", "--", "b"}, "only one FILE");
  ExpectUsageError({"dump", "--json", "-s", "a"}, "not both");
  ExpectUsageError({"frobnicate"}, "'frobnicate'");
  ExpectUsageError({}, "usage: tracering");
}

TEST_F(DumpTest, OutputThatIsNotTakenIsAnError) {
  for (const std::string line : {"--help", "--version", "record --help"}) {
    for (const std::string where : {" >/dev/full", " >&-"}) {
      const ToolResult result = RunInShell(line + where);
      EXPECT_EQ(result.status, 1) << line << where;
      EXPECT_THAT(result.errors, HasSubstr("cannot print"));
    }
  }
}

TEST_F(DumpTest, ComplaintsThatAreNotTakenChangeNothing) {
  for (const std::string line : {"", "frobnicate", "dump", "record -d 0"}) {
    for (const std::string where : {" 2>/dev/full", " 2>&-"}) {
      EXPECT_EQ(RunInShell(line + where).status, 2) << line << where;
    }
  }
  EXPECT_EQ(RunInShell("dump /nowhere 2>&-").status, 1);
}

TEST_F(DumpTest, ComplaintsControlNoTerminal) {
  for (const char* command : {"dump", "ring"}) {
    const ToolResult result = Run({command, "/nowhere\x1b[2J"});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("'/nowhere\\x1b[2J'"));
  }
}

TEST_F(DumpTest, EveryCommandHasHelp) {
  EXPECT_THAT(Run({"--help"}).output, StartsWith("usage: tracering COMMAND"));
  EXPECT_THAT(Run({"--version"}).output, StartsWith("tracering 0."));
  for (const char* command : {"dump", "record", "ring", "stat"}) {
    const ToolResult result = Run({command, "--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output,
                StartsWith(std::string("usage: tracering ") + command));
    EXPECT_EQ(result.errors, "");
    EXPECT_THAT(Run({"--help"}).output, HasSubstr(command));
  }
}

}  // namespace
}  // namespace tracering::test
