// The public interface of the consumer over rings that are attached by hand.
// The socket has tests of its own.
#include "tracering/consumer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/os/unique_fd.h"
#include "tests/consumer/fed_ring.h"
#include "tests/support/accounting.h"
#include "tests/support/eventually.h"
#include "tests/support/trace_file_checker.h"

namespace tracering {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Accounting;
using test::Eventually;
using test::FedRing;
using test::ForgedChunk;
using test::NumberedPacket;
using test::RingImage;
using test::TraceFile;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr seconds kLong{30};

ConsumerOptions TestOptions() {
  ConsumerOptions options;
  options.buffers = {{"main", 1 << 20, FillPolicy::kRing},
                     {"other", 1 << 20, FillPolicy::kRing}};
  return options;
}

std::unique_ptr<Consumer> MakeConsumer(ConsumerOptions options) {
  absl::StatusOr<std::unique_ptr<Consumer>> consumer =
      Consumer::Create(std::move(options));
  EXPECT_TRUE(consumer.ok()) << consumer.status();
  return *std::move(consumer);
}

RingHandle Attach(Consumer& consumer, const AttachRingOptions& options) {
  absl::StatusOr<RingHandle> handle = consumer.AttachRing(options);
  EXPECT_TRUE(handle.ok()) << handle.status();
  return handle.ok() ? *handle : RingHandle();
}

std::string TracePath() {
  const ::testing::TestInfo* info =
      ::testing::UnitTest::GetInstance()->current_test_info();
  return ::testing::TempDir() + info->test_suite_name() + "." + info->name() +
         "." + std::to_string(getpid()) + ".pftrace";
}

// A file that is gone with its scope.
class ScopedTrace {
 public:
  ScopedTrace() : path_(TracePath()) {}
  ~ScopedTrace() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  TraceFile Read() const { return test::ReadTraceFile(path_); }

 private:
  const std::string path_;
};

TraceFileInfo Save(Consumer& consumer, const ScopedTrace& trace) {
  absl::StatusOr<TraceFileInfo> info = consumer.WriteTrace(trace.path());
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? *info : TraceFileInfo();
}

bool IsReadable(int fd, milliseconds timeout = milliseconds(0)) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(timeout.count())) == 1;
}

const test::TraceStats& StatsOf(const TraceFile& file) {
  return file.packets.back().trace_stats();
}

TEST(ConsumerTest, SavesWhatARingHeldInOrderAndWithStamps) {
  FedRing ring;
  ring.Publish(1, 3);
  ring.Publish(2, 2);
  ring.Publish(1, 1);
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());

  const FlushResult flush = consumer->Flush(kLong);
  EXPECT_TRUE(flush.complete);
  ASSERT_EQ(flush.producers.size(), 1u);
  EXPECT_EQ(flush.producers[0].name, "fed");
  EXPECT_EQ(flush.producers[0].pid, 4242);
  EXPECT_EQ(flush.producers[0].outcome, FlushOutcome::kComplete);

  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets, 6u);
  EXPECT_EQ(info.lost.total(), 0u);
  EXPECT_EQ(info.path, trace.path());
  const TraceFile file = trace.Read();
  EXPECT_EQ(file.offsets.size(), file.packets.size());
  EXPECT_THAT(test::CheckTraceFile(trace.path(), {true, true, false, true}),
              IsEmpty());
  Accounting accounting;
  accounting.Add(file.packets);
  accounting.ExpectBalance(4242, 1, 4, 0);
  accounting.ExpectBalance(4242, 2, 2, 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  std::set<uint32_t> sequences;
  for (const test::TracePacket& packet : file.packets) {
    sequences.insert(packet.trusted_packet_sequence_id());
    if (packet.has_track_event()) {
      EXPECT_EQ(packet.trusted_uid(), 1000);
    }
  }
  EXPECT_EQ(sequences.size(), 3u);  // two writers and the service
}

TEST(ConsumerTest, SnapshotConsumesNothing) {
  FedRing ring;
  ring.Publish(1, 5);
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  consumer->Flush(kLong);
  ScopedTrace trace;
  EXPECT_EQ(Save(*consumer, trace).packets, 5u);
  ring.Publish(1, 1);
  consumer->Flush(kLong);
  EXPECT_EQ(Save(*consumer, trace).packets, 6u);
}

