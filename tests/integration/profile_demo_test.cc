// The profiled demo as a user runs it: the saved file shows slices and samples,
// and the hot function has its share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/integration/service_test.h"
#include "tests/support/profile_sample.h"
#include "tests/support/sanitizers.h"

namespace tracering::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

uint64_t NumberAfter(const std::string& line, const std::string& name) {
  const size_t at = line.find(name + '=');
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << name << " in '" << line << "'";
    return 0;
  }
  return std::strtoull(line.c_str() + at + name.size() + 1, nullptr, 10);
}

struct Profile {
  uint64_t samples = 0;
  uint64_t lost = 0;
  uint64_t slices = 0;
  uint64_t named = 0;        // their innermost frame has a name
  uint64_t in_program = 0;   // it lies in the program
  uint64_t hot = 0;          // in SpinHot
  uint64_t hot_callers = 0;  // of these, with the caller HandleRequest
  uint64_t labelled = 0;
  std::set<uint32_t> threads;
};

class ProfileTest : public ServiceTest {
 protected:
  Profile ReadProfile() {
    const TraceFile file = ReadTraceFile(trace_path());
    EXPECT_THAT(file.complaints, IsEmpty());
    EXPECT_THAT(CheckTrace(file), IsEmpty());
    Profile profile;
    for (const TracePacket& packet : file.packets) {
      if (packet.track_event().type() == TrackEvent::TYPE_SLICE_BEGIN) {
        ++profile.slices;
      }
      if (!packet.has_perf_sample()) continue;
      const ProfileSample sample = DecodeSample(packet);
      profile.lost += sample.lost;
      if (sample.lost != 0) continue;
      ++profile.samples;
      Add(sample, &profile);
    }
    return profile;
  }

  static void Add(const ProfileSample& sample, Profile* profile) {
    profile->threads.insert(sample.tid);
    const ProfileSample::Frame& innermost = sample.frames.back();
    if (!innermost.function.empty()) ++profile->named;
    if (innermost.module.find("profile_demo") != std::string::npos) {
      ++profile->in_program;
    }
    if (sample.label() == "requests") ++profile->labelled;
    // Innermost itself, but where nothing is inlined.
    if (!sample.Has("SpinHot(")) return;
    ++profile->hot;
    if (sample.Has("HandleRequest(")) ++profile->hot_callers;
  }
};

TEST_F(ProfileTest, TheHotFunctionHasItsShareOfTheSamples) {
  ChildProcess consumer = ChildProcess::Spawn(
      {TRACERING_DEMO_CONSUMER, "--output", trace_path(), "--socket",
       options_.socket_path, "--exit-when-idle"});
  ChildProcess demo = ChildProcess::Spawn(
      {TRACERING_PROFILE_DEMO, "--socket", options_.socket_path, "--wait-ms",
       "30000", "--threads", "3", "--cpu-ms", "1500", "--frequency", "200"});
  const auto demo_exit = demo.Wait();
  ASSERT_TRUE(demo_exit.has_value());
  EXPECT_EQ(demo_exit->code, 0) << demo.error_output();
  const auto consumer_exit = consumer.Wait();
  ASSERT_TRUE(consumer_exit.has_value());
  EXPECT_EQ(consumer_exit->code, 0) << consumer.error_output();

  const std::string said = demo.LastLine();
  EXPECT_EQ(NumberAfter(said, " lost"), 0u);
  const Profile profile = ReadProfile();
  EXPECT_EQ(profile.samples, NumberAfter(said, " samples"));
  EXPECT_EQ(profile.lost, NumberAfter(said, " samples_lost"));
  EXPECT_GT(profile.slices, 0u);
  EXPECT_GE(profile.threads.size(), 3u);
  // 4.5 s of CPU time at 200 Hz are 900 expiries; a slow tick merges some.
  ASSERT_GT(profile.samples, 200u);
  if (kThreadSanitizer) return;  // it delays signals to its own calls
  // Six sevenths of the work; a virtual machine moves some samples to where it
  // was interrupted.
  EXPECT_GT(profile.hot * 10, profile.samples * 6);
  EXPECT_LT(profile.hot * 100, profile.samples * 97);
  // All but samples in a prologue see who called.
  EXPECT_GT(profile.hot_callers * 10, profile.hot * 9);
  EXPECT_GT(profile.in_program * 10, profile.samples * 9);
  EXPECT_GT(profile.named * 10, profile.samples * 9);
  EXPECT_GT(profile.labelled * 10, profile.samples * 9);
}

TEST_F(ProfileTest, BadArgumentsAreExplained) {
  for (const std::string argument : {"--frequency=10001", "--threads=0"}) {
    ChildProcess demo = ChildProcess::Spawn({TRACERING_PROFILE_DEMO, argument});
    const auto exit = demo.Wait();
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->code, 2);
    EXPECT_THAT(demo.error_output(), HasSubstr("must be a whole number from"));
  }
}

}  // namespace
}  // namespace tracering::test
