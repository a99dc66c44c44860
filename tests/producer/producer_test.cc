// Producer as its users see it, against a service that is played by the test.
#include "tracering/producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/os/eventfd.h"
#include "tests/producer/scripted_service.h"
#include "tests/support/temp_dir.h"
#include "tracering/trace_fields.h"

namespace tracering {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::DrainingService;
using test::ScriptedService;
using test::Session;
using test::TempDir;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr seconds kLong(30);

void Trace(TraceWriter& writer, uint64_t index) {
  Packet packet = writer.NewPacket();
  packet.AppendVarint(trace_packet::kTimestamp, index);
}

std::vector<uint64_t> Timestamps(
    const std::vector<test::TracePacket>& packets) {
  std::vector<uint64_t> timestamps;
  for (const auto& packet : packets) timestamps.push_back(packet.timestamp());
  return timestamps;
}

std::string TextOf(const absl::Status& status) {
  return std::string(status.message());
}

class ProducerTest : public testing::Test {
 protected:
  ProducerOptions Options() const {
    ProducerOptions options;
    options.name = "producer_test";
    options.socket_path = socket_path_;
    return options;
  }

  static std::unique_ptr<Producer> Create(ProducerOptions options) {
    auto producer = Producer::Create(std::move(options));
    EXPECT_TRUE(producer.ok()) << producer.status().ToString();
    return producer.ok() ? *std::move(producer) : nullptr;
  }

  TempDir directory_;
  const std::string socket_path_ = directory_.Path("service.sock");
};

// --- Options ---

class BadOptionsTest : public ProducerTest {
 protected:
  static std::string ErrorOf(ProducerOptions options) {
    auto producer = Producer::Create(std::move(options));
    EXPECT_EQ(producer.status().code(), absl::StatusCode::kInvalidArgument);
    return TextOf(producer.status());
  }
};

TEST_F(BadOptionsTest, RingSizeThatIsNoPowerOfTwoChunks) {
  ProducerOptions options = Options();
  options.ring_size = 3 * 4096;
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr("ring_size is 12288 bytes"), HasSubstr("4096"),
                    HasSubstr("power of two")));
}

TEST_F(BadOptionsTest, RingSizeBeyondTheLimits) {
  ProducerOptions options = Options();
  options.ring_size = 4096;
  EXPECT_THAT(ErrorOf(options), HasSubstr("at least 2 chunks"));
  options.ring_size = size_t{1} << 31;
  EXPECT_THAT(ErrorOf(options), HasSubstr("at most 1073741824 bytes"));
  options.ring_size = 0;
  EXPECT_THAT(ErrorOf(options), HasSubstr("ring_size is 0 bytes"));
  options.ring_size = 8191;
  EXPECT_THAT(ErrorOf(options), HasSubstr("ring_size is 8191 bytes"));
}

TEST_F(BadOptionsTest, ChunkSizeBeyondTheLimits) {
  for (size_t chunk_size : {size_t{0}, size_t{128}, size_t{300}, size_t{65536},
                            (size_t{1} << 32) + 256}) {
    ProducerOptions options = Options();
    options.chunk_size = chunk_size;
    EXPECT_THAT(ErrorOf(options),
                AllOf(HasSubstr("chunk_size is " + std::to_string(chunk_size)),
                      HasSubstr("power of two from 256 to 32768")));
  }
}

TEST_F(BadOptionsTest, BufferNames) {
  ProducerOptions options = Options();
  options.buffers = {{"", false, 0, {}}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("must have 1 to 255"));
  options.buffers = {{std::string(256, 'x'), false, 0, {}}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("has 256 bytes"));
  options.buffers = {{"metadata", false, 0, {}}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("built in"));
  options.buffers = {{"a", false, 0, {}}, {"a", true, 0, {}}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("'a' is there twice"));
}

TEST_F(BadOptionsTest, RingSizesOfBuffers) {
  ProducerOptions options = Options();
  options.buffers = {{"a", false, 8192, {}}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("without own_ring"));
  options.buffers = {{"a", true, 5000, {}}};
  EXPECT_THAT(ErrorOf(options),
              HasSubstr("ring_size of buffer 'a' is 5000 bytes"));
}

TEST_F(BadOptionsTest, RingFiles) {
  ProducerOptions options = Options();
  for (const char* path : {"/nowhere/at/all", "/dev/null"}) {
    options.ring_file = path;
    EXPECT_THAT(std::string(Producer::Create(options).status().message()),
                HasSubstr(path));
  }
  options.startup = StartupMode::kOff;
  EXPECT_THAT(ErrorOf(options), HasSubstr("StartupMode::kOff"));
}