TEST(ConsumerTest, EveryLossHasACauseAndAttemptedIsTheSum) {
  FedRing ring;
  ring.Publish(1, 2);
  ring.Lose(1, 3, LossCause::kRingFull);
  ring.Lose(1, 1, LossCause::kStallTimeout);
  ring.Publish(1, 2, 1, abi::kFlagDataLoss);
  ring.Publish(2, 4, /*buffer=*/77);  // a buffer it was never granted
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  consumer->Flush(kLong);

  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.attempted(), ring.attempted());
  EXPECT_EQ(stats.packets.delivered, 4u);
  EXPECT_EQ(stats.packets.lost[LossCause::kRingFull], 3u);
  EXPECT_EQ(stats.packets.lost[LossCause::kStallTimeout], 1u);
  EXPECT_EQ(stats.packets.lost[LossCause::kUnknownBuffer], 4u);
  ASSERT_EQ(stats.producers.size(), 1u);
  EXPECT_EQ(stats.producers[0].packets.attempted(), ring.attempted());
  ASSERT_EQ(stats.producers[0].rings.size(), 1u);
  EXPECT_EQ(stats.producers[0].rings[0].packets.attempted(), ring.attempted());
  // The producer can read how much of it the reader has counted.
  EXPECT_EQ(ring.image().Word64(abi::kReaderLossOffset), 4u);

  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets + info.lost.total(), ring.attempted());
  const TraceFile file = trace.Read();
  uint32_t mark = 0;
  for (const test::TracePacket& packet : file.packets) {
    if (packet.has_previous_packet_dropped()) {
      mark = packet.previous_packet_dropped();
    }
  }
  EXPECT_EQ(mark, perfetto_loss::kPresent | perfetto_loss::kSharedMemoryFull);
  EXPECT_EQ(StatsOf(file).buffer_stats(0).trace_writer_packet_loss(), 8u);
}

TEST(ConsumerTest, LossOfAWriterThatNeverSucceedsAgainIsInStatsAndFile) {
  FedRing ring;
  ring.Lose(1, 9, LossCause::kRingFull);
  auto consumer = MakeConsumer(TestOptions());
  const RingHandle handle = Attach(*consumer, ring.AttachOptions());
  ASSERT_TRUE(consumer->DetachRing(handle).ok());
  EXPECT_EQ(consumer->stats().packets.lost[LossCause::kRingFull], 9u);
  EXPECT_TRUE(consumer->stats().producers.empty());
  ScopedTrace trace;
  EXPECT_EQ(Save(*consumer, trace).lost.total(), 9u);
  EXPECT_EQ(StatsOf(trace.Read()).buffer_stats(0).trace_writer_packet_loss(),
            9u);
}

TEST(ConsumerTest, ForgedLossCountersNeverRunBackwardsOrOverflow) {
  FedRing ring;
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  ring.Lose(1, 10, LossCause::kRingFull);
  EXPECT_EQ(consumer->stats().packets.lost.total(), 10u);
  ring.image().SetWord64(abi::kWriterLossOffset, 3);
  EXPECT_EQ(consumer->stats().packets.lost.total(), 10u);
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    ring.image().SetWord64(abi::kWriterLossOffset + 8 * i, ~uint64_t{0});
  }
  const ConsumerStats stats = consumer->stats();
  EXPECT_GT(stats.packets.lost.total(),
            stats.packets.lost[LossCause::kRingFull]);
}

TEST(ConsumerTest, OverwrittenPacketsAreLostFromTheFileAndMarked) {
  ConsumerOptions options = TestOptions();
  options.buffers[0].size = kMinBufferSize;
  auto consumer = MakeConsumer(options);
  FedRing ring;
  Attach(*consumer, ring.AttachOptions());
  for (int i = 0; i < 200; ++i) {
    ring.Publish(1, 2);
    consumer->Flush(kLong);
  }
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.delivered, 400u);
  EXPECT_EQ(stats.packets.lost.total(), 0u);
  EXPECT_EQ(stats.buffers[0].packets + stats.buffers[0].overwritten_packets,
            400u);

  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets, stats.buffers[0].packets);
  EXPECT_EQ(info.lost[LossCause::kOverwritten],
            stats.buffers[0].overwritten_packets);
  EXPECT_EQ(info.packets + info.lost.total(), 400u);
  Accounting accounting;
  accounting.Add(trace.Read().packets);
  accounting.ExpectTotal(400, info.lost.total());
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(accounting.marks(), 1u);
}

TEST(ConsumerTest, DiscardBufferKeepsTheFirstAndCountsTheRest) {
  ConsumerOptions options = TestOptions();
  options.buffers[0] = {"main", kMinBufferSize, FillPolicy::kDiscard};
  auto consumer = MakeConsumer(options);
  FedRing ring;
  Attach(*consumer, ring.AttachOptions());
  for (int i = 0; i < 200; ++i) {
    ring.Publish(1, 2);
    consumer->Flush(kLong);
  }
  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_GT(info.packets, 0u);
  EXPECT_GT(info.lost[LossCause::kBufferRefused], 0u);
  EXPECT_EQ(info.packets + info.lost.total(), 400u);
  EXPECT_EQ(consumer->stats().packets.attempted(), 400u);
}

