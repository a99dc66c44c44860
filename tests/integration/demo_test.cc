// The two demo programs as a user runs them: two processes, their output, and
// the file that is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/numbered_packet.h"
#include "tests/integration/service_test.h"

namespace tracering::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DemoTest : public ServiceTest {
 protected:
  ChildProcess StartDemoConsumer(std::vector<std::string> arguments = {
                                     "--exit-when-idle"}) {
    std::vector<std::string> line = {TRACERING_DEMO_CONSUMER, "--output",
                                     trace_path(), "--socket",
                                     options_.socket_path};
    line.insert(line.end(), arguments.begin(), arguments.end());
    return ChildProcess::Spawn(std::move(line));
  }
  ChildProcess StartDemoProducer(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {TRACERING_DEMO_PRODUCER, "--socket", options_.socket_path,
                      "--wait-ms", "30000"});
    return ChildProcess::Spawn(std::move(arguments));
  }
  static Totals ExpectSuccess(ChildProcess& child) {
    const auto exit = child.Wait();
    EXPECT_TRUE(exit.has_value());
    if (exit.has_value()) {
      EXPECT_EQ(exit->code, 0) << child.error_output();
    }
    return ParseTotals(child.LastLine());
  }

  // The trace as a picture, once an XML parser has taken it; else complaints.
  std::string Draw(std::vector<std::string> options) {
    const std::string picture = directory_.Path("picture.svg");
    std::vector<std::string> line = {TRACERING_PYTHON, TRACERING_DRAW_TRACE};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {trace_path(), picture});
    ChildProcess draw = ChildProcess::Spawn(std::move(line));
    if (draw.Wait()->code != 0) return draw.error_output();
    ChildProcess parse = ChildProcess::Spawn(
        {TRACERING_PYTHON, "-c",
         "import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])",
         picture});
    EXPECT_EQ(parse.Wait()->code, 0) << parse.error_output();
    std::ifstream file(picture);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(picture);
    return text;
  }

  // What both programs said, held against the file.
  void ExpectExactFile(const Totals& produced, const Totals& consumed) {
    EXPECT_EQ(consumed.first + consumed.lost, produced.first);
    const TraceFile file = ReadTraceFile(trace_path());
    EXPECT_THAT(file.complaints, IsEmpty());
    EXPECT_THAT(CheckTrace(file), IsEmpty());
    Accounting accounting;
    accounting.Add(file.packets);
    EXPECT_EQ(accounting.delivered(), consumed.first);
    accounting.ExpectTotal(produced.first, consumed.lost);
    EXPECT_THAT(accounting.complaints(), IsEmpty());
    if (consumed.lost == 0) {
      EXPECT_EQ(accounting.missing(), 0u);
      EXPECT_EQ(accounting.marks(), 0u);
    }
  }
};

