// Honest producers beside a process that attacks the service with all that it
// was handed. Real processes at full speed: what happens is what the machine
// makes of it, and no run is like another; the fuzzers are the systematic part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/service_test.h"
#include "tests/support/open_fds.h"

namespace tracering::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AttackerTest : public ServiceTest {
 protected:
  // Runs two honest producers to their end while an attacker is at work.
  void RunBesideAttacker(std::vector<pid_t>* pids, uint64_t* attempted) {
    ChildProcess attacker = SpawnProgram({TRACERING_ATTACKER_CHILD});
    ASSERT_TRUE(attacker.AwaitReport()) << attacker.error_output();

    std::vector<ChildProcess> honest;
    for (int i = 0; i < 2; ++i)
      honest.push_back(SpawnProgram({TRACERING_PRODUCER_CHILD, "stalling"}));
    for (ChildProcess& child : honest) {
      std::optional<ChildExit> exit;
      // Calls of the consumer return meanwhile, whatever the attacker's rings
      // look like.
      const bool ended = Eventually(
          [&] {
            consumer_->Flush(std::chrono::milliseconds(100));
            (void)consumer_->stats();
            exit = child.Wait(Milliseconds(0));
            return exit.has_value();
          },
          std::chrono::seconds(100));
      ASSERT_TRUE(ended) << "an honest producer starves";
      EXPECT_EQ(exit->code, 0) << child.error_output();
      const Totals totals = ParseTotals(child.LastLine());
      EXPECT_EQ(totals.lost, 0u);
      *attempted = totals.first;
      pids->push_back(child.pid());
    }

    // It was there to the end, and tries everything, sooner or later.
    ASSERT_FALSE(attacker.Wait(Milliseconds(0)).has_value())
        << attacker.error_output();
    EXPECT_TRUE(Eventually([&] {
      const ConsumerStats stats = consumer_->stats();
      return stats.rings_stopped > 0 && stats.producers_refused > 0 &&
             stats.packets.lost[LossCause::kChunkCorrupted] > 0 &&
             stats.packets.delivered > 2 * *attempted;
    }));
    ASSERT_TRUE(attacker.Signal(SIGKILL));
    EXPECT_EQ(attacker.Wait()->signal, SIGKILL);
  }
  // Everything that the honest producers attempted is in the file, in order.
  void ExpectExactFor(const std::vector<pid_t>& honest,
                      uint64_t attempted_each) {
    const absl::StatusOr<TraceFileInfo> info =
        consumer_->WriteTrace(trace_path());
    ASSERT_TRUE(info.ok()) << info.status();
    const TraceFile file = ReadTraceFile(trace_path());
    // The attacker's own packets may hold anything in their fields of bytes.
    EXPECT_THAT(file.complaints, Each(HasSubstr("does not parse")));
    for (const pid_t pid : honest) {
      std::vector<TracePacket> own;
      for (const TracePacket& packet : file.packets) {
        if (packet.trusted_pid() == pid) own.push_back(packet);
      }
      Accounting accounting;
      accounting.Add(own);
      accounting.ExpectTotal(attempted_each, 0);
      EXPECT_EQ(accounting.marks(), 0u);
      EXPECT_THAT(accounting.complaints(), IsEmpty());
    }
  }
};

TEST_F(AttackerTest, TwoHonestProducersStayExactBesideAnAttacker) {
  options_.buffers.push_back({"noise", 1 << 20, FillPolicy::kRing});
  options_.limits.rings_per_producer = 8;
  StartConsumer();
  const size_t fds_before = CountOpenFds();
  std::vector<pid_t> pids;
  uint64_t attempted = 0;
  ASSERT_NO_FATAL_FAILURE(RunBesideAttacker(&pids, &attempted));
  EXPECT_TRUE(AwaitNobody());
  ExpectExactFor(pids, attempted);
  // What the attacker sent may be closed on another thread.
  EXPECT_TRUE(Eventually([&] { return CountOpenFds() == fds_before; }));
}

}  // namespace
}  // namespace tracering::test