TEST(ConsumerTest, PacketsThatAreNotProtobufAreRejectedWhenSaved) {
  FedRing ring;
  ring.Publish(1, 1);
  ring.image().Publish({1, 1, 0, {std::string("\x04", 1), "\x0f\x01"}});
  ring.image().Publish({1, 1, 0, {std::string("\x50\x01", 2)}});  // field 10
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  consumer->Flush(kLong);
  ScopedTrace trace;
  for (int i = 0; i < 2; ++i) {
    const TraceFileInfo info = Save(*consumer, trace);
    EXPECT_EQ(info.packets, 1u);
    EXPECT_EQ(info.lost[LossCause::kRejected], 3u);
    EXPECT_EQ(info.packets + info.lost.total(), 4u);
  }
  EXPECT_EQ(consumer->stats().buffers[0].rejected_packets, 3u);
  EXPECT_EQ(StatsOf(trace.Read()).invalid_packets(), 3u);
}

TEST(ConsumerTest, DescriptorsAreCountedApart) {
  FedRing ring;
  test::TracePacket descriptor;
  descriptor.mutable_track_descriptor()->set_uuid(7);
  descriptor.mutable_track_descriptor()->set_name("a track");
  ring.image().Publish({1, 9, 0, {test::EncodeWithGroups(descriptor)}});
  ring.Publish(2, 1);
  AttachRingOptions attach = ring.AttachOptions();
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, attach);
  FedRing descriptors;
  descriptors.Lose(1, 5, LossCause::kRingFull);
  attach = descriptors.AttachOptions();
  attach.metadata = true;
  Attach(*consumer, attach);
  consumer->Flush(kLong);

  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.attempted(), 1u);
  EXPECT_EQ(stats.metadata_packets.delivered, 1u);
  EXPECT_EQ(stats.metadata_packets.lost.total(), 5u);
  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets, 1u);
  EXPECT_EQ(info.metadata_packets, 1u);
  EXPECT_EQ(info.lost.total(), 0u);
}

TEST(ConsumerTest, StoppedRingKeepsItsDataAndHurtsNoOther) {
  std::vector<std::string> log;
  ConsumerOptions options = TestOptions();
  options.log = [&log](std::string_view line) { log.emplace_back(line); };
  auto consumer = MakeConsumer(options);
  FedRing bad;
  FedRing good;
  Attach(*consumer, bad.AttachOptions());
  AttachRingOptions attach = good.AttachOptions();
  attach.pid = 17;
  Attach(*consumer, attach);
  bad.Publish(1, 2);
  consumer->Flush(kLong);
  bad.image().set_write_pos(bad.image().read_pos() + 65);  // 64 chunks
  good.Publish(1, 3);

  for (int i = 0; i < 3; ++i) {
    const FlushResult flush = consumer->Flush(kLong);
    EXPECT_TRUE(flush.complete);
    ASSERT_EQ(flush.producers.size(), 2u);
    EXPECT_EQ(flush.producers[0].outcome, FlushOutcome::kRingStopped);
    EXPECT_EQ(flush.producers[1].outcome, FlushOutcome::kComplete);
  }
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.rings_stopped, 1u);
  EXPECT_TRUE(stats.producers[0].rings[0].stopped);
  EXPECT_EQ(stats.producers[0].rings[0].stop_reason, "cursors too far apart");
  EXPECT_EQ(stats.packets.delivered, 5u);
  int stop_lines = 0;
  for (const std::string& line : log) {
    if (line.find("was stopped") != std::string::npos) ++stop_lines;
  }
  EXPECT_EQ(stop_lines, 1);
}