TEST_F(BadOptionsTest, NumbersOfBuffersAndOwnRings) {
  ProducerOptions options = Options();
  for (int i = 0; i < 63; ++i) {
    options.buffers.push_back({"own" + std::to_string(i), true, 8192, {}});
  }
  EXPECT_THAT(ErrorOf(options), HasSubstr("63 buffers with a ring"));
  options.buffers.clear();
  for (int i = 0; i < 1024; ++i) {
    options.buffers.push_back({"b" + std::to_string(i), false, 0, {}});
  }
  EXPECT_THAT(ErrorOf(options), HasSubstr("1024 buffers; at most 1023"));
}

TEST_F(BadOptionsTest, StallTimeoutBelowZero) {
  ProducerOptions options = Options();
  options.writer_options.stall_timeout = nanoseconds(-1);
  EXPECT_THAT(ErrorOf(options), HasSubstr("stall_timeout is -1 ns"));
  options = Options();
  options.buffers = {{"a", false, 0, options.writer_options}};
  options.buffers[0].writer_options->stall_timeout = nanoseconds(-5);
  EXPECT_THAT(ErrorOf(options), HasSubstr("stall_timeout is -5 ns"));
}

TEST_F(BadOptionsTest, NameAndSocketPathThatAreTooLong) {
  ProducerOptions options = Options();
  options.name = std::string(256, 'n');
  EXPECT_THAT(ErrorOf(options), HasSubstr("has 256 bytes; at most 255"));
  options = Options();
  options.socket_path = "/" + std::string(107, 'p');
  EXPECT_THAT(ErrorOf(options), HasSubstr("has 108 bytes; at most 107"));
}

// --- Before, with and after a service ---

TEST_F(ProducerTest, WorksWithoutAServiceAndSaysWhyThereIsNone) {
  auto producer = Create(Options());
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 10; ++i) Trace(writer, i);
  EXPECT_FALSE(producer->consumer_attached());
  EXPECT_FALSE(producer->WaitForConsumer(milliseconds(1)));
  EXPECT_EQ(producer->Flush(kLong).code(), absl::StatusCode::kUnavailable);
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.attempted, 10u);
  EXPECT_EQ(stats.lost, 0u);
  EXPECT_EQ(stats.sessions, 0u);
  EXPECT_FALSE(stats.connection_error.empty());
}

TEST_F(ProducerTest, WhatWasTracedBeforeTheServiceCameIsInTheRingOnAttach) {
  auto producer = Create(Options());
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 5; ++i) Trace(writer, i);
  ScriptedService service(socket_path_);
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  session->DrainAll();
  EXPECT_THAT(Timestamps(session->Packets()), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(session->Violations(), IsEmpty());
  EXPECT_EQ(producer->stats().sessions, 1u);
  EXPECT_EQ(producer->stats().connection_error, "");
}

TEST_F(ProducerTest, HelloNamesTheProcessItsRingsAndItsBuffers) {
  ScriptedService service(socket_path_);
  ProducerOptions options = Options();
  options.ring_size = 64 << 10;
  options.chunk_size = 1024;
  options.buffers = {{"own", true, 8 << 10, {}}, {"shared too", false, 0, {}}};
  auto producer = Create(options);
  auto session = service.AcceptAndReceiveHello();
  ASSERT_NE(session, nullptr);
  const control::Hello& hello = session->hello();
  EXPECT_EQ(hello.process_name, "producer_test");
  EXPECT_EQ(hello.pid, static_cast<uint32_t>(getpid()));
  ASSERT_EQ(hello.rings.size(), 3u);
  EXPECT_EQ(hello.rings[0].num_chunks, 64u);
  EXPECT_EQ(hello.rings[0].chunk_size, 1024u);
  EXPECT_EQ(hello.rings[0].role, control::RingRole::kShared);
  EXPECT_EQ(hello.rings[1].num_chunks, 8u);
  EXPECT_EQ(hello.rings[1].role, control::RingRole::kOwnBuffer);
  EXPECT_EQ(hello.rings[2].role, control::RingRole::kDescriptors);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(hello.rings[i].index, i);
  ASSERT_EQ(hello.buffers.size(), 3u);
  EXPECT_EQ(hello.buffers[0].name, "metadata");
  EXPECT_EQ(hello.buffers[1].name, "own");
  EXPECT_EQ(hello.buffers[2].name, "shared too");
}

