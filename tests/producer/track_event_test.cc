// Track events within one process: patterns, the clock, and what the first
// event, the deepest slice and the fullest chunk need.
#include "tracering/track_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/producer/category_patterns.h"
#include "src/producer/tsc_clock.h"
#include "tests/producer/scripted_service.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace tracering {
namespace {

using internal::EnablesCategory;
using internal::MatchesGlob;
using internal::SplitPatterns;
using internal::TscClock;
using std::chrono::seconds;
using test::ScriptedService;
using test::Session;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CategoryPatternsTest, StarsAndQuestionMarksMatchTheWholeName) {
  EXPECT_TRUE(MatchesGlob("net", "net"));
  EXPECT_FALSE(MatchesGlob("net", "network"));
  EXPECT_FALSE(MatchesGlob("net", "subnet"));
  EXPECT_TRUE(MatchesGlob("net*", "network"));
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_TRUE(MatchesGlob("*.*", "a.b.c"));
  EXPECT_FALSE(MatchesGlob("?", ""));
  EXPECT_TRUE(MatchesGlob("n?t", "net"));
  EXPECT_TRUE(MatchesGlob("*a*b", "xxaxbxab"));
  EXPECT_FALSE(MatchesGlob("*a*b", "xxaxbxac"));
  EXPECT_FALSE(MatchesGlob("", "a"));
  const std::string stars(127, '*');
  EXPECT_FALSE(MatchesGlob(stars + "b", std::string(255, 'a')));
}

TEST(CategoryPatternsTest, LastPatternThatMatchesDecides) {
  const auto patterns = SplitPatterns("a*,,-a.noisy*,a.noisy.but_this,");
  EXPECT_THAT(patterns, ElementsAre("a*", "-a.noisy*", "a.noisy.but_this"));
  EXPECT_TRUE(EnablesCategory(patterns, "a.b"));
  EXPECT_FALSE(EnablesCategory(patterns, "a.noisy.x"));
  EXPECT_TRUE(EnablesCategory(patterns, "a.noisy.but_this"));
  EXPECT_FALSE(EnablesCategory(patterns, "b"));
  EXPECT_FALSE(EnablesCategory({}, "a"));
  EXPECT_THAT(SplitPatterns(""), IsEmpty());
}

// --- The clock ---

// What docs/track-events.md promises.
constexpr uint64_t kMaxErrorNs = 100'000;

class TscClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TscClock::IsAvailable()) GTEST_SKIP() << "no invariant counter here";
    TscClock::Use(true);
  }
  ~TscClockTest() override { TscClock::Use(false); }

  // Reads the one clock between two readings of the other: whatever delays this
  // makes the check weaker, and never fail.
  static void ExpectNear() {
    const uint64_t before = NowNs();
    const uint64_t now = TscClock::Read();
    const uint64_t after = NowNs();
    ASSERT_GE(now + kMaxErrorNs, before);
    ASSERT_LE(now, after + kMaxErrorNs);
  }
};

TEST_F(TscClockTest, StaysWithinItsBoundOverManyCalibrations) {
  const uint64_t end = NowNs() + 5 * TscClock::kIntervalNs;
  while (NowNs() < end) ExpectNear();
}

TEST_F(TscClockTest, IsRightAgainAfterNobodyReadItForLong) {
  ExpectNear();
  const uint64_t end = NowNs() + 3 * TscClock::kIntervalNs;
  while (NowNs() < end) std::this_thread::yield();
  ExpectNear();
}

