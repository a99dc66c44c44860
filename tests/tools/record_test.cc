// tracering record: real programs under it, what it leaves behind, and how it
// ends.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/accounting.h"
#include "tests/support/eventually.h"
#include "tests/tools/tool_test.h"

namespace tracering::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RecordTest : public ToolTest {
 protected:
  std::string output() const { return Path("out.pftrace"); }

  // tracering record -o OUTPUT `options` -- producer_child `kind`
  std::vector<std::string> RecordLine(std::vector<std::string> options,
                                      const std::string& kind) const {
    std::vector<std::string> line = {"record", "-o", output()};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {"--", TRACERING_PRODUCER_CHILD, kind});
    return line;
  }

  // The numbered packets of a file that is good.
  static uint64_t CountPackets(const std::string& path,
                               const TraceCheckOptions& options = {}) {
    const TraceFile file = ReadTraceFile(path);
    EXPECT_THAT(file.complaints, IsEmpty());
    EXPECT_THAT(CheckTrace(file, options), IsEmpty());
    Accounting accounting;
    accounting.Add(file.packets);
    EXPECT_THAT(accounting.complaints(), IsEmpty());
    return accounting.delivered();
  }

  // N of "attempted=N lost=0".
  static uint64_t Attempted(const ToolResult& result) {
    EXPECT_THAT(result.output, HasSubstr("attempted="));
    EXPECT_THAT(result.output, HasSubstr("lost=0"));
    return std::strtoull(result.output.c_str() + 10, nullptr, 10);
  }
};

TEST_F(RecordTest, CommandIsRecordedToItsEnd) {
  const ToolResult result = Run(RecordLine({}, "stalling"));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(CountPackets(output()), Attempted(result));
  EXPECT_THAT(result.errors, HasSubstr(output()));
}