TEST_F(DemoTest, StallingLoadArrivesWhole) {
  ChildProcess consumer = StartDemoConsumer();
  ChildProcess producer =
      StartDemoProducer({"--load", "10000", "--threads", "3", "--payload",
                         "100", "--policy", "stall"});
  const Totals produced = ExpectSuccess(producer);
  EXPECT_EQ(produced.first, 30'000u);
  EXPECT_EQ(produced.lost, 0u);
  const Totals consumed = ExpectSuccess(consumer);
  EXPECT_EQ(consumed.first, 30'000u);
  EXPECT_THAT(consumer.LastLine(), EndsWith(" file=" + trace_path()));
  ExpectExactFile(produced, consumed);
}

TEST_F(DemoTest, DroppingLoadIsExactToThePacket) {
  ChildProcess consumer = StartDemoConsumer();
  ChildProcess producer =
      StartDemoProducer({"--load", "40000", "--threads", "4", "--payload",
                         "300", "--policy", "drop"});
  const Totals produced = ExpectSuccess(producer);
  EXPECT_EQ(produced.first, 160'000u);
  const Totals consumed = ExpectSuccess(consumer);
  ExpectExactFile(produced, consumed);
}

TEST_F(DemoTest, BufferThatIsTooSmallLosesTheOldestOrTheNewest) {
  for (const std::string policy : {"ring", "discard"}) {
    ChildProcess consumer =
        StartDemoConsumer({"--exit-when-idle", "--buffer", "main:64K:" + policy,
                           "--buffer=spare:1M:ring"});
    ChildProcess producer = StartDemoProducer(
        {"--load", "5000", "--threads", "2", "--policy", "stall"});
    const Totals produced = ExpectSuccess(producer);
    const Totals consumed = ExpectSuccess(consumer);
    EXPECT_GT(consumed.first, 0u);
    EXPECT_GT(consumed.lost, 0u);
    EXPECT_EQ(consumed.first + consumed.lost, produced.first);
    TraceFile file = ReadTraceFile(trace_path());
    Accounting accounting;
    accounting.Add(file.packets);
    accounting.ExpectTotal(produced.first, consumed.lost);
    EXPECT_THAT(accounting.complaints(), IsEmpty());
    bool has_first = false;
    bool has_last = false;
    for (const TracePacket& packet : file.packets) {
      const auto number = NumberOf(packet);
      if (!number.has_value()) continue;
      has_first |= number->index == 0;
      has_last |= number->index == 4999;
    }
    EXPECT_EQ(has_first, policy == "discard");
    EXPECT_EQ(has_last, policy == "ring");
  }
}

TEST_F(DemoTest, FlightRecorderSavesWhatLedUpToAProblem) {
  ChildProcess recorder =
      ChildProcess::Spawn({TRACERING_FLIGHT_RECORDER, "--output", trace_path(),
                           "--requests", "99", "--slow-one-in", "30"});
  const auto exit = recorder.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0) << recorder.error_output();
  EXPECT_EQ(recorder.LastLine(), "saved=3 packets=" + std::to_string(90 * 8));
  TraceCheckOptions options;
  options.forbid_open_slices = true;
  options.forbid_loss = true;
  EXPECT_THAT(CheckTraceFile(trace_path(), options), IsEmpty());
}

TEST_F(DemoTest, DirectoryIsTracedFileByFile) {
  const std::string tree = directory_.Path("tree");
  std::filesystem::create_directories(tree + "/a/b");
  std::set<std::string> names;
  for (int i = 0; i < 40; ++i) {
    const std::string name = tree + (i % 2 == 0 ? "/a/" : "/a/b/") + "file" +
                             std::to_string(i) + ".txt";
    std::ofstream(name) << std::string(static_cast<size_t>(i), 'w') << " x\n";
    names.insert(name);
  }
  ChildProcess consumer = StartDemoConsumer();
  ChildProcess producer = StartDemoProducer({"--dir", tree, "--threads", "3"});
  const Totals produced = ExpectSuccess(producer);
  const Totals consumed = ExpectSuccess(consumer);
  std::filesystem::remove_all(tree);
  EXPECT_EQ(consumed.first, produced.first);
  EXPECT_EQ(consumed.lost, 0u);
  TraceCheckOptions strict;
  strict.forbid_loss = true;
  strict.forbid_open_slices = true;
  strict.require_pid = true;
  strict.require_order = true;
  EXPECT_THAT(CheckTraceFile(trace_path(), strict), IsEmpty());

  size_t slices = 0;
  size_t counters = 0;
  std::set<std::string> seen;
  std::set<std::string> threads;
  for (const TracePacket& packet : ReadTraceFile(trace_path()).packets) {
    const TrackEvent& event = packet.track_event();
    slices += event.name() == "count file";
    counters += event.type() == TrackEvent::TYPE_COUNTER;
    for (const DebugAnnotation& note : event.debug_annotations()) {
      if (names.count(note.string_value()) != 0) {
        seen.insert(note.string_value());
      }
    }
    const auto& thread = packet.track_descriptor().thread();
    if (thread.has_thread_name()) threads.insert(thread.thread_name());
  }
  EXPECT_EQ(slices, names.size());
  EXPECT_EQ(seen, names);
  EXPECT_GT(counters, 0u);
  EXPECT_GE(threads.size(), 3u);

  const std::string picture = Draw({});
  for (const char* what :
       {"demo_producer", "reader 0", "count file", "bytes so far", "sum"}) {
    EXPECT_THAT(picture, HasSubstr(what));
  }
  EXPECT_THAT(Draw({"--start", "0.1", "--length=0.5"}), HasSubstr("<svg"));
}

// The script that draws the README's picture: what is drawn, or what it says
// where it cannot.
TEST_F(DemoTest, WhatIsNoTraceIsNotDrawn) {
  std::ofstream(trace_path()) << "Hello";
  EXPECT_THAT(Draw({}), HasSubstr("it is no trace"));
  std::ofstream(trace_path(), std::ios::trunc) << "";
  EXPECT_THAT(Draw({}), HasSubstr("there are no track events"));
}

class GuideTest : public DemoTest {
 protected:
  ChildProcess StartService(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {TRACERING_TRACE_SERVICE, "--output", trace_path(),
                    "--socket", options_.socket_path});
    ChildProcess service = ChildProcess::Spawn(std::move(options));
    EXPECT_TRUE(Eventually(
        [&] { return access(options_.socket_path.c_str(), F_OK) == 0; }));
    return service;
  }
  // What it says about each ring.
  std::string RunServer(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {TRACERING_ORDER_SERVER, "--socket", options_.socket_path});
    ChildProcess server = ChildProcess::Spawn(std::move(options));
    EXPECT_EQ(server.Wait()->code, 0);
    EXPECT_EQ(server.error_output(), "");
    return server.output();
  }
};

