// tracering stat: beside a service of another process.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/tools/tool_test.h"

namespace tracering::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class StatTest : public ToolTest {
 protected:
  std::string socket() const { return Path("socket"); }
  ChildProcess StartRecorder() {
    ChildProcess recorder =
        Start({"record", "-o", Path("out"), "--socket", socket()});
    EXPECT_TRUE(Eventually([&] { return fs::exists(socket()); }));
    return recorder;
  }
  std::vector<std::string> StatLine(std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"stat", "--socket", socket(), "--interval", "10ms"});
    return more;
  }
};

TEST_F(StatTest, ProducersAreListedWithTheirCounts) {
  ChildProcess recorder = StartRecorder();
  std::vector<ChildProcess> programs;
  for (int i = 0; i < 3; ++i) {
    programs.push_back(ChildProcess::Spawn({TRACERING_PRODUCER_CHILD, "hold"},
                                           {{"TRACERING_SOCKET", socket()}}));
    ASSERT_TRUE(programs.back().AwaitReport());
  }
  const ToolResult result = Run(StatLine({"-n", "2"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  for (const ChildProcess& program : programs) {
    EXPECT_THAT(result.output,
                HasSubstr(" " + std::to_string(program.pid()) + " "));
  }
  EXPECT_THAT(result.output, HasSubstr("producer_child"));
  EXPECT_THAT(result.output, HasSubstr("all 3, of 3 so far"));
  EXPECT_THAT(result.output, Not(HasSubstr("\x1b")));
  // Whoever looks is no producer, and nothing to talk about.
  recorder.Signal(SIGINT);
  const ToolResult recorded = Finish(recorder);
  EXPECT_EQ(recorded.status, 0);
  EXPECT_THAT(recorded.errors, Not(HasSubstr("''")));
}

TEST_F(StatTest, EndsWithTheService) {
  ChildProcess recorder = StartRecorder();
  ChildProcess stat = Start(StatLine({}));
  ASSERT_TRUE(stat.WaitForOutput("all 0, of 0 so far"));
  recorder.Signal(SIGINT);
  recorder.Wait();
  EXPECT_EQ(Finish(stat).status, 0);
}

TEST_F(StatTest, ServiceThatIsNotThereOrHangsIsAnError) {
  const ToolResult result = Run(StatLine({}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr(socket()));
  // Takes connections, and does no more.
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket().c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(listen(fd, 8), 0);
  ChildProcess stat = Start(StatLine({}));
  const int accepted = accept(fd, nullptr, nullptr);
  ASSERT_GE(accepted, 0);
  ASSERT_EQ(send(accepted, "nonsense", 8, 0), 8);
  const ToolResult nonsense = Finish(stat);
  EXPECT_EQ(nonsense.status, 1);
  EXPECT_THAT(nonsense.errors, HasSubstr("nonsense"));
  close(accepted);
  close(fd);
}

TEST_F(StatTest, WrongArgumentsAreNamed) {
  ExpectUsageError({"stat", "x"}, "'x'");
  ExpectUsageError({"stat", "--", "x"}, "no operands");
  ExpectUsageError({"stat", "-n", "0"}, "'0' must be a whole number");
  ExpectUsageError({"stat", "-i", "1ms"}, "it must be from 10 ms to 60 min");
  ExpectUsageError({"stat", "--all"}, "'--all'");
  for (const char* option : {"--socket", "-i", "-n"}) {
    ExpectUsageError({"stat", option, ""}, "it must not be empty");
  }
}

}  // namespace
}  // namespace tracering::test