TEST_F(RecordTest, ExitStatusOfTheCommandIsPassedOn) {
  const auto status_of = [this](std::vector<std::string> command) {
    command.insert(command.begin(), {"record", "-q", "-o", output(), "--"});
    return Run(command);
  };
  EXPECT_EQ(status_of({"/bin/sh", "-c", "exit 7"}).status, 7);
  EXPECT_EQ(status_of({"sh", "-c", "kill -TERM $$"}).status, 128 + SIGTERM);
  const ToolResult missing = status_of({"/nowhere/at/all"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.errors, HasSubstr("/nowhere/at/all"));
  WriteFile(Path("text"), "text");
  EXPECT_EQ(status_of({Path("text")}).status, 126);
}

TEST_F(RecordTest, EnvironmentAndSignalsOfTheCommandAreAsTheyWere) {
  const ToolResult result =
      Run({"record", "-q", "-o", output(), "--", "/bin/sh", "-c",
           "echo $TRACERING_SOCKET; grep SigBlk /proc/self/status"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("/socket\n"));
  EXPECT_THAT(result.output, HasSubstr("0000000000000000"));
  // Nothing of the service is left.
  EXPECT_FALSE(
      fs::exists(fs::path(result.output.substr(0, result.output.find('\n')))
                     .parent_path()));
}

TEST_F(RecordTest, SignalSavesAndEndsTheCommand) {
  ChildProcess child = Start(RecordLine({}, "hold"));
  ASSERT_TRUE(child.AwaitReport());
  child.Signal(SIGINT);
  const ToolResult result = Finish(child);
  EXPECT_EQ(result.status, 128 + SIGINT) << result.errors;
  EXPECT_EQ(CountPackets(output()), 2u);
}

TEST_F(RecordTest, CommandThatDoesNotEndIsKilledByTheSecondSignal) {
  ChildProcess child =
      Start({"record", "-o", output(), "--", "/bin/sh", "-c",
             "trap '' INT; echo ready; while :; do sleep 0.01; done"});
  ASSERT_TRUE(child.WaitForOutput("ready"));
  child.Signal(SIGINT);
  EXPECT_TRUE(Eventually([&] {
    child.WaitForOutput("nothing", Milliseconds(1));
    return child.error_output().find("kills it") != std::string::npos;
  }));
  child.Signal(SIGINT);
  EXPECT_EQ(Finish(child).status, 128 + SIGKILL);
  EXPECT_EQ(CountPackets(output()), 0u);
}

TEST_F(RecordTest, WithoutACommandProgramsComeByThemselves) {
  const std::string socket = Path("socket");
  ChildProcess recorder = Start({"record", "-o", output(), "--socket", socket});
  ChildProcess program = ChildProcess::Spawn(
      {TRACERING_PRODUCER_CHILD, "stalling"}, {{"TRACERING_SOCKET", socket}});
  const ToolResult produced = Finish(program);
  EXPECT_EQ(produced.status, 0);
  recorder.Signal(SIGTERM);
  EXPECT_EQ(Finish(recorder).status, 0);
  EXPECT_EQ(CountPackets(output()), Attempted(produced));
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(RecordTest, SnapshotIsSavedWhileRecordingGoesOn) {
  ChildProcess child = Start(RecordLine({"-z"}, "hold"));
  ASSERT_TRUE(child.AwaitReport());
  for (const char* name : {"out-1.pftrace", "out-2.pftrace"}) {
    child.Signal(SIGUSR1);
    EXPECT_TRUE(Eventually([&] { return fs::exists(Path(name)); }));
    EXPECT_EQ(CountPackets(Path(name)), 2u);
  }
  EXPECT_FALSE(fs::exists(output()));
  child.Release();
  const ToolResult result = Finish(child);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("out-2.pftrace: 2 packets"));
  EXPECT_EQ(CountPackets(output()), 4u);
}

TEST_F(RecordTest, TriggersSaveSnapshotsAfterTheirGrace) {
  ChildProcess child = Start(
      RecordLine({"-t", "at-once", "--trigger=later:1", "-t", "never:3600000"},
                 "pull-triggers"));
  ASSERT_TRUE(child.AwaitReport());
  EXPECT_TRUE(Eventually([&] { return fs::exists(Path("out-1.pftrace")); }));
  const uint64_t in_snapshot = CountPackets(Path("out-1.pftrace"));
  EXPECT_GE(in_snapshot, 1u);
  EXPECT_LE(in_snapshot, 2u);
  child.Release();
  const ToolResult result = Finish(child);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("'unasked', which is not asked for"));
  EXPECT_THAT(result.errors, HasSubstr("'never': snapshot in 60 min"));
  EXPECT_THAT(result.errors, HasSubstr("not due yet: 1; all is in"));
  EXPECT_EQ(CountPackets(output()), 3u);
  EXPECT_FALSE(fs::exists(Path("out-3.pftrace")));
}

TEST_F(RecordTest, CategoriesAreThoseThatAreAskedFor) {
  const auto recorded = [this](std::vector<std::string> options) {
    const ToolResult result =
        Run(RecordLine(std::move(options), "trace-categories"));
    EXPECT_EQ(result.status, 0) << result.errors;
    const TraceFile file = ReadTraceFile(output());
    EXPECT_THAT(CheckTrace(file), IsEmpty());
    std::vector<std::string> categories;
    for (const TracePacket& packet : file.packets) {
      if (packet.has_track_event()) {
        EXPECT_EQ(packet.track_event().categories_size(), 1);
        categories.push_back(packet.track_event().categories(0));
      }
    }
    return categories;
  };
  EXPECT_THAT(recorded({}),
              ElementsAre("net", "net.http", "net.verbose", "render"));
  EXPECT_THAT(recorded({"-c", "net"}), ElementsAre("net"));
  EXPECT_THAT(recorded({"--categories", "net*,-net.verbose"}),
              ElementsAre("net", "net.http"));
  EXPECT_THAT(recorded({"--categories=*,-net*"}), ElementsAre("render"));
  EXPECT_THAT(recorded({"-c-*"}), IsEmpty());
}

TEST_F(RecordTest, DurationEndsTheCommandAndIsSuccess) {
  const ToolResult result =
      Run({"record", "-d", "10ms", "-o", output(), "--", "sleep", "600"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(CountPackets(output()), 0u);
  EXPECT_EQ(
      Run({"record", "-d0.01", "--socket", Path("socket"), "-o", output()})
          .status,
      0);
}

TEST_F(RecordTest, RotatedFilesAreBoundedAndOpenAlone) {
  const ToolResult result =
      Run(RecordLine({"--rotate", "1M:100", "--stream=10ms"}, "stalling"));
  EXPECT_EQ(result.status, 0) << result.errors;
  uint64_t packets = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    ++files;
    EXPECT_LE(fs::file_size(entry.path()), 1u << 20);
    EXPECT_THAT(CheckTraceFile(entry.path()), IsEmpty());
    for (const TracePacket& packet : ReadTraceFile(entry.path()).packets) {
      packets += NumberOf(packet).has_value();
    }
  }
  EXPECT_EQ(packets, Attempted(result));
  // 40 bytes a packet.
  EXPECT_GE(files, static_cast<int>(packets * 40 >> 20) + 1);
  EXPECT_THAT(result.errors, Not(HasSubstr("kept")));
}

TEST_F(RecordTest, RotationSaysWhatItHasKept) {
  const ToolResult result =
      Run(RecordLine({"--rotate", "1M:1", "--stream=10ms"}, "stalling"));
  EXPECT_EQ(result.status, 0) << result.errors;
  // 40 bytes a packet; sanitizers leave time for fewer.
  if (Attempted(result) * 40 < 1u << 20) GTEST_SKIP() << "one file is enough";
  EXPECT_THAT(result.errors, HasSubstr("files; the newest 1 kept"));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1);
}

// All that was there a period before is in the file.
TEST_F(RecordTest, KilledRecorderLeavesAStreamThatCanBeRead) {
  for (const char* more : {"-q", "-z"}) {
    ChildProcess child = Start(RecordLine({"--stream", "1ms", more}, "hold"));
    ASSERT_TRUE(child.AwaitReport());
    const auto packets = [this] {
      Accounting accounting;
      accounting.Add(ReadTraceFile(output()).packets);
      return accounting.delivered();
    };
    EXPECT_TRUE(Eventually([&] { return packets() == 2; }));
    child.Signal(SIGKILL);
    child.Wait();
    TraceCheckOptions options;
    options.complete = false;
    EXPECT_EQ(CountPackets(output(), options), 2u);
    EXPECT_EQ(ReadTraceFile(output()).cut_bytes, 0u);
    child.Release();
    fs::remove(output());
  }
}

TEST_F(RecordTest, CommandRunsOnWhenTheStreamFails) {
  // A file that may grow to no more than a few kilobytes.
  ChildProcess child = ChildProcess::Spawn(
      {"/bin/sh", "-c",
       "ulimit -S -f 8; exec " + std::string(TRACERING_TOOL) +
           " record -s 1ms -o " + output() +
           " -- sh -c 'ulimit -S -f unlimited; exec " +
           TRACERING_PRODUCER_CHILD + " stalling'"});
  const ToolResult result = Finish(child);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("attempted="));
  const size_t told = result.errors.find("cannot write");
  EXPECT_NE(told, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("cannot write", told + 1), std::string::npos);
  EXPECT_THAT(ReadTraceFile(output()).complaints, IsEmpty());
}

