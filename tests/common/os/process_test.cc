// Names, ids, clocks and the socket path of this process.
#include "src/common/os/process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/common/os/clock.h"
#include "src/common/os/unique_fd.h"
#include "tests/common/os/os_test_util.h"
#include "tests/support/child_process.h"

namespace tracering::os {
namespace {

// Sets or unsets an environment variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    Set(value);
  }
  ~ScopedVariable() { Set(before_ ? before_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* const name_;
  std::optional<std::string> before_;
};

TEST(ProcessTest, NameIsThatOfTheProgramFile) {
  EXPECT_EQ(ProcessName(), "os_test");
}

TEST(ProcessTest, ThreadNameAndIdAreThoseOfTheCallingThread) {
  EXPECT_EQ(CurrentThreadId(), getpid());
  std::thread([] {
    pthread_setname_np(pthread_self(), "fifteen bytes..");
    EXPECT_EQ(CurrentThreadName(), "fifteen bytes..");
    EXPECT_NE(CurrentThreadId(), getpid());
  }).join();
  EXPECT_NE(CurrentThreadName(), "fifteen bytes..");
}

TEST(ProcessTest, ThreadIdIsRightInAForkedChild) {
  test::ChildProcess child = test::ChildProcess::Fork(
      [] { return CurrentThreadId() == getpid() ? 0 : 1; });
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
}

TEST(ResolveSocketPathTest, FirstThatIsSetWins) {
  const ScopedVariable own("TRACERING_SOCKET", "/run/own.sock");
  const ScopedVariable runtime("XDG_RUNTIME_DIR", "/run/user/7");
  EXPECT_EQ(ResolveSocketPath("/configured"), "/configured");
  EXPECT_EQ(ResolveSocketPath(""), "/run/own.sock");
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ScopedVariable no_own("TRACERING_SOCKET", unset);
    EXPECT_EQ(ResolveSocketPath(""), "/run/user/7/tracering.sock");
    const ScopedVariable no_runtime("XDG_RUNTIME_DIR", unset);
    EXPECT_EQ(ResolveSocketPath(""),
              "/tmp/tracering-" + std::to_string(getuid()) + ".sock");
  }
}

TEST(ClockTest, ClocksRunAndAnUnknownOneIsZero) {
  const int64_t boot = BoottimeNs();
  const int64_t monotonic = MonotonicNs();
  EXPECT_GT(monotonic, 0);
  EXPECT_GE(MonotonicNs(), monotonic);
  EXPECT_GE(BoottimeNs(), boot);
  // Seconds and nanoseconds are both in it: 2020 is behind us.
  EXPECT_GT(NowNs(CLOCK_REALTIME), int64_t{1'577'836'800} * 1'000'000'000);
  EXPECT_EQ(NowNs(static_cast<clockid_t>(12345)), 0);
}

TEST(NextFdIsReservedTest, IsSoForTheLastOnes) {
  const ScopedLimit limit(RLIMIT_NOFILE, 64);
  EXPECT_FALSE(NextFdIsReserved(4));
  std::vector<UniqueFd> fds;
  while (NextFd() < 60) fds.emplace_back(dup(0));
  EXPECT_FALSE(NextFdIsReserved(0));
  EXPECT_FALSE(NextFdIsReserved(3));
  EXPECT_TRUE(NextFdIsReserved(4));
  for (int i = 0; i < 4; ++i) fds.emplace_back(dup(0));
  EXPECT_FALSE(NextFdIsReserved(4)) << "there is none";
}

}  // namespace
}  // namespace tracering::os
