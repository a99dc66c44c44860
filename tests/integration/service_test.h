// A tracing service in the test's own process, with producers in it or in
// other processes, and a trace file that is checked by a real protobuf parser.
// Knows the public headers only, like any service.
#ifndef TRACERING_TESTS_INTEGRATION_SERVICE_TEST_H_
#define TRACERING_TESTS_INTEGRATION_SERVICE_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/accounting.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_file_checker.h"
#include "tracering/consumer.h"
#include "tracering/producer.h"

namespace tracering::test {

inline constexpr std::chrono::seconds kLong{30};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    options_.socket_path = directory_.Path("socket");
    options_.buffers = {{"main", 16 << 20, FillPolicy::kRing}};
    options_.drain_period = std::chrono::milliseconds(10);
  }
  ~ServiceTest() override {
    consumer_ = nullptr;
    unlink(trace_path().c_str());
    EXPECT_TRUE(directory_.IsEmpty()) << "something was left behind";
  }

  std::string trace_path() const { return directory_.Path("trace"); }

  void CreateConsumer() {
    absl::StatusOr<std::unique_ptr<Consumer>> consumer =
        Consumer::Create(options_);
    ASSERT_TRUE(consumer.ok()) << consumer.status();
    consumer_ = *std::move(consumer);
  }
  void StartConsumer() {
    CreateConsumer();
    ASSERT_TRUE(consumer_->Start().ok());
  }

  ProducerOptions ProducerFor(const std::string& name) const {
    ProducerOptions options;
    options.name = name;
    options.socket_path = options_.socket_path;
    return options;
  }
  std::unique_ptr<Producer> StartProducer(const ProducerOptions& options) {
    absl::StatusOr<std::unique_ptr<Producer>> producer =
        Producer::Create(options);
    EXPECT_TRUE(producer.ok()) << producer.status();
    EXPECT_TRUE((*producer)->WaitForConsumer(kLong));
    return *std::move(producer);
  }
  // A program of the test's, with its arguments.
  ChildProcess SpawnProgram(std::vector<std::string> program) const {
    return ChildProcess::Spawn(std::move(program),
                               {{"TRACERING_SOCKET", options_.socket_path}});
  }

  template <typename Condition>
  bool Await(Condition condition) {
    return Eventually([&] { return condition(consumer_->stats()); });
  }
  bool AwaitNobody() {
    return Await(
        [](const ConsumerStats& s) { return s.producers_connected == 0; });
  }

  // Saves, checks the file, and returns its packets.
  std::vector<TracePacket> Save(TraceFileInfo* info) {
    absl::StatusOr<TraceFileInfo> saved = consumer_->WriteTrace(trace_path());
    EXPECT_TRUE(saved.ok()) << saved.status();
    if (saved.ok()) *info = *saved;
    const TraceFile file = ReadTraceFile(trace_path());
    EXPECT_THAT(file.complaints, ::testing::IsEmpty());
    EXPECT_THAT(CheckTrace(file), ::testing::IsEmpty());
    return file.packets;
  }
  // Saves and follows each writer's numbers, with so many attempted in all.
  TraceFileInfo ExpectExact(uint64_t attempted) {
    TraceFileInfo info;
    Accounting accounting;
    accounting.Add(Save(&info));
    EXPECT_EQ(info.packets, accounting.delivered());
    EXPECT_EQ(info.packets + info.lost.total(), attempted);
    accounting.ExpectTotal(attempted, info.lost.total());
    EXPECT_THAT(accounting.complaints(), ::testing::IsEmpty());
    return info;
  }

  const TempDir directory_;
  ConsumerOptions options_;
  std::unique_ptr<Consumer> consumer_;
};

// The numbers of a line "attempted=N lost=N" or "delivered=N lost=N file=PATH".
struct Totals {
  uint64_t first = 0;
  uint64_t lost = 0;
};

inline Totals ParseTotals(const std::string& line) {
  Totals totals;
  const size_t first = line.find('=');
  const size_t lost = line.find(" lost=");
  if (first == std::string::npos || lost == std::string::npos) {
    ADD_FAILURE() << "no totals in '" << line << "'";
    return totals;
  }
  totals.first = std::strtoull(line.c_str() + first + 1, nullptr, 10);
  totals.lost = std::strtoull(line.c_str() + lost + 6, nullptr, 10);
  return totals;
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_INTEGRATION_SERVICE_TEST_H_