TEST_F(RecordTest, RecordingWithoutACommandEndsWhenTheStreamFails) {
  const std::string socket = Path("socket");
  ChildProcess recorder = ChildProcess::Spawn(
      {"/bin/sh", "-c",
       "ulimit -S -f 8; exec " + std::string(TRACERING_TOOL) +
           " record -s 1ms -o " + output() + " --socket " + socket});
  ChildProcess program = ChildProcess::Spawn(
      {TRACERING_PRODUCER_CHILD, "stalling"}, {{"TRACERING_SOCKET", socket}});
  const ToolResult result = Finish(recorder);
  program.Signal(SIGKILL);  // it may wait for a service
  program.Wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("cannot write"));
  EXPECT_THAT(ReadTraceFile(output()).complaints, IsEmpty());
}

TEST_F(RecordTest, DumpReadsWhatIsRecorded) {
  ASSERT_EQ(Run(RecordLine({"-z"}, "die-after-packets")).status, 128 + SIGKILL);
  const ToolResult text = Run({"dump", output()});
  EXPECT_EQ(text.status, 0) << text.errors;
  size_t events = 0;
  for (size_t at = 0;
       (at = text.output.find("TYPE_INSTANT", at)) != std::string::npos; ++at) {
    ++events;
  }
  EXPECT_EQ(events, 15u);
}

