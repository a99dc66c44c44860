// An instrumented program that does one thing that a test wants to see from
// outside: argv[1] says which. The service is where $TRACERING_SOCKET says.
//
// Where it comes to an end it prints `attempted=N lost=N`. Anything unexpected
// ends it with status 9.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/numbered_packet.h"
#include "tests/support/child_process.h"
#include "tests/support/program_require.h"
#include "tests/support/sanitizers.h"
#include "tracering/producer.h"
#include "tracering/track_event.h"

namespace {

using tracering::BufferExhaustedPolicy;
using tracering::Producer;
using tracering::ProducerOptions;
using tracering::TraceWriter;
using tracering::test::AppendNumber;
using tracering::test::WriteNumbered;
using tracering::test::program::kUnexpected;
using tracering::test::program::Require;
namespace handshake = tracering::test::handshake;

constexpr std::chrono::seconds kLong{30};

std::unique_ptr<Producer> CreateProducer(const ProducerOptions& options = {}) {
  auto producer = Producer::Create(options);
  Require(producer.ok(), "a producer can be created");
  return *std::move(producer);
}

std::unique_ptr<Producer> AttachedProducer(
    const ProducerOptions& options = {}) {
  auto producer = CreateProducer(options);
  Require(producer->WaitForConsumer(kLong), "a consumer attaches");
  return producer;
}

void PrintTotals(Producer& producer) {
  Require(producer.Flush(kLong).ok(), "a flush succeeds");
  const Producer::Stats stats = producer.stats();
  printf("attempted=%llu lost=%llu\n",
         static_cast<unsigned long long>(stats.attempted),
         static_cast<unsigned long long>(stats.lost));
  fflush(stdout);
}

// Two packets and half of a third, until it is let go on.
int Hold() {
  auto producer = AttachedProducer();
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 2; ++i) WriteNumbered(writer, 0, i);
  {
    tracering::Packet packet = writer.NewPacket();
    packet.AppendVarint(tracering::trace_packet::kTimestampClockId, 6);
    handshake::Report();
    handshake::AwaitRelease();
    AppendNumber(packet, 0, 2);
  }
  WriteNumbered(writer, 0, 3);
  PrintTotals(*producer);
  return 0;
}

// More than its ring holds, which is the file $RING_FILE, and death.
int DieWithARingFile() {
  ProducerOptions options;
  options.ring_file = getenv("RING_FILE");
  options.buffers.resize(1);
  options.buffers[0].name = "other";
  options.buffers[0].own_ring = true;
  auto producer = CreateProducer(options);
  Require(!producer->WaitForConsumer(std::chrono::seconds(0)), "nobody comes");
  Require(!producer->Flush(std::chrono::seconds(0)).ok(), "no flush");
  producer->ThreadTrack("named thread");
  TraceWriter& other = producer->ThreadWriter("other");
  for (uint64_t i = 0; i < 3; ++i) WriteNumbered(other, 1, i);
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 50'000; ++i) WriteNumbered(writer, 0, i);
  raise(SIGKILL);
  return kUnexpected;
}

// Triggers between packets.
int PullTriggers() {
  auto producer = AttachedProducer();
  TraceWriter& writer = producer->ThreadWriter("main");
  WriteNumbered(writer, 0, 0);
  for (const char* name : {"never", "later", "unasked", "at-once"}) {
    Require(producer->Trigger(name).ok(), "a trigger can be pulled");
  }
  WriteNumbered(writer, 0, 1);
  handshake::Report();
  handshake::AwaitRelease();
  WriteNumbered(writer, 0, 2);
  PrintTotals(*producer);
  return 0;
}

// An instant in each of some categories, once a consumer has said which of them
// it wants.
int TraceCategories() {
  std::promise<void> consumer_has_spoken;
  tracering::TracingOptions options;
  options.categories.emplace();  // before that, none
  options.producer.on_session_start = [&] { consumer_has_spoken.set_value(); };
  Require(tracering::StartTracing(options).ok(), "tracing can be started");
  Require(consumer_has_spoken.get_future().wait_for(kLong) ==
              std::future_status::ready,
          "a consumer attaches");
  TRACERING_INSTANT("net", "net");
  TRACERING_INSTANT("net.http", "net.http");
  TRACERING_INSTANT("net.verbose", "net.verbose");
  TRACERING_INSTANT("render", "render");
  PrintTotals(*tracering::TracingProducer());
  tracering::StopTracing();
  return 0;
}

// One packet, and a thread that blocks for ever after it.
int OnePacketThenBlock() {
  auto producer = AttachedProducer();
  std::thread([&] {
    WriteNumbered(producer->ThreadWriter("main"), 0, 0);
    handshake::Report();
    for (;;) pause();
  }).detach();
  for (;;) pause();
}

