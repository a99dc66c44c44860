// Writers that wait for room: what ends a wait, and what is not waited for.
//
// Limits of an hour stand for "for ever": where a test passes, the wait ended
// for another reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "src/common/os/process.h"
#include "src/common/ring/draining_thread.h"
#include "tests/producer/writer_harness.h"
#include "tests/support/thread_state.h"

namespace tracering::test {
namespace {

using internal::DrainingSeat;
using internal::RingMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kForEver = std::chrono::hours(1);

// Starts a thread that runs `body`, and returns once it sleeps in the kernel.
template <typename Body>
std::thread StartAndAwaitSleep(Body body) {
  auto tid = std::make_shared<std::atomic<pid_t>>(0);
  std::thread thread([tid, body] {
    tid->store(os::CurrentThreadId());
    body();
  });
  AwaitAsleep(*tid);
  return thread;
}

TEST(StallTest, WithoutAConsumerNobodyWaits) {
  WriterHarness harness(Shape(2));
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 1u);
}

TEST(StallTest, DrainingThreadDoesNotWaitForItself) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  DrainingSeat seat;
  seat.Take();
  WriteSized(*writer, 10, 'a');
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 1u);
}

TEST(StallTest, WaitEndsWhenTheReaderMakesRoom) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  for (char fill : {'a', 'b', 'c', 'd'}) WriteSized(*writer, 100, fill);
  std::thread stalled =
      StartAndAwaitSleep([&] { WriteSized(*writer, 100, 'e'); });
  harness.reader().Drain();
  stalled.join();
  EXPECT_THAT(harness.DrainAll(), SizeIs(5));
  EXPECT_EQ(writer->ReadStats().lost, 0u);
  EXPECT_EQ(harness.image().Word32(68), 0u);  // nobody waits any more
}

TEST(StallTest, NoChunkAvailableIsWaitedForLikeAFullRing) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.image().set_state_word(0, 0x6000'0063);
  harness.image().set_state_word(1, 0x6000'0063);
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  std::thread stalled =
      StartAndAwaitSleep([&] { WriteSized(*writer, 100, 'a'); });
  // The sleepers acknowledge; two passes free both chunks.
  harness.image().set_state_word(0, 0x8000'0000);
  harness.image().set_state_word(1, 0x8000'0000);
  while (harness.Taken().empty()) harness.reader().Drain();
  stalled.join();
  EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(100, 'a')));
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(StallTest, RelocationWaitsAsWell) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  std::unique_ptr<Packet> packet(new Packet(writer->NewPacket()));
  AppendSized(*packet, 100, 'a');
  harness.reader().Drain();
  harness.FillWithReservations();
  std::thread stalled = StartAndAwaitSleep([&] { packet->Finish(); });
  EXPECT_EQ(harness.image().state_word(0), 0x8000'0000u);
  while (harness.Taken().empty()) harness.reader().Drain();
  stalled.join();
  EXPECT_THAT(harness.DrainAll(), ElementsAre(PacketBytes(100, 'a')));
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(StallTest, TimeOutDropsAndIsNotPaidTwiceInARow) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1, Stalling(std::chrono::milliseconds(1)));
  for (int round = 1; round <= 3; ++round) {
    // Two of these fill a chunk exactly.
    for (int i = 0; i < 4; ++i) WriteSized(*writer, 124, 'a');
    WriteSized(*writer, 124, 'b');
    EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kStallTimeout),
              static_cast<uint64_t>(round));
    // No further wait until a packet has succeeded.
    for (int i = 0; i < 10; ++i) WriteSized(*writer, 124, 'c');
    EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull),
              static_cast<uint64_t>(round) * 10);
    harness.reader().Drain();
  }
  ExpectBalanced(writer->ReadStats());
  EXPECT_EQ(harness.Loss(LossCause::kStallTimeout), 3u);
}

TEST(StallTest, ZeroTimeOutDropsAtOnce) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1, Stalling(std::chrono::nanoseconds(0)));
  WriteSized(*writer, 100, 'a');
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kStallTimeout), 1u);
}

TEST(StallTest, LongestTimeOutDoesNotOverflow) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer =
      harness.MakeWriter(1, Stalling(std::chrono::nanoseconds::max()));
  std::thread stalled =
      StartAndAwaitSleep([&] { WriteSized(*writer, 100, 'a'); });
  harness.reader().Drain();
  stalled.join();
  EXPECT_EQ(writer->ReadStats().published, 1u);
}

TEST(StallTest, WaitEndsWhenTheConsumerLeaves) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  std::thread stalled =
      StartAndAwaitSleep([&] { WriteSized(*writer, 100, 'a'); });
  harness.ring().consumer_attached().store(false);
  stalled.join();
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 1u);
}

TEST(StallTest, WaitEndsUncountedWhenTheProducerEnds) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1, Stalling(kForEver));
  std::thread stalled =
      StartAndAwaitSleep([&] { WriteSized(*writer, 100, 'a'); });
  harness.set_mode(RingMode::kClosed);
  harness.ring().consumer_attached().store(false);
  stalled.join();
  EXPECT_EQ(writer->ReadStats().attempted, 0u);
}

TEST(StallTest, EightWritersOnTwoChunksLoseNothing) {
  constexpr int kWriters = 8;
  constexpr int kPackets = 200;
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  std::vector<WriterHarness::Writer> writers;
  std::atomic<int> running{kWriters};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    writers.push_back(
        harness.MakeWriter(static_cast<uint16_t>(w + 1), Stalling(kForEver)));
  }
  for (auto& writer : writers) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPackets; ++i) WriteSized(*writer, 100, 'x');
      writer->Release();
      running.fetch_sub(1);
    });
  }
  while (running.load() != 0) {
    harness.reader().Drain();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(harness.DrainAll(), SizeIs(kWriters * kPackets));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  for (auto& writer : writers) EXPECT_EQ(writer->ReadStats().lost, 0u);
}

}  // namespace
}  // namespace tracering::test