TEST_F(RecordTest, WrongArgumentsAreNamed) {
  const auto expect = [this](std::vector<std::string> options,
                             const std::string& complaint) {
    options.insert(options.begin(), {"record", "-o", output()});
    ExpectUsageError(std::move(options), complaint);
  };
  expect({"--buffer", "main"}, "--buffer 'main': it must be NAME=SIZE");
  expect({"--buffer", "main=5Q"}, "'5Q' must be a number of bytes");
  expect({"--buffer", "main=1K"}, "'1K' must be from 4096");
  expect({"--buffer", "main=1M:old"}, "'old' must be 'ring' or 'discard'");
  expect({"--buffer", "=1M"}, "1 to 255 bytes");
  expect({"--buffer", "a=1M", "-ba=2M"}, "'a' is given twice");
  expect({"--buffer"}, "--buffer needs a value");
  expect({"--stream", "often"}, "'often': it must be a time");
  expect({"--stream", "2h"}, "'2h': it must be from 1 ms to 60 min");
  expect({"--rotate", "10M"}, "'10M': it must be SIZE:COUNT");
  expect({"--rotate", "1K:3"}, "'1K' must be from 1048576");
  expect({"--rotate", "1M:0"}, "'0' must be a whole number from 1 to 1000");
  expect({"--duration", "-1"}, "'-1': it must be a time");
  expect({"--categories", "a,,b"}, "'a,,b': a GLOB may not be empty");
  expect({"--trigger", "x:soon"}, "'soon' must be a whole number");
  expect({"--trigger", ":5"}, "NAME must have 1 to 255 bytes");
  expect({"--trigger", "x", "-s1"}, "one or the other");
  expect({"--compress=9"}, "--compress takes no value");
  expect({"--verbose"}, "unknown option '--verbose'");
  expect({"ls"}, "'ls'; a command comes after '--'");
  expect({"--"}, "there is no COMMAND behind '--'");
  expect({"-o", "/nowhere/out"},
         "cannot create files in '/nowhere': No such file");
  expect({"-o", std::string(300, 'x')}, "cannot look at it: File name too");
  expect({"-o", directory_.path()}, "is a directory");
  WriteFile(Path("file"), "");
  fs::create_symlink(Path("file"), Path("link"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("link"), Path("pipe")}) {
    expect({"-o", path}, "it exists and is not a regular file");
  }
  expect({"-o", "/dev/full"}, "it exists and is not a regular file");
  for (const char* option :
       {"--output", "-b", "-c", "-s", "-r", "-t", "-d", "--socket"}) {
    expect({option, ""}, std::string(option) + " '': it must not be empty");
  }
  expect({"--socket="}, "--socket '': it must not be empty");
  expect({"--socket", std::string(200, 'x')}, "xxx");
}

// A script that counts on head or tee is no reason to lose a recording.
TEST_F(RecordTest, ReaderOfTheMessagesMayGo) {
  const std::string fifo = Path("fifo");
  const ToolResult result = RunInShell(
      "record -o " + output() + " -- " TRACERING_PRODUCER_CHILD " stalling",
      "mkfifo " + fifo + "; exec 3<>" + fifo + " 2>" + fifo + " 3<&-");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(CountPackets(output()), Attempted(result));
}

TEST_F(RecordTest, EndOfTheCommandIsSeenWhereItsSignalWasIgnored) {
  EXPECT_EQ(RunInShell("record -q -o " + output() + " -- sh -c 'exit 7'",
                       "trap '' CHLD")
                .status,
            7);
}

TEST_F(RecordTest, SocketThatIsTakenIsAnError) {
  const std::string socket = Path("socket");
  ChildProcess first = Start({"record", "-o", output(), "--socket", socket});
  ASSERT_TRUE(Eventually([&] { return fs::exists(socket); }));
  const ToolResult second =
      Run({"record", "-o", Path("other"), "--socket", socket});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, HasSubstr(socket));
  EXPECT_FALSE(fs::exists(Path("other")));
}

}  // namespace
}  // namespace tracering::test
