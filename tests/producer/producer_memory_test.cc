// A program that runs out of memory goes on, and is traced again when there is
// some: no exception of ours reaches it or ends one of its threads.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <thread>

#include "tests/producer/counting_allocator.h"
#include "tests/producer/scripted_service.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tracering/cpu_profiler.h"
#include "tracering/producer.h"

namespace tracering::test {
namespace {

class ProducerMemoryTest : public testing::Test {
 protected:
  ~ProducerMemoryTest() override { StopFailing(); }

  void Create(bool own_thread) {
    ProducerOptions options;
    options.name = "test";
    options.socket_path = directory_.Path("service.sock");
    options.own_thread = own_thread;
    auto producer = Producer::Create(options);
    ASSERT_TRUE(producer.ok()) << producer.status();
    producer_ = *std::move(producer);
  }

  TempDir directory_;
  ScriptedService service_{directory_.Path("service.sock")};
  std::unique_ptr<Producer> producer_;
};

void Trace(TraceWriter& writer) {
  Packet packet = writer.NewPacket();
  packet.AppendVarint(8, 1);
}

// Once std::bad_alloc ended the program.
TEST_F(ProducerMemoryTest, TheBackgroundThreadStartsOverWhenThereIsMemory) {
  Create(true);
  auto session = service_.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer_->WaitForConsumer(kServiceDeadline));
  FailAllocationsElsewhere();
  session.reset();
  EXPECT_TRUE(Eventually([&] { return !producer_->consumer_attached(); }));
  EXPECT_EQ(producer_->stats().connection_error, "out of memory");
  StopFailing();
  // An attempt that there was no memory for may have left a connection.
  while ((session = service_.AcceptAndWelcome()) == nullptr) {
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_TRUE(producer_->WaitForConsumer(kServiceDeadline));
}

TEST_F(ProducerMemoryTest, WithoutMemoryAWriterTracesIntoNothing) {
  Create(false);
  FailOwnAllocationsFrom(0);
  TraceWriter& writer = producer_->ThreadWriter("main");
  Trace(writer);
  {
    const OwnedTraceWriter owned = producer_->CreateWriter("main");
    Trace(*owned);
  }
  StopFailing();
  EXPECT_EQ(producer_->stats().attempted, 0u);
  Trace(producer_->ThreadWriter("main"));
  Trace(*producer_->CreateWriter("main"));
  EXPECT_EQ(producer_->stats().attempted, 2u);
}

// Wherever the memory ends, nothing is thrown, lost or left half-made.
TEST_F(ProducerMemoryTest, MemoryMayEndAnywhereOnTheWayToAWriter) {
  Create(false);
  uint64_t attempted = 0;
  for (int64_t n = 0; n < 60; ++n) {
    const std::string name =
        "a buffer with a name that has to be allocated " + std::to_string(n);
    std::thread([&] {
      FailOwnAllocationsFrom(n);
      producer_->ThreadWriter(name);
      StopFailing();
      FailOwnAllocationsFrom(n);
      (void)producer_->CreateWriter(name);
      StopFailing();
      Trace(producer_->ThreadWriter(name));
      Trace(*producer_->CreateWriter(name));
      attempted += 2;
    }).join();
    const Producer::Stats stats = producer_->stats();
    ASSERT_EQ(stats.attempted, attempted) << "at allocation " << n;
    ASSERT_EQ(stats.rings[0].writers, 0u) << "at allocation " << n;
    ASSERT_EQ(stats.refused_buffer_names, 0u);
  }
}

TEST_F(ProducerMemoryTest, WithoutMemoryAProfilerIsRefusedAndLeavesNothing) {
  Create(false);
  for (int64_t n = 0; n < 200; ++n) {
    FailOwnAllocationsFrom(n);
    const auto refused = CpuProfiler::Start(*producer_, {});
    StopFailing();
    if (refused.ok()) return;
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted)
        << refused.status() << " at allocation " << n;
    struct sigaction present {};
    ASSERT_EQ(sigaction(SIGPROF, nullptr, &present), 0);
    ASSERT_EQ(present.sa_handler, SIG_DFL) << "at allocation " << n;
  }
  ADD_FAILURE() << "there are no more allocations than that";
}

TEST_F(ProducerMemoryTest, SamplesThatThereIsNoMemoryForAreCounted) {
  Create(false);
  const auto profiler = CpuProfiler::Start(*producer_, {});
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  FailAllocationsElsewhere();
  EXPECT_TRUE(Eventually([&] {
    raise(SIGPROF);
    return (*profiler)->stats().lost_memory > 0;
  }));
  StopFailing();
  const uint64_t samples = (*profiler)->stats().samples;
  EXPECT_TRUE(Eventually([&] {
    raise(SIGPROF);
    return (*profiler)->stats().samples > samples + 10;
  }));
  (*profiler)->Stop();
  const CpuProfilerStats stats = (*profiler)->stats();
  EXPECT_EQ(stats.attempted, stats.samples + stats.lost());
}

TEST_F(ProducerMemoryTest, ALabelThatThereIsNoMemoryForIsDropped) {
  const uint64_t dropped = ScopedProfileLabel::dropped();
  for (int64_t n = 0; n < 10; ++n) {
    FailOwnAllocationsFrom(n);
    {
      const ScopedProfileLabel label(
          "a label with a text that has to be allocated");
    }
    StopFailing();
    if (ScopedProfileLabel::dropped() - dropped == static_cast<uint64_t>(n)) {
      EXPECT_GT(n, 0);
      return;
    }
  }
  ADD_FAILURE() << "there are no more allocations than that";
}

TEST(ProducerCreateMemoryTest, WithoutMemoryThereIsAnError) {
  ProducerOptions options;
  options.name = "test";
  options.socket_path = "/nowhere";
  for (int64_t n = 0; n < 200; ++n) {
    FailOwnAllocationsFrom(n);
    const auto producer = Producer::Create(options);
    StopFailing();
    if (producer.ok()) return;
    if (n == 0) {
      EXPECT_EQ(producer.status().code(), absl::StatusCode::kResourceExhausted);
    }
  }
  ADD_FAILURE() << "there are no more allocations than that";
}

}  // namespace
}  // namespace tracering::test