TEST_F(GuideTest, ServerAndServiceDoWhatTheGuidesSay) {
  for (const char* mode : {"--event-loop", "--stream"}) {
    ChildProcess service = StartService({mode});
    const std::string said = RunServer({"--orders", "20"});
    EXPECT_THAT(said, HasSubstr("ring audit: 20 packets, lost 0\n"));
    ASSERT_TRUE(service.Signal(SIGTERM));
    EXPECT_EQ(service.Wait()->code, 0) << service.error_output();
    TraceCheckOptions strict;
    strict.forbid_loss = true;
    strict.forbid_open_slices = true;
    EXPECT_THAT(CheckTraceFile(trace_path(), strict), IsEmpty());
    std::map<std::string, int> names;
    for (const TracePacket& packet : ReadTraceFile(trace_path()).packets) {
      const std::string& name = packet.track_event().name();
      ++names[name.substr(0, name.find(' '))];
    }
    EXPECT_EQ(names["accept"], 20);
    EXPECT_EQ(names["handle"], 20);
    EXPECT_EQ(names["order"], 20);  // on tracks of their own
    EXPECT_EQ(names["shipped"], 20);
    // Written by another thread, which a program this short may not wait for.
    EXPECT_LE(names["configuration"], 1);
    EXPECT_EQ(names["stock"], 0);  // the service asks for nothing verbose
    std::filesystem::remove(trace_path());
  }
}

TEST_F(GuideTest, SlowOrdersAndSignalsSaveSnapshots) {
  const std::string snapshot = trace_path() + ".snapshot";
  ChildProcess service = StartService({});
  RunServer({"--orders=3", "--slow-ms=0"});
  EXPECT_TRUE(Eventually([&] { return access(snapshot.c_str(), F_OK) == 0; }));
  std::filesystem::remove(snapshot);
  ASSERT_TRUE(service.Signal(SIGUSR1));
  EXPECT_TRUE(Eventually([&] { return access(snapshot.c_str(), F_OK) == 0; }));
  ASSERT_TRUE(service.Signal(SIGINT));
  EXPECT_EQ(service.Wait()->code, 0) << service.error_output();
  EXPECT_THAT(service.output(), HasSubstr(trace_path() + ": "));
  EXPECT_THAT(CheckTraceFile(snapshot), IsEmpty());
  std::filesystem::remove(snapshot);
}