TEST_F(TscClockTest, NeverStepsBackInAThreadWhileAllCalibrate) {
  std::atomic<bool> stepped_back{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stepped_back] {
      uint64_t last = 0;
      const uint64_t end = NowNs() + 3 * TscClock::kIntervalNs;
      while (last < end) {
        const uint64_t now = TscClock::Read();
        if (now < last) stepped_back = true;
        last = now;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(stepped_back);
}

constexpr uint64_t kOneToOne = uint64_t{1} << 32;  // ns per tick, by 2^-32

TscClock::Line LineFrom(uint64_t ticks, uint64_t ns) {
  TscClock::Line line;
  line.ticks = ticks;
  line.ns = line.true_ns = ns;
  line.ns_per_tick = line.true_rate = kOneToOne;
  line.max_ticks = TscClock::kIntervalNs;
  return line;
}

TEST(TscLineTest, LineThatWasTooFastIsLeftWithoutAStepBack) {
  const TscClock::Line old = LineFrom(1000, 5000);
  // CLOCK_BOOTTIME went 100 ppm slower.
  const uint64_t ticks = old.ticks + old.max_ticks;
  const uint64_t ns = old.ns + TscClock::kIntervalNs - 10'000;
  const TscClock::Line next = old.Next(ticks, ns);
  EXPECT_GE(next.Along(0), old.Along(old.max_ticks));
  EXPECT_LE(next.Along(0), old.Along(old.max_ticks) + 1);
  EXPECT_LT(next.true_rate, kOneToOne);
  // On time at its end.
  const uint64_t end = next.Along(next.max_ticks);
  EXPECT_NEAR(static_cast<double>(end),
              static_cast<double>(ns + TscClock::kIntervalNs), 100.0);
}

TEST(TscLineTest, SuspendIsAStepAndNoChangeOfRate) {
  const TscClock::Line old = LineFrom(1000, 5000);
  const uint64_t hour = 3'600'000'000'000;
  const TscClock::Line next =
      old.Next(old.ticks + old.max_ticks, old.ns + hour);
  EXPECT_EQ(next.Along(0), old.ns + hour);
  EXPECT_EQ(next.true_rate, kOneToOne);
  // The counter may start over.
  const TscClock::Line reset = old.Next(7, old.ns + hour);
  EXPECT_EQ(reset.Along(0), old.ns + hour);
  EXPECT_EQ(reset.true_rate, kOneToOne);
}

// --- Events ---

class TrackEventsTest : public ::testing::Test {
 protected:
  ~TrackEventsTest() override {
    StopTracing();
    SetEnabledCategories({});
  }
  TracingOptions Options() const {
    TracingOptions options;
    options.producer.name = "test";
    options.producer.socket_path = directory_.Path("socket");
    options.categories = {{"*"}};
    return options;
  }
  // What was traced, and only now read.
  std::vector<test::TracePacket> Drain() {
    ScriptedService service(directory_.Path("socket"));
    const std::unique_ptr<Session> session = service.AcceptAndWelcome();
    if (session == nullptr) return {};
    session->DrainAll();
    EXPECT_THAT(session->Violations(), IsEmpty());
    return session->Packets();
  }

  const test::TempDir directory_;
};

void Deeper(int levels) {
  if (levels == 0) return;
  TRACERING_BEGIN("deep", "slice");
  Deeper(levels - 1);
  TRACERING_END("deep");
}

TEST_F(TrackEventsTest, SlicesBeyondTheLimitAreLeftOutWhole) {
  const uint64_t before = tracing_stats().slices_too_deep;
  ASSERT_TRUE(StartTracing(Options()).ok());
  Deeper(130);
  EXPECT_EQ(tracing_stats().slices_too_deep, before + 2);
  size_t begins = 0;
  size_t ends = 0;
  for (const test::TracePacket& packet : Drain()) {
    const auto type = packet.track_event().type();
    begins += type == test::TrackEvent::TYPE_SLICE_BEGIN ? 1 : 0;
    ends += type == test::TrackEvent::TYPE_SLICE_END ? 1 : 0;
  }
  EXPECT_EQ(begins, 128u);
  EXPECT_EQ(ends, 128u);
}

TEST_F(TrackEventsTest, EventsFitWhateverIsLeftOfAChunk) {
  TracingOptions options = Options();
  options.producer.chunk_size = 256;
  options.producer.ring_size = 1 << 18;
  ASSERT_TRUE(StartTracing(options).ok());
  const std::string filler(100, 'f');
  constexpr size_t kRounds = 100;
  for (size_t i = 0; i < kRounds; ++i) {
    TRACERING_INSTANT("c", filler.substr(i), "filler", i);
    TRACERING_SCOPE("category", "a literal name", "text", "0123456789abcdef",
                    "number", i, "real", 0.5, "flag", true);
    TRACERING_INSTANT("category", "short");
    TRACERING_INSTANT("category",
                      "a literal name that is too long to be encoded once and "
                      "for all in its site",
                      filler, filler);
  }
  const std::vector<test::TracePacket> packets = Drain();
  ASSERT_EQ(packets.size(), 5 * kRounds);
  uint64_t last = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    const test::TrackEvent& event = packets[i].track_event();
    EXPECT_GE(packets[i].timestamp(), last);
    last = packets[i].timestamp();
    EXPECT_EQ(event.track_uuid(), packets[0].track_event().track_uuid());
    switch (i % 5) {
      case 0:
        EXPECT_EQ(event.name(), filler.substr(i / 5));
        break;
      case 1:
        EXPECT_EQ(event.name(), "a literal name");
        EXPECT_THAT(event.categories(), ElementsAre("category"));
        ASSERT_EQ(event.debug_annotations_size(), 4);
        EXPECT_EQ(event.debug_annotations(0).string_value(),
                  "0123456789abcdef");
        EXPECT_EQ(event.debug_annotations(1).uint_value(), i / 5);
        EXPECT_EQ(event.debug_annotations(2).double_value(), 0.5);
        EXPECT_TRUE(event.debug_annotations(3).bool_value());
        break;
      case 2:
        EXPECT_EQ(event.name(), "short");
        break;
      case 3:
        EXPECT_EQ(event.name().size(), 74u);
        ASSERT_EQ(event.debug_annotations_size(), 1);
        EXPECT_EQ(event.debug_annotations(0).name(), filler);
        EXPECT_EQ(event.debug_annotations(0).string_value(), filler);
        break;
      default:
        EXPECT_EQ(event.type(), test::TrackEvent::TYPE_SLICE_END);
    }
  }
}

TEST_F(TrackEventsTest, ClockOfTheCounterGivesTimeOfBoot) {
  TracingOptions options = Options();
  options.clock = TraceClock::kTsc;
  ASSERT_TRUE(StartTracing(options).ok());
  EXPECT_EQ(tracing_stats().clock,
            TscClock::IsAvailable() ? TraceClock::kTsc : TraceClock::kBoottime);
  const uint64_t before = NowNs();
  TRACERING_INSTANT("c", "now");
  const uint64_t after = NowNs();
  const std::vector<test::TracePacket> packets = Drain();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_GE(packets[0].timestamp() + kMaxErrorNs, before);
  EXPECT_LE(packets[0].timestamp(), after + kMaxErrorNs);
  EXPECT_FALSE(packets[0].has_timestamp_clock_id());
}

TEST_F(TrackEventsTest, CategoriesFollowTheLastWord) {
  const Category category("word");
  SetEnabledCategories({"word"});
  EXPECT_FALSE(category.enabled());  // nothing is traced
  TracingOptions options = Options();
  options.categories = {{"other"}};
  ASSERT_TRUE(StartTracing(options).ok());
  EXPECT_FALSE(category.enabled());
  SetEnabledCategories({"w*"});
  EXPECT_TRUE(category.enabled());
  EXPECT_TRUE(TRACERING_ENABLED("word"));
  ScriptedService service(directory_.Path("socket"));
  {
    const std::unique_ptr<Session> session = service.AcceptAndWelcome();
    ASSERT_NE(session, nullptr);
    ASSERT_TRUE(TracingProducer()->WaitForConsumer(seconds(30)));
    EXPECT_FALSE(category.enabled());  // its Welcome names none
    ASSERT_TRUE(session->Send(control::SetEnabled{{"*", "-x"}}));
    EXPECT_TRUE(test::Eventually([&] { return category.enabled(); }));
    SetEnabledCategories({"x"});
    EXPECT_FALSE(category.enabled());
    ASSERT_TRUE(session->Send(control::SetEnabled{{"word"}}));
    EXPECT_TRUE(test::Eventually([&] { return category.enabled(); }));
  }
  // It is gone.
  EXPECT_TRUE(test::Eventually([&] { return !category.enabled(); }));
  EXPECT_TRUE(CategoryEnabled("x"));
  StopTracing();
  EXPECT_FALSE(CategoryEnabled("x"));
}

TEST_F(TrackEventsTest, NamesOfCategoriesAreBounded) {
  const std::string kept(1024, 'n');
  const Category cut(kept + "one more");
  EXPECT_EQ(cut.events().category(), kept);
  EXPECT_EQ(&Category(std::string(1 << 20, 'n')).events(), &cut.events());
}

TEST_F(TrackEventsTest, OptionsThatCannotBeAreNamed) {
  TracingOptions options = Options();
  options.buffer = "";
  EXPECT_THAT(std::string(StartTracing(options).message()),
              ::testing::HasSubstr("buffer name ''"));
  options = Options();
  options.categories = {{""}};
  EXPECT_THAT(std::string(StartTracing(options).message()),
              ::testing::HasSubstr("pattern ''"));
  options = Options();
  options.producer.chunk_size = 1000;
  EXPECT_EQ(StartTracing(options).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TracingProducer(), nullptr);
  ASSERT_TRUE(StartTracing(Options()).ok());
  EXPECT_EQ(StartTracing(Options()).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrackEventsTest, ThreadsMayTraceWhileItStartsAndStops) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  AsyncTrack track("shared");
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        TRACERING_SCOPE("c", "scope", "text", "x");
        TRACERING_BEGIN("c", "begun");
        TRACERING_COUNTER("c", "counter", 1);
        TRACERING_ASYNC_BEGIN("c", track, "shared");
        TRACERING_ASYNC_END(track);
        TRACERING_END("c");
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(StartTracing(Options()).ok());
    const std::shared_ptr<Producer> producer = TracingProducer();
    EXPECT_TRUE(
        test::Eventually([&] { return producer->stats().attempted > 100; }));
    StopTracing();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tracering