// Whatever bytes a producer puts into its ring: nothing of another ring is
// lost, every call returns, and the sums hold. Run it under ASan.
TEST(ConsumerTest, RandomRingImagesHurtNobodyElse) {
  std::mt19937_64 random(20240229);
  const auto word = [&random] { return static_cast<uint32_t>(random()); };
  ConsumerOptions options = TestOptions();
  options.limits.partial_packet_bytes = 2048;
  options.limits.partial_bytes_per_producer = 4096;
  auto consumer = MakeConsumer(options);
  FedRing good;
  Attach(*consumer, good.AttachOptions());
  for (int round = 0; round < 300; ++round) {
    FedRing bad({8, round % 2 == 0 ? 256u : 512u, word(), true});
    RingImage& image = bad.image();
    for (uint32_t i = 0; i < 8; ++i) {
      for (uint32_t at = 4; at < image.geometry().chunk_size(); ++at) {
        // Small sizes make chunks whose directories fit now and then.
        image.chunk(i)[at] =
            static_cast<uint8_t>(random() % 4 == 0 ? random() : random() % 5);
      }
      const uint32_t position = image.read_pos() + i;
      const uint32_t index =
          image.geometry().IndexOf(abi::Position(position)).value();
      constexpr uint32_t kStates[] = {1, 2, 2, 2, 3, 4};
      const uint32_t state = round % 10 == 0 ? word() % 8 : kStates[word() % 6];
      image.set_state_word(
          index, state == 4 ? abi::kAcknowledgedWord
                            : state << 29 | (word() & 0x07ff'0003) |
                                  (word() % 8 == 0 ? word() & 0x1800'0000 : 0));
    }
    image.set_write_pos(image.read_pos() + (round % 7 == 0 ? word() : 8));
    good.Publish(1, 2);
    const RingHandle handle = Attach(*consumer, bad.AttachOptions());
    EXPECT_TRUE(consumer->Flush(kLong).complete);
    if (round % 3 == 0) image.set_write_pos(word());
    EXPECT_TRUE(consumer->DetachRing(handle).ok());
  }
  const ConsumerStats stats = consumer->stats();
  ASSERT_EQ(stats.producers.size(), 1u);
  EXPECT_EQ(stats.producers[0].packets.delivered, good.attempted());
  EXPECT_EQ(stats.producers[0].packets.lost.total(), 0u);
  EXPECT_GT(stats.packets.lost[LossCause::kChunkCorrupted], 0u);
  EXPECT_GT(stats.rings_stopped, 0u);
  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets + info.lost.total(), stats.packets.attempted());
  EXPECT_THAT(trace.Read().complaints, IsEmpty());
}

TEST(ConsumerTest, DetachTakesTheRestAndCountsAnOpenPacketOnce) {
  FedRing ring;
  auto consumer = MakeConsumer(TestOptions());
  const RingHandle handle = Attach(*consumer, ring.AttachOptions());
  ring.Publish(1, 2);
  ring.Publish(2, 1, 1, abi::kFlagContinuesOnNext);
  EXPECT_TRUE(consumer->DetachRing(handle).ok());
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.delivered, 2u);
  EXPECT_EQ(stats.packets.lost[LossCause::kReassemblyGap], 1u);
  EXPECT_EQ(stats.producers_connected, 0u);
  EXPECT_EQ(stats.producers_seen, 1u);
  EXPECT_EQ(consumer->DetachRing(handle).code(), absl::StatusCode::kNotFound);
}

TEST(ConsumerTest, SecondReaderOfARingMarksTheGap) {
  FedRing ring;
  {
    auto first = MakeConsumer(TestOptions());
    Attach(*first, ring.AttachOptions());
    ring.Publish(1, 2);
    ring.Lose(1, 1, LossCause::kRingFull);
    first->Flush(kLong);
    EXPECT_EQ(first->stats().packets.attempted(), 3u);
  }
  auto second = MakeConsumer(TestOptions());
  Attach(*second, ring.AttachOptions());
  ring.Publish(1, 2);
  second->Flush(kLong);
  // What the first one saw is the first one's.
  EXPECT_EQ(second->stats().packets.attempted(), 2u);
  EXPECT_EQ(second->stats().packets.delivered, 2u);
  ScopedTrace trace;
  Save(*second, trace);
  Accounting accounting;
  const TraceFile file = trace.Read();
  accounting.Add(file.packets);
  EXPECT_THAT(accounting.complaints(), IsEmpty());
  EXPECT_EQ(accounting.missing(), 3u);
  EXPECT_EQ(accounting.marks(), 1u);
}

// Between the two halves of a packet the reader changes, again and again. What
// becomes of each packet: the rest of the first comes, that of the second does
// not, and the third begins behind it.
TEST(ConsumerTest, PacketThatTwoReadersShareIsLostOnce) {
  FedRing ring;
  uint64_t counted = 0;
  ring.Publish(1, 2, 1, abi::kFlagContinuesOnNext);
  for (const uint32_t flags :
       {abi::kFlagContinuesFromPrevious | abi::kFlagContinuesOnNext,
        abi::kFlagContinuesOnNext, 0u}) {
    auto consumer = MakeConsumer(TestOptions());
    Attach(*consumer, ring.AttachOptions());
    consumer->Flush(kLong);
    consumer->Stop();
    counted += consumer->stats().packets.attempted();
    ring.Publish(1, 2, 1, flags);
  }
  auto last = MakeConsumer(TestOptions());
  Attach(*last, ring.AttachOptions());
  last->Flush(kLong);
  counted += last->stats().packets.attempted();
  // 8 fragments, of which the second and third are one packet.
  EXPECT_EQ(counted, 7u);
  EXPECT_EQ(ring.image().Word64(abi::kReaderLossOffset), 3u);
}

TEST(ConsumerTest, RingHandedOverAgainReplacesItsFirstSession) {
  FedRing ring;
  auto consumer = MakeConsumer(TestOptions());
  const RingHandle first = Attach(*consumer, ring.AttachOptions());
  ring.Publish(1, 2);
  consumer->Flush(kLong);
  const RingHandle second = Attach(*consumer, ring.AttachOptions());
  ring.Publish(1, 1);
  consumer->Flush(kLong);
  EXPECT_FALSE(consumer->DetachRing(first).ok());
  EXPECT_TRUE(consumer->DetachRing(second).ok());
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.delivered, 3u);
  EXPECT_EQ(stats.rings_stopped, 0u);
}

