// Programs that end or fork in awkward ways, looked at from outside: they end
// well, say nothing, and what they traced is in the rings, exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/producer/scripted_service.h"
#include "tests/support/accounting.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace tracering::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// LeakSanitizer misses the threads of the parent in a child.
std::string WithoutRemarks(const std::string& output) {
  std::istringstream lines(output);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("False leaks are possible.") == std::string::npos) {
      rest += line + "\n";
    }
  }
  return rest;
}

class AppTest : public testing::Test {
 protected:
  ChildProcess Start(const std::string& way) {
    std::vector<std::pair<std::string, std::string>> env = {
        {"TRACERING_SOCKET", socket_path_}};
    if (way.find("fork") == 0) {
      // Children start threads, and know what they do.
      env.emplace_back("TSAN_OPTIONS", "die_after_fork=0");
    }
    if (way == "fork_in_thread") {
      // The stack of the program's main thread, which the child has not got,
      // holds what the program allocated.
      env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
    }
    return ChildProcess::Spawn({TRACERING_APP_PROGRAM, way}, env);
  }

  // Runs the program to its end, and takes what is left in its rings.
  void Run(const std::string& way) {
    ChildProcess program = Start(way);
    const std::optional<ChildExit> end = program.Wait();
    ASSERT_TRUE(end.has_value()) << way << " does not end";
    EXPECT_EQ(end->code, 0);
    EXPECT_EQ(end->signal, 0);
    EXPECT_EQ(WithoutRemarks(program.error_output()), "");
    service_.Stop();
    for (const DrainingService::Client& client : service_.clients()) {
      EXPECT_THAT(client.session->Violations(), IsEmpty());
    }
    unsigned long long attempted = 0;
    unsigned long long lost = 0;
    if (std::sscanf(program.LastLine().c_str(), "attempted=%llu lost=%llu",
                    &attempted, &lost) == 2) {
      attempted_ = attempted;
      lost_ = lost;
    }
  }

  const Session& session(size_t client) const {
    return *service_.clients()[client].session;
  }

  // Every packet that says that it was attempted is there, once, in order.
  void ExpectExact(size_t client) {
    ASSERT_LT(client, service_.clients().size());
    EXPECT_EQ(session(client).Packets().size(), attempted_ - lost_);
    ExpectOrder(client);
  }
  Accounting ExpectOrder(size_t client) {
    Accounting accounting;
    accounting.Add(session(client).Packets());
    EXPECT_THAT(accounting.complaints(), IsEmpty());
    EXPECT_EQ(accounting.missing(), 0u);
    return accounting;
  }

  TempDir directory_;
  const std::string socket_path_ = directory_.Path("service.sock");
  DrainingService service_{socket_path_};
  uint64_t attempted_ = 0;
  uint64_t lost_ = 0;
};

TEST_F(AppTest, TracingFromDestructorsOfThreadLocalsIsDelivered) {
  Run("tls_destructors");
  EXPECT_EQ(attempted_, 20u * 7);
  ExpectExact(0);
}

TEST_F(AppTest, TracingFromKeyDestructorsIsHarmless) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer is gone when these destructors run";
  }
  Run("key_destructors");
  // At least those before the library's own.
  EXPECT_GE(attempted_, 20u * 2);
  ExpectExact(0);
}

TEST_F(AppTest, TracingFromAtexitAndStaticDestructorsIsDeliveredWhileItCanBe) {
  Run("static_destructors");
  const Accounting accounting = ExpectOrder(0);
  EXPECT_EQ(accounting.DeliveredOf(0, 0), 1u);
  // Twice before the producer's end; once more after it, into nothing.
  EXPECT_EQ(accounting.DeliveredOf(0, 1), 4u);
  EXPECT_TRUE(service_.clients()[0].said_goodbye);
}

TEST_F(AppTest, ExitInsideAPacketDeliversWhatWasFinished) {
  Run("exit_inside_packet");
  const Accounting accounting = ExpectOrder(0);
  EXPECT_EQ(accounting.DeliveredOf(0, 0), 1u);
}

TEST_F(AppTest, TracingAfterShutdownGoesNowhere) {
  Run("after_shutdown");
  EXPECT_EQ(attempted_, 1u);
  ExpectExact(0);
}

TEST_F(AppTest, AProducerThatIsNeverDestroyedIsNoLeak) {
  Run("leaked_producer");
  EXPECT_EQ(attempted_, 1u);
  ExpectExact(0);
}

// Once the library wrote its wake-ups into them, and closed them at its end.
TEST_F(AppTest, FilesAtNumbersThatTheProgramClosedAreLeftAlone) {
  Run("close_descriptors");
}

TEST_F(AppTest, ClosedStandardStreamsAreNotTakenForRings) {
  Run("no_standard_streams");
  ASSERT_THAT(service_.clients(), SizeIs(1));
  EXPECT_THAT(session(0).Packets(), SizeIs(1));
}

class ForkTest : public AppTest {
 protected:
  void ExpectParentExactAndChildrenOnTheirOwn() {
    // The parent, and five children with sessions of their own.
    ASSERT_THAT(service_.clients(), SizeIs(6));
    ExpectExact(0);
    EXPECT_EQ(lost_, 0u);
    EXPECT_EQ(ExpectOrder(0).DeliveredOf(0, 0), 10u);
    EXPECT_EQ(ExpectOrder(0).DeliveredOf(0, 77), 0u);
    EXPECT_TRUE(service_.clients()[0].said_goodbye);
    for (size_t child = 1; child <= 5; ++child) {
      const Accounting accounting = ExpectOrder(child);
      EXPECT_EQ(accounting.delivered(), 101u);
      EXPECT_EQ(accounting.DeliveredOf(0, 78), 100u);
      EXPECT_TRUE(service_.clients()[child].said_goodbye);
    }
  }
};

TEST_F(ForkTest, ChildrenThatExitLeaveTheParentsTraceExact) {
  Run("fork_exit");
  ExpectParentExactAndChildrenOnTheirOwn();
}

TEST_F(ForkTest, ChildrenThatExitAtOnceLeaveTheParentsTraceExact) {
  Run("fork_underscore_exit");
  ExpectParentExactAndChildrenOnTheirOwn();
}

// Looks for leaks under AddressSanitizer.
TEST_F(ForkTest, WritersOfThreadsThatAChildHasNotGotAreNoLeak) {
  Run("fork_beside_writer");
  EXPECT_EQ(attempted_, 1u);
  ExpectExact(0);
}

TEST_F(ForkTest, AChildDoesNotKeepTheConnectionOfItsParentOpen) {
  ChildProcess program = Start("fork_and_die");
  ASSERT_TRUE(program.Wait().has_value());
  service_.Stop();
  ASSERT_THAT(service_.clients(), SizeIs(1));
  EXPECT_TRUE(PollFd(session(0).socket(), POLLHUP));
  EXPECT_THAT(session(0).Packets(), SizeIs(1));
}

TEST_F(ForkTest, AChildThatIsBornInACallbackTouchesNothing) {
  Run("fork_in_callback");
  ASSERT_THAT(service_.clients(), SizeIs(1));
  EXPECT_EQ(attempted_, 1u);
  ExpectExact(0);
}

// The child consists of the background thread alone.
TEST_F(ForkTest, AChildThatIsBornOnTheBackgroundThreadEndsWithIt) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer cannot end a process by its last thread";
  }
  Run("fork_in_thread");
  ASSERT_THAT(service_.clients(), SizeIs(1));
  EXPECT_EQ(attempted_, 1u);
  ExpectExact(0);
}

}  // namespace
}  // namespace tracering::test
