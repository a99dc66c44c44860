// tracering ring: the rings of real processes, dead and alive.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/accounting.h"
#include "tests/tools/tool_test.h"

namespace tracering::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A descriptor of `pid` for the memory file of that name.
std::string FindRing(pid_t pid, const std::string& name) {
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (target.find("memfd:tracering:" + name) != std::string::npos) {
      return entry.path();
    }
  }
  ADD_FAILURE() << "process " << pid << " has no ring '" << name << "'";
  return "";
}

class RingTest : public ToolTest {
 protected:
  // A program that has traced more than its ring holds, with no service.
  ChildProcess StartTracing() {
    ChildProcess child =
        ChildProcess::Spawn({TRACERING_PRODUCER_CHILD, "before-any-consumer"},
                            {{"TRACERING_SOCKET", Path("socket")}});
    EXPECT_TRUE(child.AwaitReport());
    return child;
  }
  // How many of the first packets of writer 0 are in the file, and no others.
  uint64_t CountFirst(const std::string& path) {
    const TraceFile file = ReadTraceFile(path);
    EXPECT_THAT(CheckTrace(file), IsEmpty());
    Accounting accounting;
    accounting.Add(file.packets);
    EXPECT_THAT(accounting.complaints(), IsEmpty());
    EXPECT_EQ(accounting.missing(), 0u);
    return accounting.delivered();
  }
};

TEST_F(RingTest, KeptMemoryFileOfADeadProgramGivesItsFirstPackets) {
  ChildProcess child = StartTracing();
  const int kept = open(FindRing(child.pid(), "shared").c_str(), O_RDWR);
  ASSERT_GE(kept, 0);
  child.Signal(SIGKILL);
  child.Wait();
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(kept);
  const ToolResult result =
      Run({"ring", path, "-o", Path("out"), "--compress"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("256 of 256 chunks wait"));
  EXPECT_THAT(result.output, HasSubstr("readers: none ever"));
  EXPECT_THAT(result.output,
              HasSubstr("process " + std::to_string(child.pid())));
  const uint64_t packets = CountFirst(Path("out"));
  EXPECT_GT(packets, 1000u);
  EXPECT_THAT(result.output, HasSubstr(std::to_string(packets) + " packets"));
  close(kept);
}

TEST_F(RingTest, RingOfALivingProgramIsLeftAlone) {
  ChildProcess child = StartTracing();
  const std::string shared = FindRing(child.pid(), "shared");
  const ToolResult twice = Run({"ring", "-s", shared, shared});
  EXPECT_EQ(twice.status, 0) << twice.errors;
  EXPECT_THAT(twice.output, Not(HasSubstr("position ")));
  ASSERT_EQ(Run({"ring", shared, "-o", Path("out")}).status, 0);
  const uint64_t in_ring = CountFirst(Path("out"));
  // The service that comes after that gets all there is.
  ChildProcess recorder =
      Start({"record", "-o", Path("recorded"), "--socket", Path("socket")});
  const ToolResult traced = Finish(child);
  EXPECT_EQ(traced.status, 0) << traced.errors;
  recorder.Signal(SIGINT);
  EXPECT_EQ(Finish(recorder).status, 0);
  EXPECT_EQ(CountFirst(Path("recorded")), in_ring);
}

// The file of a ring outlives a SIGKILL, and is there for each process.
TEST_F(RingTest, RingFilesOfADeadProgramGiveItsFirstPackets) {
  for (int round = 0; round < 2; ++round) {
    ChildProcess child =
        ChildProcess::Spawn({TRACERING_PRODUCER_CHILD, "die-with-a-ring-file"},
                            {{"RING_FILE", Path("ring-%p")}});
    ASSERT_EQ(child.Wait()->signal, SIGKILL) << child.error_output();
    const std::string ring = Path("ring-" + std::to_string(child.pid()));
    const ToolResult result = Run({"ring", "-s", ring, ring + ".1",
                                   ring + ".descriptors", "-o", Path("out")});
    EXPECT_EQ(result.status, 0) << result.errors;
    const TraceFile file = ReadTraceFile(Path("out"));
    EXPECT_THAT(CheckTrace(file), IsEmpty());
    Accounting accounting;
    accounting.Add(file.packets);
    EXPECT_EQ(accounting.DeliveredOf(uint64_t(child.pid()), 1), 3u);
    EXPECT_GT(accounting.DeliveredOf(uint64_t(child.pid()), 0), 1000u);
    EXPECT_EQ(accounting.missing(), 0u);
    bool named = false;
    for (const TracePacket& packet : file.packets) {
      named |=
          packet.track_descriptor().thread().thread_name() == "named thread";
    }
    EXPECT_TRUE(named);
  }
}

TEST_F(RingTest, WhatIsNoRingDoesNotHideTheOthers) {
  ChildProcess child = StartTracing();
  WriteFile(Path("text"), "text");
  const ToolResult result = Run(
      {"ring", Path("text"), FindRing(child.pid(), "shared"), Path("none")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr(Path("text")));
  EXPECT_THAT(result.errors, HasSubstr(Path("none")));
  EXPECT_THAT(result.output, HasSubstr("complete"));
}

TEST_F(RingTest, WrongArgumentsAreNamed) {
  ExpectUsageError({"ring"}, "which PATH?");
  ExpectUsageError({"ring", "-z", "x"}, "--compress needs --output");
  ExpectUsageError({"ring", "--all", "x"}, "'--all'");
  ExpectUsageError({"ring", "-o", "/nowhere/out", "x"}, "'/nowhere/out'");
  ExpectUsageError({"ring", "-o", "", "x"}, "-o '': it must not be empty");
  ExpectUsageError({"ring", "-o", "/dev/full", "x"}, "not a regular file");
}

TEST_F(RingTest, OutputThatIsNotTakenIsAnError) {
  ChildProcess child = StartTracing();
  const ToolResult result =
      RunInShell("ring " + FindRing(child.pid(), "shared") + " >/dev/full");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("cannot print: No space left"));
}

}  // namespace
}  // namespace tracering::test