TEST(ConsumerTest, ForeignReaderStopsTheRingHere) {
  FedRing ring;
  auto first = MakeConsumer(TestOptions());
  auto second = MakeConsumer(TestOptions());
  Attach(*first, ring.AttachOptions());
  Attach(*second, ring.AttachOptions());
  ring.Publish(1, 2);
  EXPECT_EQ(first->Flush(kLong).producers[0].outcome,
            FlushOutcome::kRingStopped);
  EXPECT_EQ(second->Flush(kLong).producers[0].outcome, FlushOutcome::kComplete);
  EXPECT_EQ(second->stats().packets.delivered, 2u);
}

TEST(ConsumerTest, FlushTakesPublishedPacketsFromAnOpenChunkAndSaysSo) {
  FedRing ring;
  const ForgedChunk chunk{
      1, 1, 0, {NumberedPacket(1, 0), NumberedPacket(1, 1)}};
  ring.image().PutChunk(0, abi::State::kAcquired, chunk);
  ring.image().set_write_pos(1);
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  FlushResult flush = consumer->Flush(kLong);
  EXPECT_TRUE(flush.complete);
  EXPECT_EQ(flush.producers[0].outcome, FlushOutcome::kComplete);
  EXPECT_EQ(flush.producers[0].open_writers, 1u);
  EXPECT_EQ(consumer->stats().packets.delivered, 2u);
  // The writer goes on.
  ring.image().set_state_word(0, abi::kAcknowledgedWord);
  flush = consumer->Flush(kLong);
  EXPECT_EQ(flush.producers[0].open_writers, 0u);
}

TEST(ConsumerTest, FlushWithoutTimeTakesOnePass) {
  FedRing ring;
  ring.Publish(1, 4);
  auto consumer = MakeConsumer(TestOptions());
  Attach(*consumer, ring.AttachOptions());
  EXPECT_TRUE(consumer->Flush(seconds(0)).complete);
  EXPECT_EQ(consumer->stats().packets.delivered, 4u);
  EXPECT_EQ(consumer->stats().flushes_succeeded, 1u);
}

TEST(ConsumerTest, OptionsThatBreakARuleAreNamed) {
  struct Case {
    std::function<void(ConsumerOptions*)> spoil;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](ConsumerOptions* o) { o->buffers.clear(); }, "0 buffers"},
      {[](ConsumerOptions* o) { o->buffers[0].size = 4095; }, "4095 bytes"},
      {[](ConsumerOptions* o) { o->buffers[0].name = ""; }, "1 to 255"},
      {[](ConsumerOptions* o) { o->buffers[0].name = "metadata"; }, "built-in"},
      {[](ConsumerOptions* o) { o->buffers[0].name = "other"; },
       "'other' is given twice"},
      {[](ConsumerOptions* o) { o->drain_period = milliseconds(0); },
       "drain_period of 0"},
      {[](ConsumerOptions* o) { o->limits.producers = 0; },
       "limit producers of 0"},
      {[](ConsumerOptions* o) { o->socket_path = std::string(200, 'x'); },
       "limit is 107"},
      {[](ConsumerOptions* o) { o->socket_path = "/nowhere/at/all"; },
       "/nowhere/at/all"},
  };
  for (const Case& bad : cases) {
    ConsumerOptions options = TestOptions();
    bad.spoil(&options);
    const auto consumer = Consumer::Create(options);
    ASSERT_FALSE(consumer.ok()) << bad.text;
    EXPECT_THAT(std::string(consumer.status().message()), HasSubstr(bad.text));
  }
}

TEST(ConsumerTest, DescriptorsThatAreNoRingAreRefusedWithTheRule) {
  auto consumer = MakeConsumer(TestOptions());
  FedRing ring;
  const auto refused = [&](AttachRingOptions options, const char* text) {
    const auto handle = consumer->AttachRing(options);
    ASSERT_FALSE(handle.ok()) << text;
    EXPECT_THAT(std::string(handle.status().message()), HasSubstr(text));
  };
  AttachRingOptions options = ring.AttachOptions();
  options.memfd = -1;
  refused(options, "fd -1 has no seals");
  options = ring.AttachOptions();
  options.num_chunks = 3;
  refused(options, "power of two");
  options = ring.AttachOptions();
  options.num_chunks *= 2;
  refused(options, "must have");
  options = ring.AttachOptions();
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const os::UniqueFd read_end(pipe_fds[0]);
  const os::UniqueFd write_end(pipe_fds[1]);
  options.memfd = read_end.get();
  refused(options, "seal");
  const RingImage unsealed = RingImage::InMemfd({64, 4096, 0, true}, 0);
  options.memfd = unsealed.fd();
  refused(options, "sealed against shrinking");
  options = ring.AttachOptions();
  options.event_fd = write_end.get();
  options.buffers.push_back({BufferId(1), "other"});
  refused(options, "buffer id 1 was given another name");
  EXPECT_EQ(consumer->stats().producers_seen, 0u);
  // Nothing of it stands in the way of a good one.
  Attach(*consumer, ring.AttachOptions());
}