// Traces with a stalling writer before anybody is there to drain.
int BeforeAnyConsumer() {
  ProducerOptions options;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::hours(1);
  auto producer = CreateProducer(options);
  TraceWriter& writer = producer->ThreadWriter("main");
  // More than the ring holds. A wait here would be for ever.
  for (uint64_t i = 0; i < 50'000; ++i) WriteNumbered(writer, 0, i);
  handshake::Report();
  Require(producer->WaitForConsumer(kLong), "a consumer attaches");
  PrintTotals(*producer);
  return 0;
}

// Some packets, then one of many chunks, in the middle of which it dies.
int DieInsideALargePacket() {
  auto producer = AttachedProducer();
  TraceWriter& writer = producer->ThreadWriter("main");
  for (uint64_t i = 0; i < 10; ++i) WriteNumbered(writer, 0, i);
  tracering::Packet packet = writer.NewPacket();
  AppendNumber(packet, 0, 10, std::string(20'000, 'x'));
  raise(SIGKILL);
  return kUnexpected;
}

// Some packets, and death at once.
int DieAfterPackets() {
  auto producer = AttachedProducer();
  for (uint64_t number = 0; number < 3; ++number) {
    const auto writer = producer->CreateWriter("main");
    for (uint64_t i = 0; i < 5; ++i) WriteNumbered(*writer, number, i);
  }
  raise(SIGKILL);
  return kUnexpected;
}

// Leaves main while a thread that nobody joins traces on.
int ExitBesideADetachedThread() {
  // Never destroyed: the thread uses it to the end.
  static Producer* const producer = AttachedProducer().release();
  static std::atomic<bool> traced{false};
  std::thread([] {
    TraceWriter& writer = producer->ThreadWriter("main");
    for (uint64_t i = 0;; ++i) {
      WriteNumbered(writer, 0, i);
      traced = true;
    }
  }).detach();
  while (!traced) std::this_thread::yield();
  Require(producer->Flush(kLong).ok(), "a flush succeeds");
  return 0;
}

// Forks inside a packet. The child goes on as if nothing had happened, and
// exits; so does the parent.
int ForkInsideAPacket() {
  auto producer = AttachedProducer();
  TraceWriter& writer = producer->ThreadWriter("main");
  uint64_t index = 0;
  for (; index < 10; ++index) WriteNumbered(writer, 0, index);
  pid_t child = -1;
  {
    const tracering::WriterBatch batch = writer.Batch();
    WriteNumbered(writer, 0, index++);
    tracering::Packet packet = writer.NewPacket();
    tracering::Message event =
        packet.BeginMessage(tracering::trace_packet::kTrackEvent);
    child = fork();
    event.AppendVarint(tracering::track_event::kType,
                       tracering::track_event::kTypeInstant);
    event.End();
    packet.Discard();
  }
  for (int i = 0; i < 10; ++i) WriteNumbered(writer, 0, index++);
  if (child == 0) {
    Require(!producer->Flush(kLong).ok(), "no flush in a forked child");
    return 0;
  }
  int status = 0;
  Require(waitpid(child, &status, 0) == child && status == 0,
          "the forked child exits in good order");
  WriteNumbered(writer, 0, index++);
  PrintTotals(*producer);
  return 0;
}

// Two threads that trace far more than the ring holds and lose nothing, for as
// long as somebody drains it.
int Stalling() {
  constexpr uint64_t kPackets = tracering::test::kSanitized ? 2'000 : 40'000;
  ProducerOptions options;
  options.ring_size = size_t{64} << 10;
  options.writer_options.policy = BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = std::chrono::hours(1);
  auto producer = AttachedProducer(options);
  const auto trace = [&producer](uint64_t number) {
    TraceWriter& writer = producer->ThreadWriter("main");
    for (uint64_t i = 0; i < kPackets; ++i) WriteNumbered(writer, number, i);
  };
  std::thread other(trace, 1);
  trace(0);
  other.join();
  PrintTotals(*producer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string_view, int (*)()> kinds = {
      {"hold", Hold},
      {"one-packet-then-block", OnePacketThenBlock},
      {"before-any-consumer", BeforeAnyConsumer},
      {"die-inside-a-large-packet", DieInsideALargePacket},
      {"die-with-a-ring-file", DieWithARingFile},
      {"die-after-packets", DieAfterPackets},
      {"exit-beside-a-detached-thread", ExitBesideADetachedThread},
      {"fork-inside-a-packet", ForkInsideAPacket},
      {"pull-triggers", PullTriggers},
      {"trace-categories", TraceCategories},
      {"stalling", Stalling},
  };
  Require(argc == 2, "one argument");
  const auto kind = kinds.find(argv[1]);
  Require(kind != kinds.end(), "a known argument");
  return kind->second();
}