TEST_F(DemoTest, InterruptSavesWhatThereIs) {
  ChildProcess consumer = StartDemoConsumer({});
  ChildProcess producer = StartDemoProducer(
      {"--load", "1000", "--threads", "1", "--policy", "stall"});
  const Totals produced = ExpectSuccess(producer);
  ASSERT_TRUE(consumer.Signal(SIGINT));
  ExpectExactFile(produced, ExpectSuccess(consumer));
  // Progress is for people and stays off standard output.
  EXPECT_THAT(consumer.error_output(), HasSubstr("producers"));
}

TEST_F(DemoTest, FrozenConsumerCostsPacketsAndNothingElse) {
  ChildProcess consumer = StartDemoConsumer();
  auto producer = StartProducer(ProducerFor("frozen"));
  ASSERT_TRUE(consumer.Signal(SIGSTOP));
  TraceWriter& writer = producer->ThreadWriter("main");
  constexpr uint64_t kPackets = 60'000;
  for (uint64_t i = 0; i < kPackets; ++i) WriteNumbered(writer, 0, i);
  EXPECT_GT(writer.stats().lost, 0u);
  ASSERT_TRUE(consumer.Signal(SIGCONT));
  ASSERT_TRUE(producer->Flush(kLong).ok());
  WriteNumbered(writer, 0, kPackets);
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  producer = nullptr;
  const Totals consumed = ExpectSuccess(consumer);
  EXPECT_EQ(consumed.lost, stats.lost);
  ExpectExactFile({stats.attempted, stats.lost}, consumed);
  // One gap, one mark, with its cause. The first packet that found no room may
  // have had its head in the chunk before.
  std::vector<uint32_t> marks;
  for (const TracePacket& packet : ReadTraceFile(trace_path()).packets) {
    if (packet.has_previous_packet_dropped()) {
      marks.push_back(packet.previous_packet_dropped());
    }
  }
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0] & ~perfetto_loss::kReassemblyGap,
            perfetto_loss::kPresent | perfetto_loss::kSharedMemoryFull);
}

TEST_F(DemoTest,
       StallingWritersReturnWhenTheConsumerIsKilledAndGoOnWithTheNext) {
  ProducerOptions options = ProducerFor("survivor");
  options.chunk_size = 1024;
  options.ring_size = 16 * 1024;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = kLong;
  ChildProcess first = StartDemoConsumer();
  auto producer = StartProducer(options);
  ASSERT_TRUE(first.Signal(SIGSTOP));
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      TraceWriter& writer = producer->ThreadWriter("main");
      for (uint64_t i = 0; i < 1000; ++i) WriteNumbered(writer, number, i);
    });
  }
  // They stall on the full ring, behind a reader that never comes back.
  ASSERT_TRUE(first.Signal(SIGKILL));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first.Wait()->signal, SIGKILL);

  // On the same path, which the dead one has left behind.
  ChildProcess second = StartDemoConsumer();
  ASSERT_TRUE(Eventually([&] { return producer->stats().sessions == 2; }));
  ASSERT_TRUE(producer->Flush(kLong).ok());
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.attempted, 3000u);
  producer = nullptr;
  const Totals consumed = ExpectSuccess(second);
  EXPECT_GT(consumed.first, 0u);
  // The first one took some and never saved them.
  EXPECT_LE(consumed.first, stats.attempted - stats.lost);
  Accounting accounting;
  accounting.Add(ReadTraceFile(trace_path()).packets);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(accounting.delivered(), consumed.first);
}

