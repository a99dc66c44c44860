// Saving while recording goes on, with a disk that stands still for as long as
// the test wants: the clock that a file asks for first is the place to hold it.
#include "src/consumer/trace_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/os/epoll.h"
#include "src/consumer/event_log.h"
#include "src/consumer/flush.h"
#include "tests/consumer/fed_ring.h"
#include "tests/support/accounting.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_file_checker.h"

namespace tracering::internal {
namespace {

using std::chrono::milliseconds;
using test::Accounting;
using test::FedRing;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kLong{30};

// Holds whoever passes until it is opened, and knows that somebody is held.
class Gate {
 public:
  void Pass() {
    std::unique_lock<std::mutex> guard(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(guard, [this] { return open_; });
  }
  void AwaitHeld() {
    std::unique_lock<std::mutex> guard(mutex_);
    changed_.wait(guard, [this] { return held_; });
  }
  void Open() {
    std::lock_guard<std::mutex> guard(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool open_ = false;
};

class TraceSaverTest : public ::testing::Test {
 protected:
  explicit TraceSaverTest(size_t buffer_size = 64 * 1024)
      : path_(::testing::TempDir() + "trace_saver_test." +
              std::to_string(getpid())),
        epoll_(*os::Epoll::Create()),
        log_(nullptr),
        buffers_(*BufferSet::Create({{"main", buffer_size, FillPolicy::kRing}},
                                    1 << 20)),
        registry_(ConsumerLimits(), 0, buffers_.get(), &scheduler_, &epoll_,
                  &log_) {
    source_.mutex = &mutex_;
    source_.buffers = buffers_.get();
    source_.registry = &registry_;
    source_.flushes = &flushes_;
  }
  ~TraceSaverTest() override { unlink(path_.c_str()); }

  void Attach(FedRing& fed) {
    const std::lock_guard<LoopMutex> guard(mutex_);
    ProducerSession* session = *registry_.Open();
    session->owner.pid = 4242;
    std::vector<std::string> unknown;
    ASSERT_TRUE(
        registry_.GrantBuffers(session, {{BufferId(1), "main"}}, &unknown)
            .ok());
    std::vector<RingRequest> requests(1);
    requests[0].memfd = fed.image().fd();
    requests[0].num_chunks = fed.image().geometry().num_chunks();
    requests[0].chunk_size = fed.image().geometry().chunk_size();
    ASSERT_TRUE(registry_.AttachRings(session, requests).ok());
    registry_.MarkAttached(session);
  }
  void Drain() { ASSERT_TRUE(FlushAll(kLong, &mutex_, &registry_).complete); }
  std::vector<test::TracePacket> ReadPackets() {
    EXPECT_THAT(test::CheckTraceFile(path_), IsEmpty());
    return test::ReadTraceFile(path_).packets;
  }

  const std::string path_;
  LoopMutex mutex_;
  os::Epoll epoll_;
  EventLog log_;
  std::unique_ptr<BufferSet> buffers_;
  RingScheduler scheduler_;
  SessionRegistry registry_;
  FlushCounts flushes_;
  TraceSource source_;
};

TEST_F(TraceSaverTest, DiskThatStandsStillHoldsUpItsFileOnly) {
  Gate disk;
  source_.file_options.read_clocks = [&disk] {
    disk.Pass();
    return ReadClocks();
  };
  FedRing fed;
  Attach(fed);
  fed.Publish(1, 10);
  Drain();

  absl::StatusOr<TraceFileInfo> info;
  std::thread saver([&] { info = WriteSnapshot(source_, path_); });
  disk.AwaitHeld();
  // Many times what the ring holds goes through while nothing is written.
  for (int i = 0; i < 500; ++i) {
    ASSERT_FALSE(fed.Full());
    fed.Publish(1, 2);
    if (i % 32 == 0) Drain();
  }
  Drain();
  EXPECT_EQ(registry_.Totals().packets.delivered, 1010u);
  EXPECT_EQ(registry_.Totals().packets.lost.total(), 0u);
  disk.Open();
  saver.join();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->packets + info->lost.total(), 10u);
}

TEST_F(TraceSaverTest, WhatIsOverwrittenBeforeItIsReadIsMissingAndMarked) {
  Gate disk;
  source_.file_options.read_clocks = [&disk] {
    disk.Pass();
    return ReadClocks();
  };
  FedRing fed;
  Attach(fed);
  for (int i = 0; i < 20; ++i) fed.Publish(1, 20);
  Drain();

  absl::StatusOr<TraceFileInfo> info;
  std::thread saver([&] { info = WriteSnapshot(source_, path_); });
  disk.AwaitHeld();
  // Laps some of what the snapshot is to contain.
  while (buffers_->buffer(0).stats().packets_overwritten < 100) {
    fed.Publish(1, 20);
    Drain();
  }
  disk.Open();
  saver.join();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LT(info->packets, 400u);
  EXPECT_EQ(info->packets + info->lost[LossCause::kOverwritten], 400u);
  Accounting accounting;
  accounting.Add(ReadPackets());
  accounting.ExpectTotal(400, info->lost.total());
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

// Each stream has what came while it ran, and none has a packet twice.
TEST_F(TraceSaverTest, StreamsFollowEachOtherWithoutAGap) {
  FedRing fed;
  Attach(fed);
  Accounting accounting;
  uint64_t in_files = 0;
  for (int round = 0; round < 3; ++round) {
    absl::StatusOr<std::unique_ptr<TraceStream>> stream =
        TraceStream::Start(source_, path_, milliseconds(1));
    ASSERT_TRUE(stream.ok()) << stream.status();
    for (int i = 0; i < 100; ++i) {
      fed.Publish(1, 5);
      Drain();
    }
    absl::StatusOr<TraceFileInfo> info = (*stream)->Finish();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->lost.total(), 0u);
    EXPECT_EQ(info->streamed_before, in_files);
    in_files += info->packets;
    EXPECT_EQ(in_files, fed.attempted());
    accounting.Add(ReadPackets());
  }
  accounting.ExpectTotal(fed.attempted(), 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

// What is kept of a stream in several files is its end, without a gap, and
// every file says whose packets it has.
TEST_F(TraceSaverTest, FilesOfAStreamFollowEachOtherAndTheOldestGo) {
  constexpr uint32_t kFiles = 4;
  constexpr uint64_t kLimit = 64 * 1024;
  const test::TempDir directory;
  const std::string path = directory.Path("trace");
  const auto name_of = [&path](uint32_t number) {
    return number == 0 ? path : path + "." + std::to_string(number);
  };
  // Of an earlier stream: they are moved on, not written over.
  for (const uint32_t number : {0, 1}) {
    std::ofstream(name_of(number)) << "old " << number;
  }
  source_.file_options.max_file_bytes = kLimit;
  FedRing fed;
  Attach(fed);
  absl::StatusOr<std::unique_ptr<TraceStream>> stream =
      TraceStream::Start(source_, path, milliseconds(1), kFiles);
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::string old;
  std::getline(std::ifstream(name_of(2)), old);
  EXPECT_EQ(old, "old 1");
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 20; ++i) fed.Publish(1, 20);
    Drain();
    (*stream)->WakeUp();
    EXPECT_TRUE(test::Eventually([&] {
      const std::lock_guard<LoopMutex> guard(mutex_);
      return buffers_->buffer(0).stats().packets_consumed == fed.attempted();
    }));
  }
  const absl::StatusOr<TraceFileInfo> info = (*stream)->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->path, path);
  EXPECT_GT(info->files, kFiles);
  EXPECT_EQ(info->packets, fed.attempted());
  EXPECT_EQ(info->lost.total(), 0u);

  std::vector<uint64_t> kept;
  for (uint32_t number = kFiles; number-- > 0;) {
    EXPECT_LE(std::filesystem::file_size(name_of(number)), kLimit);
    EXPECT_THAT(test::CheckTraceFile(name_of(number)), IsEmpty());
    size_t in_file = 0;
    for (const test::TracePacket& packet :
         test::ReadTraceFile(name_of(number)).packets) {
      if (!packet.has_track_event()) continue;
      ++in_file;
      kept.push_back(test::NumberOf(packet)->index);
      EXPECT_FALSE(packet.has_previous_packet_dropped());
      if (kept.size() < 2) continue;
      EXPECT_EQ(kept[kept.size() - 2] + 1, kept.back());
    }
    EXPECT_GT(in_file, 0u);
  }
  EXPECT_EQ(kept.back() + 1, fed.attempted());
  EXPECT_FALSE(std::filesystem::exists(name_of(kFiles)));
}

// A round takes what was there when it began, or it would never end, and never
// get to descriptors and to the disk.
TEST_F(TraceSaverTest, RoundOfAStreamEndsBesideAProducerThatNeverRests) {
  FedRing fed;
  Attach(fed);
  {
    const std::lock_guard<LoopMutex> guard(mutex_);
    buffers_->SetStreaming(true);
  }
  absl::StatusOr<std::unique_ptr<TraceSaver>> saver =
      TraceSaver::Begin(source_, path_, TraceSaver::Mode::kStream);
  ASSERT_TRUE(saver.ok()) << saver.status();
  fed.Publish(1, 20);
  Drain();
  std::atomic<bool> done{false};
  std::thread round([&] {
    EXPECT_TRUE((*saver)->Pump().ok());
    done = true;
  });
  while (!done) {
    fed.Publish(1, 20);
    Drain();
  }
  round.join();
  const absl::StatusOr<TraceFileInfo> info = (*saver)->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->packets + info->lost.total(), fed.attempted());
}

// The period is an hour: only the pressure of a filling buffer brings it.
TEST_F(TraceSaverTest, FillingBufferCallsTheStreamBeforeItsPeriod) {
  FedRing fed;
  Attach(fed);
  absl::StatusOr<std::unique_ptr<TraceStream>> stream =
      TraceStream::Start(source_, path_, std::chrono::hours(1));
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (int round = 0; round < 20; ++round) {
    bool pressed = false;
    while (!pressed) {
      fed.Publish(1, 20);
      Drain();
      const std::lock_guard<LoopMutex> guard(mutex_);
      pressed = buffers_->TakeStreamPressure();
    }
    // As the drain loop does.
    const uint64_t stored = fed.attempted();
    (*stream)->WakeUp();
    EXPECT_TRUE(test::Eventually([&] {
      const std::lock_guard<LoopMutex> guard(mutex_);
      return buffers_->buffer(0).stats().packets_consumed == stored;
    }));
  }
  const absl::StatusOr<TraceFileInfo> info = (*stream)->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->packets, fed.attempted());
  EXPECT_EQ(info->lost.total(), 0u);
}

TEST_F(TraceSaverTest, StopOfAStreamDoesNotWaitForAProducerThatNeverRests) {
  FedRing fed;
  Attach(fed);
  absl::StatusOr<std::unique_ptr<TraceStream>> stream =
      TraceStream::Start(source_, path_, milliseconds(1));
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::atomic<bool> done{false};
  std::thread producer([&] {
    while (!done) {
      fed.Publish(1, 20);
      Drain();
    }
  });
  const absl::StatusOr<TraceFileInfo> info = (*stream)->Finish();
  done = true;
  producer.join();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LE(info->packets + info->lost.total(), fed.attempted());
  Accounting accounting;
  accounting.Add(ReadPackets());
  EXPECT_THAT(accounting.complaints(), IsEmpty());
}

// A producer that comes and goes leaves nothing in the tables once its packets
// were overwritten, and its sequence is never mistaken for another one's.
TEST_F(TraceSaverTest, SequencesOfGoneProducersAreForgotten) {
  for (int i = 0; i < 1000; ++i) {
    FedRing fed({2, 4096, 0, true});
    Attach(fed);
    fed.Publish(1, 20);
    Drain();
    const std::lock_guard<LoopMutex> guard(mutex_);
    ASSERT_EQ(registry_.sessions().size(), 1u);
    registry_.BeginClose(registry_.sessions().begin()->second.get(), "left");
    ASSERT_TRUE(registry_.sessions().empty());
  }
  EXPECT_EQ(buffers_->sequences().Find(0), nullptr);
  EXPECT_NE(buffers_->sequences().Find(999), nullptr);
  const absl::StatusOr<TraceFileInfo> info = WriteSnapshot(source_, path_);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->packets + info->lost.total(), 1000u * 20);
  ReadPackets();
}

}  // namespace
}  // namespace tracering::internal
