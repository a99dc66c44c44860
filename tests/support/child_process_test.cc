// Waits end by what happens, never by luck: exit, signal, output, report.
#include "tests/support/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace tracering::test {
namespace {

TEST(ChildProcessTest, ExitStatusAndOutputArriveApart) {
  ChildProcess child = ChildProcess::Spawn(
      {"/bin/sh", "-c", "echo one; echo two; echo three >&2; exit 7"});
  const std::optional<ChildExit> exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 7);
  EXPECT_EQ(exit->signal, 0);
  EXPECT_EQ(child.output(), "one\ntwo\n");
  EXPECT_EQ(child.error_output(), "three\n");
  EXPECT_EQ(child.LastLine(), "two");
}

TEST(ChildProcessTest, OutputLargerThanAPipeDoesNotBlockTheChild) {
  ChildProcess child =
      ChildProcess::Spawn({"/bin/sh", "-c", "head -c 300000 /dev/zero"});
  ASSERT_TRUE(child.Wait().has_value());
  EXPECT_EQ(child.output().size(), 300'000u);
}

TEST(ChildProcessTest, EnvironmentIsPassedOn) {
  ChildProcess child =
      ChildProcess::Spawn({"/bin/sh", "-c", "echo \"$TRACERING_SOCKET\""},
                          {{"TRACERING_SOCKET", "/somewhere"}});
  ASSERT_TRUE(child.Wait().has_value());
  EXPECT_EQ(child.LastLine(), "/somewhere");
}

TEST(ChildProcessTest, MissingProgramExitsWith127) {
  ChildProcess child = ChildProcess::Spawn({"/nowhere/program"});
  const std::optional<ChildExit> exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 127);
}

TEST(ChildProcessTest, WaitEndsAtItsDeadlineAndAgainAtTheSignal) {
  ChildProcess child = ChildProcess::Spawn({"/bin/sleep", "1000"});
  EXPECT_FALSE(child.Wait(Milliseconds(20)).has_value());
  EXPECT_TRUE(child.Signal(SIGTERM));
  const std::optional<ChildExit> exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGTERM);
  EXPECT_FALSE(child.Signal(SIGTERM));
}

TEST(ChildProcessTest, WaitForOutputReturnsWhileTheChildRuns) {
  ChildProcess child =
      ChildProcess::Spawn({"/bin/sh", "-c", "echo ready; exec sleep 1000"});
  EXPECT_TRUE(child.WaitForOutput("ready\n"));
  EXPECT_FALSE(child.WaitForOutput("never", Milliseconds(20)));
}

TEST(ChildProcessTest, WaitForOutputGivesUpWhenTheChildIsGone) {
  ChildProcess child = ChildProcess::Spawn({"/bin/true"});
  EXPECT_FALSE(child.WaitForOutput("never"));
}

TEST(ChildProcessTest, ForkedBodyTakesTurnsWithItsParent) {
  ChildProcess child = ChildProcess::Fork([] {
    handshake::Report();
    handshake::AwaitRelease();
    handshake::Report();
    handshake::AwaitRelease();
    return 5;
  });
  ASSERT_TRUE(child.AwaitReport());
  EXPECT_FALSE(child.AwaitReport(Milliseconds(20)));
  child.Release();
  ASSERT_TRUE(child.AwaitReport());
  child.Release();
  const std::optional<ChildExit> exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 5);
}

TEST(ChildProcessTest, AwaitReportEndsWhenTheChildDies) {
  ChildProcess child = ChildProcess::Fork([] {
    raise(SIGKILL);
    return 0;
  });
  EXPECT_FALSE(child.AwaitReport());
  ASSERT_TRUE(child.Wait().has_value());
  EXPECT_EQ(child.Wait()->signal, SIGKILL);
  child.Release();  // harmless
}

TEST(ChildProcessTest, DestructionKillsAndReaps) {
  pid_t pid;
  {
    ChildProcess child = ChildProcess::Spawn({"/bin/sleep", "1000"});
    pid = child.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace tracering::test