TEST(ConsumerTest, LimitsHoldForEachProducer) {
  ConsumerOptions options = TestOptions();
  options.limits.producers = 1;
  options.limits.ring_bytes_per_producer = 300 * 1024;
  options.limits.buffers_per_producer = 3;
  auto consumer = MakeConsumer(options);
  FedRing large({128, 4096, 0, true});
  EXPECT_THAT(
      std::string(
          consumer->AttachRing(large.AttachOptions()).status().message()),
      HasSubstr("the limit for one producer is 307200"));
  FedRing ring;
  AttachRingOptions attach = ring.AttachOptions();
  attach.buffers.push_back({BufferId(10), "no such buffer"});
  EXPECT_THAT(std::string(consumer->AttachRing(attach).status().message()),
              HasSubstr("4 buffers are named"));
  Attach(*consumer, ring.AttachOptions());
  FedRing another;
  EXPECT_THAT(
      std::string(
          consumer->AttachRing(another.AttachOptions()).status().message()),
      HasSubstr("which is the limit"));
}

TEST(ConsumerTest, EventLoopDrainsWhenWritersSignal) {
  FedRing ring;
  const os::UniqueFd event_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ConsumerOptions options = TestOptions();
  options.drain_period = std::chrono::hours(1);
  auto consumer = MakeConsumer(options);
  AttachRingOptions attach = ring.AttachOptions();
  attach.event_fd = event_fd.get();
  Attach(*consumer, attach);
  while (IsReadable(consumer->poll_fd())) consumer->ProcessReady();
  EXPECT_EQ(ring.image().Word32(abi::kReaderArmedOffset), 1u);

  // As a writer does it: publish, take the flag, signal.
  ring.Publish(1, 2);
  EXPECT_FALSE(IsReadable(consumer->poll_fd()));
  ring.image().SetWord32(abi::kReaderArmedOffset, 0);
  ASSERT_EQ(eventfd_write(event_fd.get(), 1), 0);
  EXPECT_TRUE(IsReadable(consumer->poll_fd()));
  while (IsReadable(consumer->poll_fd())) consumer->ProcessReady();
  EXPECT_EQ(consumer->stats().packets.delivered, 2u);
  EXPECT_EQ(ring.image().Word32(abi::kReaderArmedOffset), 1u);
  // The eventfd was not read: nothing may depend on that.
  EXPECT_TRUE(IsReadable(event_fd.get()));
}

TEST(ConsumerTest, PollFdStaysReadableUntilAllWorkIsDone) {
  // Far more than one call drains.
  FedRing ring({2048, 32768, 0, true});
  while (!ring.Full()) ring.Publish(1, 20);
  ConsumerOptions options = TestOptions();
  options.drain_period = std::chrono::hours(1);
  auto consumer = MakeConsumer(options);
  Attach(*consumer, ring.AttachOptions());
  int calls = 0;
  while (IsReadable(consumer->poll_fd())) {
    consumer->ProcessReady();
    ++calls;
  }
  EXPECT_GT(calls, 1);
  EXPECT_EQ(consumer->stats().packets.delivered, ring.attempted());
  EXPECT_FALSE(ring.Full());
}

TEST(ConsumerTest, PeriodTakesWhatNobodySignalled) {
  FedRing ring;
  ConsumerOptions options = TestOptions();
  options.drain_period = milliseconds(5);
  auto consumer = MakeConsumer(options);
  Attach(*consumer, ring.AttachOptions());
  while (consumer->stats().packets.delivered == 0) {
    if (ring.attempted() == 0) ring.Publish(1, 1);
    ASSERT_TRUE(IsReadable(consumer->poll_fd(), kLong));
    consumer->ProcessReady();
  }
}

TEST(ConsumerTest, NothingAttachedMeansNoWakeUps) {
  ConsumerOptions options = TestOptions();
  options.drain_period = milliseconds(1);
  auto consumer = MakeConsumer(options);
  FedRing ring;
  const RingHandle handle = Attach(*consumer, ring.AttachOptions());
  EXPECT_TRUE(IsReadable(consumer->poll_fd(), kLong));
  ASSERT_TRUE(consumer->DetachRing(handle).ok());
  while (IsReadable(consumer->poll_fd())) consumer->ProcessReady();
  EXPECT_FALSE(IsReadable(consumer->poll_fd(), milliseconds(50)));
}

TEST(ConsumerTest, OwnThreadDrainsUntilStop) {
  FedRing ring;
  ConsumerOptions options = TestOptions();
  options.drain_period = milliseconds(1);
  auto consumer = MakeConsumer(options);
  ASSERT_TRUE(consumer->Start().ok());
  EXPECT_FALSE(consumer->Start().ok());
  Attach(*consumer, ring.AttachOptions());
  for (int i = 0; i < 500; ++i) {
    while (ring.Full()) std::this_thread::yield();
    ring.Publish(1, 10);
  }
  consumer->Stop();
  consumer->Stop();
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.delivered, 5000u);
  EXPECT_EQ(stats.producers_connected, 0u);
  EXPECT_FALSE(consumer->AttachRing(ring.AttachOptions()).ok());
  ScopedTrace trace;
  EXPECT_EQ(Save(*consumer, trace).packets, 5000u);
}