TEST_F(DemoTest, SecondServiceOnALivePathIsRefusedAndNamesIt) {
  ChildProcess first = StartDemoConsumer({});
  ASSERT_TRUE(Eventually(
      [&] { return access(options_.socket_path.c_str(), F_OK) == 0; }));
  ChildProcess second = StartDemoConsumer({});
  EXPECT_EQ(second.Wait()->code, 1);
  EXPECT_THAT(second.error_output(), HasSubstr(options_.socket_path));
  ASSERT_TRUE(first.Signal(SIGTERM));
  ExpectSuccess(first);
}

TEST_F(DemoTest, ProgramInCIsRecorded) {
  ChildProcess consumer = StartDemoConsumer();
  ChildProcess producer =
      ChildProcess::Spawn({TRACERING_C_PRODUCER, options_.socket_path});
  const Totals produced = ExpectSuccess(producer);
  EXPECT_EQ(producer.error_output(), "");
  const Totals consumed = ExpectSuccess(consumer);
  EXPECT_EQ(consumed.first, produced.first);
  // Two events and a count a request, one of each thread, one by hand.
  EXPECT_EQ(produced.first, 153u);
  const TraceFile file = ReadTraceFile(trace_path());
  TraceCheckOptions strict;
  strict.forbid_loss = true;
  strict.forbid_open_slices = true;
  EXPECT_THAT(CheckTrace(file, strict), IsEmpty());
  std::multiset<std::string> names;
  for (const TracePacket& packet : file.packets) {
    names.insert(packet.track_event().name());
  }
  EXPECT_EQ(names.count("handle"), 50u);
  EXPECT_EQ(names.count("all done"), 2u);
  EXPECT_EQ(names.count("field by field"), 1u);
}

TEST_F(DemoTest, WrongArgumentsAreNamedWithWhatTheyMayBe) {
  struct Case {
    std::string program;
    std::vector<std::string> arguments;
    std::string text;
  };
  const std::string consumer = TRACERING_DEMO_CONSUMER;
  const std::string producer = TRACERING_DEMO_PRODUCER;
  const std::string output = "--output=" + trace_path();
  const std::vector<Case> cases = {
      {consumer, {}, "--output FILE is needed"},
      {consumer, {"--output"}, "--output needs a value"},
      {consumer, {"--output", "/nowhere/trace"}, "cannot create files in"},
      {consumer, {"--output", directory_.path()}, "is a directory"},
      {consumer, {output, "--buffer", "main"}, "NAME:SIZE:ring"},
      {consumer, {output, "--buffer", "main:x:ring"}, "must be a number"},
      {consumer, {output, "--buffer", "main:1:ring"}, "must be from 4096"},
      {consumer, {output, "--buffer", "main:1M:round"}, "'ring' or 'discard'"},
      {consumer, {output, "--buffer", "metadata:1M:ring"}, "built-in"},
      {consumer, {output, "--bogus"}, "unknown argument '--bogus'"},
      {consumer, {output, "--exit-when-idle=1"}, "takes no value"},
      {producer, {}, "--dir"},
      {producer, {"--load", "many"}, "--load 'many' must be a whole number"},
      {producer, {"--load", "1", "--threads", "0"}, "--threads '0'"},
      {producer, {"--load", "1", "--policy", "hope"}, "--policy"},
      {producer, {"--dir", "/nowhere/at/all"}, "/nowhere/at/all"},
      {producer, {"--load"}, "--load needs a value"},
      {producer, {"--bogus"}, "unknown argument '--bogus'"},
  };
  for (const Case& wrong : cases) {
    std::vector<std::string> line = wrong.arguments;
    line.insert(line.begin(), wrong.program);
    ChildProcess child = ChildProcess::Spawn(line);
    EXPECT_EQ(child.Wait()->code, 2) << wrong.text;
    EXPECT_THAT(child.error_output(), HasSubstr(wrong.text));
    EXPECT_EQ(child.output(), "") << wrong.text;
  }
}

}  // namespace
}  // namespace tracering::test
