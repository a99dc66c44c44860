// Lines for the user: order, bound, and where they are handed over.
#include "src/consumer/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/common/ring/draining_thread.h"

namespace tracering::internal {
namespace {

using ::testing::ElementsAre;

TEST(EventLogTest, HandsOverLinesInOrderAndOnce) {
  std::vector<std::string> lines;
  EventLog log([&](std::string_view line) { lines.emplace_back(line); });
  log.Add("one");
  log.Add("two");
  EXPECT_TRUE(lines.empty());
  log.Dispatch();
  log.Dispatch();
  EXPECT_THAT(lines, ElementsAre("one", "two"));
}

TEST(EventLogTest, LineThatACallbackCausesComesAfterIt) {
  std::vector<std::string> lines;
  EventLog* self = nullptr;
  EventLog log([&](std::string_view line) {
    if (line == "outer") {
      self->Add("inner");
      self->Dispatch();  // must not call back from within the callback
    }
    lines.emplace_back(line);
  });
  self = &log;
  log.Add("outer");
  log.Dispatch();
  EXPECT_THAT(lines, ElementsAre("outer", "inner"));
}

TEST(EventLogTest, CallbackCountsAsADrainingThread) {
  bool draining = false;
  EventLog log([&](std::string_view) {
    draining = DrainingSeat::IsTakenByThisThread();
  });
  log.Add("line");
  log.Dispatch();
  EXPECT_TRUE(draining);
  EXPECT_FALSE(DrainingSeat::IsTakenByThisThread());
}

TEST(EventLogTest, WhatExceedsTheBoundIsCounted) {
  std::vector<std::string> lines;
  EventLog log([&](std::string_view line) { lines.emplace_back(line); });
  for (size_t i = 0; i < EventLog::kMaxLines + 5; ++i) log.Add("line");
  log.Dispatch();
  ASSERT_EQ(lines.size(), EventLog::kMaxLines + 1);
  EXPECT_EQ(lines.back(), "5 further lines were left out");
}

TEST(EventLogTest, NoCallbackCostsNothing) {
  EventLog log(nullptr);
  log.Add("line");
  log.AddTrigger({"trigger", 1, "producer", 2});
  log.Dispatch();
}

TEST(EventLogTest, TriggersOfOneProducerTakeNoOthersAway) {
  std::vector<std::string> triggers;
  EventLog log(nullptr, [&](const TriggerEvent& trigger) {
    triggers.push_back(trigger.producer_name + ":" + trigger.name);
  });
  for (int i = 0; i < 1000; ++i) {
    log.AddTrigger({std::to_string(i), 1, "noisy", 2});
    log.AddTrigger({"again", 2, "repeating", 2});
  }
  log.AddTrigger({"one", 3, "quiet", 2});
  log.Dispatch();
  EXPECT_EQ(triggers.size(), EventLog::kMaxTriggersPerProducer + 2);
  EXPECT_EQ(triggers.back(), "quiet:one");
  // Once it was heard of it can be pulled again.
  log.AddTrigger({"again", 2, "repeating", 2});
  log.Dispatch();
  EXPECT_EQ(triggers.back(), "repeating:again");
}

}  // namespace
}  // namespace tracering::internal