TEST(ConsumerTest, StreamMovesPacketsOutWithoutLoss) {
  ConsumerOptions options = TestOptions();
  options.buffers[0].size = 64 * 1024;
  auto consumer = MakeConsumer(options);
  FedRing ring;
  Attach(*consumer, ring.AttachOptions());
  ScopedTrace trace;
  ASSERT_TRUE(consumer->StreamTo(trace.path(), milliseconds(1)).ok());
  EXPECT_FALSE(consumer->StreamTo(trace.path(), milliseconds(1)).ok());
  // Many times the buffer; each round waits for the stream to have taken it.
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 10; ++j) ring.Publish(1, 20);
    consumer->Flush(kLong);
    const uint64_t before = consumer->stats().buffers[0].written_packets;
    while (consumer->stats().buffers[0].streamed_packets < before) {
      std::this_thread::yield();
    }
  }
  ring.Publish(1, 1);
  consumer->Stop();  // the rest is still in a buffer
  const absl::StatusOr<TraceFileInfo> info = consumer->StopStreaming();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->packets, ring.attempted());
  EXPECT_EQ(info->lost.total(), 0u);
  EXPECT_FALSE(consumer->StopStreaming().ok());
  EXPECT_THAT(test::CheckTraceFile(trace.path(), {true, true, false, true}),
              IsEmpty());
  Accounting accounting;
  accounting.Add(trace.Read().packets);
  accounting.ExpectTotal(ring.attempted(), 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());

  // A snapshot has what is left, and calls nothing of the rest lost.
  const absl::StatusOr<TraceFileInfo> snapshot =
      consumer->WriteTrace(trace.path());
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->packets + snapshot->streamed_before, ring.attempted());
  EXPECT_EQ(snapshot->lost.total(), 0u);
}