TEST_F(ProducerTest, AFullRingOfOneBufferCostsAnotherBufferNothing) {
  ScriptedService service(socket_path_);
  ProducerOptions options = Options();
  options.chunk_size = 256;
  options.ring_size = 64 << 10;
  options.buffers = {{"a", true, 1024, {}}};
  auto producer = Create(options);
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));

  TraceWriter& noisy = producer->ThreadWriter("a");
  TraceWriter& quiet = producer->ThreadWriter("b");
  for (uint64_t i = 0; i < 10'000; ++i) {
    Trace(noisy, i);
    if (i % 100 == 0) Trace(quiet, i / 100);
  }
  session->DrainAll();
  const Producer::Stats stats = producer->stats();
  ASSERT_EQ(stats.rings.size(), 3u);
  EXPECT_EQ(stats.rings[0].attempted, 100u);
  EXPECT_EQ(stats.rings[0].lost(), 0u);
  EXPECT_EQ(session->PacketsOf(0).size(), 100u);
  EXPECT_EQ(stats.rings[1].name, "a");
  EXPECT_EQ(stats.rings[1].attempted, 10'000u);
  EXPECT_GT(stats.rings[1].lost(), 0u);
  EXPECT_EQ(session->PacketsOf(1).size() + stats.rings[1].lost(), 10'000u);
  EXPECT_EQ(stats.attempted, 10'100u);
  EXPECT_EQ(stats.lost, stats.rings[1].lost());
}

TEST_F(ProducerTest, ABufferNamedLaterIsAnnouncedBeforeItsPackets) {
  ScriptedService service(socket_path_);
  auto producer = Create(Options());
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  TraceWriter& writer = producer->ThreadWriter("late");
  // The message is there at once: nothing has to run in between.
  ASSERT_TRUE(test::PollFd(session->socket(), POLLIN, milliseconds(0)));
  const auto message = session->Receive();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(session->BufferName(writer.target_buffer().value()), "late");
  Trace(writer, 7);
  session->DrainAll();
  EXPECT_THAT(Timestamps(session->Packets()), ElementsAre(7));
}

TEST_F(ProducerTest, BuffersNamedBeforeAndAfterHelloKeepTheirIds) {
  auto producer = Create(Options());
  const BufferId early = producer->ThreadWriter("early").target_buffer();
  ScriptedService service(socket_path_);
  auto session = service.AcceptAndReceiveHello();
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->BufferName(early.value()), "early");
  // Between Hello and Welcome.
  const BufferId late = producer->ThreadWriter("late").target_buffer();
  ASSERT_TRUE(session->Receive().has_value());
  EXPECT_EQ(session->BufferName(late.value()), "late");
  session.reset();
  session = service.AcceptAndReceiveHello();
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->BufferName(early.value()), "early");
  EXPECT_EQ(session->BufferName(late.value()), "late");
}

TEST_F(ProducerTest, MoreBufferNamesThanOneMessageHoldsAreSentInSeveral) {
  ScriptedService service(socket_path_);
  ProducerOptions options = Options();
  for (int i = 0; i < 1023; ++i) {
    std::string name = "buffer" + std::to_string(i);
    name.resize(255, '.');
    options.buffers.push_back({name, false, 0, {}});
  }
  auto producer = Create(options);
  auto session = service.AcceptAndReceiveHello();
  ASSERT_NE(session, nullptr);
  while (session->BufferName(1024).empty()) {
    ASSERT_TRUE(session->Receive().has_value());
  }
  for (uint16_t id = 1; id <= 1024; ++id) {
    ASSERT_NE(session->BufferName(id), "") << id;
  }
  // One more is one too many: it traces into nothing, and is counted.
  Trace(producer->ThreadWriter("one more"), 1);
  EXPECT_EQ(producer->stats().attempted, 0u);
  EXPECT_EQ(producer->stats().refused_buffer_names, 1u);
}

TEST_F(ProducerTest, UnacceptableBufferNamesTraceIntoNothingAndAreCounted) {
  auto producer = Create(Options());
  Trace(producer->ThreadWriter(""), 1);
  Trace(producer->ThreadWriter(std::string(256, 'x')), 1);
  Trace(*producer->CreateWriter(""), 1);
  EXPECT_EQ(producer->stats().attempted, 0u);
  EXPECT_EQ(producer->stats().refused_buffer_names, 3u);
}

TEST_F(ProducerTest, NamesThatTheConsumerDoesNotKnowAreReported) {
  ScriptedService service(socket_path_);
  auto producer = Create(Options());
  auto session = service.AcceptAndWelcome({"strange", "stranger"});
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  EXPECT_THAT(producer->stats().unknown_buffers,
              ElementsAre("strange", "stranger"));
}