TEST(ConsumerTest, OptionsOfAStreamThatBreakARuleAreNamed) {
  auto consumer = MakeConsumer(TestOptions());
  const auto error_of = [&](const StreamOptions& options) {
    const absl::Status status = consumer->StreamTo("/nowhere/at/all", options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  StreamOptions options;
  options.period = milliseconds(0);
  EXPECT_THAT(error_of(options), HasSubstr("0 ms"));
  options = StreamOptions();
  options.max_file_bytes = 1000;
  EXPECT_THAT(error_of(options), HasSubstr("1000 bytes"));
  options.max_file_bytes = 1 << 20;
  options.max_files = 0;
  EXPECT_THAT(error_of(options), HasSubstr("0 files"));
  options.max_files = 1001;
  EXPECT_THAT(error_of(options), HasSubstr("1001 files"));
}

TEST(ConsumerTest, CompressedFilesHoldTheSamePackets) {
  auto consumer = MakeConsumer(TestOptions());
  FedRing ring;
  Attach(*consumer, ring.AttachOptions());
  for (int i = 0; i < 30; ++i) ring.Publish(1, 20);
  consumer->Flush(kLong);
  ScopedTrace plain;
  ScopedTrace compressed;
  SaveOptions save;
  save.compress = true;
  const auto info = consumer->WriteTrace(compressed.path(), save);
  if (absl::IsUnimplemented(info.status())) {
    GTEST_SKIP() << "built without zlib";
  }
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LT(info->bytes, Save(*consumer, plain).bytes / 2);
  EXPECT_EQ(info->packets, 600u);
  Accounting accounting;
  accounting.Add(compressed.Read().packets);
  accounting.ExpectTotal(600, 0);
  EXPECT_THAT(accounting.complaints(), IsEmpty());

  StreamOptions stream;
  stream.compress = true;
  ASSERT_TRUE(consumer->StreamTo(plain.path(), stream).ok());
  EXPECT_TRUE(consumer->stream_status().ok());
  ASSERT_TRUE(consumer->StopStreaming().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(consumer->stream_status()));
  EXPECT_GT(plain.Read().compressed_packets, 0u);
}

TEST(ConsumerTest, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  auto consumer = MakeConsumer(TestOptions());
  const auto info = consumer->WriteTrace("/nowhere/at/all");
  ASSERT_FALSE(info.ok());
  EXPECT_THAT(std::string(info.status().message()),
              HasSubstr("/nowhere/at/all"));
  const absl::Status stream =
      consumer->StreamTo("/nowhere/at/all", milliseconds(10));
  EXPECT_THAT(std::string(stream.message()), HasSubstr("/nowhere/at/all"));
  EXPECT_FALSE(consumer->StopStreaming().ok());
}

// A method that waited for the mutex behind a hot draining thread for ever
// would hang here.
TEST(ConsumerTest, EveryMethodWorksFromAnyThreadBesideAHotRing) {
  FedRing ring;
  std::atomic<int> lines{0};
  ConsumerOptions options = TestOptions();
  options.wakeup_threshold = 1;
  options.log = [&lines](std::string_view) { ++lines; };
  auto consumer = MakeConsumer(options);
  ASSERT_TRUE(consumer->Start().ok());
  Attach(*consumer, ring.AttachOptions());
  std::atomic<bool> done{false};
  std::thread writer([&] {
    while (!done) {
      if (!ring.Full()) ring.Publish(1, 5);
    }
  });
  std::thread stats_reader([&] {
    while (!done) {
      const ConsumerStats stats = consumer->stats();
      EXPECT_EQ(stats.packets.lost.total(), 0u);
    }
  });
  ScopedTrace trace;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(consumer->Flush(kLong).complete);
    EXPECT_TRUE(consumer->WriteTrace(trace.path()).ok());
    FedRing short_lived;
    short_lived.Publish(1, 1);
    const RingHandle handle = Attach(*consumer, short_lived.AttachOptions());
    EXPECT_TRUE(consumer->DetachRing(handle).ok());
  }
  done = true;
  writer.join();
  stats_reader.join();
  consumer->Stop();
  EXPECT_EQ(consumer->stats().packets.delivered, ring.attempted() + 20);
  EXPECT_GT(lines, 0);
}

TEST(ConsumerTest, CallbackMayCallTheConsumer) {
  FedRing ring;
  int lines = 0;  // outlives the consumer, which logs at its end, too
  std::unique_ptr<Consumer> consumer;
  ConsumerOptions options = TestOptions();
  options.log = [&](std::string_view) {
    if (++lines > 3) return;
    EXPECT_TRUE(consumer->Flush(kLong).complete);
    FedRing nested;
    EXPECT_TRUE(consumer->AttachRing(nested.AttachOptions()).ok());
  };
  consumer = MakeConsumer(options);
  Attach(*consumer, ring.AttachOptions());
  EXPECT_EQ(lines, 4);
  EXPECT_EQ(consumer->stats().producers_connected, 4u);
}

// However many rings there are, one that never rests keeps none of them
// waiting, and a period in which nothing happens costs next to nothing.
TEST(ConsumerTest, ThousandRingsBesideAHotOneAreServedAndRestCheaply) {
  ConsumerOptions options = TestOptions();
  options.drain_period = milliseconds(10);
  auto consumer = MakeConsumer(options);
  std::vector<std::unique_ptr<FedRing>> rings;
  for (int i = 0; i < 1000; ++i) {
    rings.push_back(
        std::make_unique<FedRing>(test::RingImageOptions{2, 4096, 0, true}));
    Attach(*consumer, rings.back()->AttachOptions());
  }
  FedRing hot({64, 4096, 0, true});
  Attach(*consumer, hot.AttachOptions());
  std::atomic<bool> done{false};
  std::thread feeder([&] {
    while (!done) {
      if (hot.Full()) {
        std::this_thread::yield();
      } else {
        hot.Publish(1, 10);
      }
    }
  });
  for (const auto& ring : rings) ring->Publish(1, 1);
  EXPECT_TRUE(Eventually([&] {
    consumer->ProcessReady();
    return std::none_of(rings.begin(), rings.end(), [](const auto& ring) {
      return ring->image().read_pos() != ring->image().write_pos();
    });
  }));
  done = true;
  feeder.join();
  EXPECT_GT(hot.attempted(), 0u);
  EXPECT_TRUE(consumer->Flush(kLong).complete);
  EXPECT_EQ(consumer->stats().packets.delivered, 1000 + hot.attempted());
  while (IsReadable(consumer->poll_fd())) consumer->ProcessReady();

  const auto cpu_time = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = cpu_time();
  for (int period = 0; period < 10; ++period) {
    ASSERT_TRUE(IsReadable(consumer->poll_fd(), kLong));
    consumer->ProcessReady();
  }
  // A tenth of what ten default periods last.
  EXPECT_LT(cpu_time() - before, milliseconds(100));
}

// What producers leave behind must not add up.
TEST(ConsumerTest, ManyShortSessionsLeaveNothingBehind) {
  ConsumerOptions options = TestOptions();
  options.buffers[0].size = kMinBufferSize;
  auto consumer = MakeConsumer(options);
  uint64_t attempted = 0;
  const int before = dup(0);
  ASSERT_GE(before, 0);
  close(before);
  for (int i = 0; i < 500; ++i) {
    FedRing ring({2, 4096, 0, true});
    ring.Publish(1, 1);
    ring.Publish(2, 1);
    attempted += ring.attempted();
    const RingHandle handle = Attach(*consumer, ring.AttachOptions());
    ASSERT_TRUE(consumer->DetachRing(handle).ok());
  }
  const int after = dup(0);
  close(after);
  EXPECT_EQ(after, before);
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.packets.delivered, attempted);
  EXPECT_EQ(stats.producers_seen, 500u);
  ScopedTrace trace;
  const TraceFileInfo info = Save(*consumer, trace);
  EXPECT_EQ(info.packets + info.lost.total(), attempted);
}

}  // namespace
}  // namespace tracering