TEST_F(ProducerTest, WithStartupOffNothingIsTracedUntilAConsumerAttaches) {
  ProducerOptions options = Options();
  options.startup = StartupMode::kOff;
  auto producer = Create(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  Trace(writer, 1);
  EXPECT_EQ(producer->stats().attempted, 0u);
  {
    ScriptedService service(socket_path_);
    auto session = service.AcceptAndWelcome();
    ASSERT_NE(session, nullptr);
    ASSERT_TRUE(producer->WaitForConsumer(kLong));
    Trace(writer, 2);
    session->DrainAll();
    EXPECT_THAT(Timestamps(session->Packets()), ElementsAre(2));
  }
  while (producer->consumer_attached()) std::this_thread::yield();
  Trace(writer, 3);
  EXPECT_EQ(producer->stats().attempted, 1u);
}

TEST_F(ProducerTest, SeveralProducersInOneProcessAreIndependent) {
  ScriptedService first_service(socket_path_);
  ScriptedService second_service(directory_.Path("other.sock"));
  auto first = Create(Options());
  ProducerOptions options = Options();
  options.socket_path = directory_.Path("other.sock");
  auto second = Create(options);
  auto first_session = first_service.AcceptAndWelcome();
  auto second_session = second_service.AcceptAndWelcome();
  ASSERT_NE(first_session, nullptr);
  ASSERT_NE(second_session, nullptr);
  Trace(first->ThreadWriter("main"), 1);
  Trace(second->ThreadWriter("main"), 2);
  EXPECT_NE(&first->ThreadWriter("main"), &second->ThreadWriter("main"));
  EXPECT_EQ(first->process_track(), second->process_track());
  EXPECT_NE(first->ThreadTrack(), second->ThreadTrack());
  first_session->DrainAll();
  second_session->DrainAll();
  EXPECT_THAT(Timestamps(first_session->Packets()), ElementsAre(1));
  EXPECT_THAT(Timestamps(second_session->Packets()), ElementsAre(2));
}

TEST_F(ProducerTest, AWriterOfAProducerThatIsGoneTracesIntoNothing) {
  auto first = Create(Options());
  TraceWriter& thread_writer = first->ThreadWriter("main");
  OwnedTraceWriter owned = first->CreateWriter("main");
  Trace(thread_writer, 1);
  Trace(*owned, 1);
  first.reset();
  Trace(thread_writer, 2);
  Trace(*owned, 2);
  { WriterBatch batch = thread_writer.Batch(); }
  // A new producer, perhaps at the same address, does not get the old writer.
  auto second = Create(Options());
  EXPECT_NE(&second->ThreadWriter("main"), &thread_writer);
  Trace(second->ThreadWriter("main"), 3);
  EXPECT_EQ(second->stats().attempted, 1u);
}

TEST_F(ProducerTest, APacketThatIsOpenWhileItsProducerEndsIsHarmless) {
  auto producer = Create(Options());
  TraceWriter& writer = producer->ThreadWriter("main");
  {
    WriterBatch batch = writer.Batch();
    Packet packet = writer.NewPacket();
    packet.AppendVarint(trace_packet::kTimestamp, 1);
    Message message = packet.BeginMessage(trace_packet::kTrackEvent);
    producer.reset();
    message.AppendString(track_event::kName, std::string(100'000, 'x'));
  }
  Trace(writer, 2);
}

// The ring of a producer that is gone is not kept by threads that live on.
TEST_F(ProducerTest, ProducersThatComeAndGoLeaveNoRingsBehind) {
  auto count_rings = [] {
    int count = 0;
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof(line), maps) != nullptr) {
      if (strstr(line, "memfd:tracering") != nullptr) ++count;
    }
    fclose(maps);
    return count;
  };
  const int before = count_rings();
  for (int i = 0; i < 20; ++i) {
    auto producer = Create(Options());
    Trace(producer->ThreadWriter("main"), 1);
    Trace(producer->ThreadWriter("other"), 1);
  }
  EXPECT_LE(count_rings(), before);
}

// --- Flush ---

TEST_F(ProducerTest, FlushPublishesTheBatchOfTheCallingThreadAndWaits) {
  DrainingService service(socket_path_);
  auto producer = Create(Options());
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  TraceWriter& writer = producer->ThreadWriter("main");
  const WriterBatch batch = writer.Batch();
  for (uint64_t i = 0; i < 100; ++i) Trace(writer, i);
  const absl::Status status = producer->Flush(kLong);
  EXPECT_TRUE(status.ok()) << status.ToString();
  service.Stop();
  ASSERT_EQ(service.clients().size(), 1u);
  EXPECT_EQ(service.clients()[0].session->Packets().size(), 100u);
}

TEST_F(ProducerTest, FlushSignalsTheConsumerWhateverItsThreshold) {
  ScriptedService service(socket_path_);
  auto producer = Create(Options());
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  session->DrainAll();
  Trace(producer->ThreadWriter("main"), 1);
  os::ResetEventFd(session->event_fd());
  EXPECT_EQ(producer->Flush(nanoseconds(0)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(test::PollFd(session->event_fd(), POLLIN, milliseconds(0)));
}

TEST_F(ProducerTest, FlushToAFrozenConsumerEndsInTimeAndNamesTheRing) {
  ScriptedService service(socket_path_);
  ProducerOptions options = Options();
  options.buffers = {{"own", true, 0, {}}};
  auto producer = Create(options);
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  Trace(producer->ThreadWriter("own"), 1);
  const absl::Status status = producer->Flush(milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(TextOf(status), HasSubstr("1 of 256 chunks of ring 'own'"));
}

TEST_F(ProducerTest, FlushEndsWhenTheConsumerLeaves) {
  ScriptedService service(socket_path_);
  auto producer = Create(Options());
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  Trace(producer->ThreadWriter("main"), 1);
  std::thread leaver([&] { session.reset(); });
  EXPECT_EQ(producer->Flush(std::chrono::hours(1)).code(),
            absl::StatusCode::kUnavailable);
  leaver.join();
}

TEST_F(ProducerTest, FlushAcceptsTimeoutsOfAnySize) {
  DrainingService service(socket_path_);
  auto producer = Create(Options());
  ASSERT_TRUE(producer->WaitForConsumer(nanoseconds::max()));
  Trace(producer->ThreadWriter("main"), 1);
  EXPECT_TRUE(producer->Flush(nanoseconds::max()).ok());
  EXPECT_TRUE(producer->Flush(nanoseconds(-1)).ok());
}

TEST_F(ProducerTest, TheEndOfAProducerSaysGoodbyeAndHandsOverWhatIsLeft) {
  DrainingService service(socket_path_);
  auto producer = Create(Options());
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  TraceWriter& writer = producer->ThreadWriter("main");
  {
    const WriterBatch batch = writer.Batch();
    Trace(writer, 1);
    producer.reset();
    Trace(writer, 2);
  }
  service.Stop();
  ASSERT_EQ(service.clients().size(), 1u);
  EXPECT_TRUE(service.clients()[0].said_goodbye);
  EXPECT_THAT(Timestamps(service.clients()[0].session->Packets()),
              ElementsAre(1));
}

// --- Losses ---

TEST_F(ProducerTest, LossesWithoutAConsumerAreHandedOverOnAttach) {
  ProducerOptions options = Options();
  options.chunk_size = 256;
  options.ring_size = 512;
  auto producer = Create(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 1000; ++i) Trace(writer, i);
  ScriptedService service(socket_path_);
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(producer->WaitForConsumer(kLong));
  // In the ring's own counters, without a further packet or a call.
  uint64_t in_ring = 0;
  std::memcpy(&in_ring, session->ring_base(0) + 192, sizeof(in_ring));
  session->DrainAll();
  const Producer::RingStats stats = producer->stats().rings[0];
  EXPECT_GT(in_ring, 0u);
  EXPECT_EQ(session->Packets().size() + in_ring + stats.lost_unfinished, 1000u);
  EXPECT_EQ(stats.lost(), in_ring + stats.lost_unfinished);
}

TEST_F(ProducerTest, StatsKeepTheCountsOfWritersThatAreGone) {
  auto producer = Create(Options());
  std::thread([&] {
    Trace(producer->ThreadWriter("main"), 1);
    Trace(*producer->CreateWriter("main"), 2);
  }).join();
  Trace(producer->ThreadWriter("main"), 3);
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.attempted, 3u);
  EXPECT_EQ(stats.rings[0].writers, 1u);
}

TEST_F(ProducerTest, PacketsThatTheReaderLostAreInTheStats) {
  ScriptedService service(socket_path_);
  auto producer = Create(Options());
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  Trace(producer->ThreadWriter("main"), 1);
  const uint64_t reader_loss = 5;
  std::memcpy(session->ring_base(0) + 8, &reader_loss, sizeof(reader_loss));
  const Producer::Stats stats = producer->stats();
  EXPECT_EQ(stats.rings[0].lost_by_reader, 5u);
  EXPECT_EQ(stats.lost, 5u);
}

}  // namespace
}  // namespace tracering
