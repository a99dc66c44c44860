// Between construction and destruction a writer allocates nothing and makes no
// system call unless it has to wait or to wake: shown by a counting allocator
// and by a sandbox that kills at the first system call.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/producer/counting_allocator.h"
#include "tests/producer/writer_harness.h"
#include "tracering/c/packet.h"
#include "tracering/c/track_event.h"
#include "tracering/track_event.h"

namespace tracering::test {
namespace {

// The reader's part, without what its system calls would hide: takes all
// outstanding positions, complete or not.
void Scrape(RingImage& image) {
  const uint32_t end = image.write_pos();
  const uint32_t num_chunks = image.geometry().num_chunks();
  for (uint32_t position = image.read_pos(); position != end; ++position) {
    const uint32_t chunk = position % num_chunks;
    const uint32_t word = image.state_word(chunk);
    if (word >> 29 == 1) {
      image.set_state_word(chunk, word - 0x2000'0000 + 0x6000'0000);
    } else if (word >> 29 != 3) {
      image.set_state_word(chunk, (position + num_chunks) / num_chunks);
    }
    image.set_read_pos(position + 1);
  }
}

// Takes every path that neither waits nor wakes.
void TakeAllPaths(RingImage& image, TraceWriter& writer,
                  const std::string& large) {
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 20; ++i) {
      Packet packet = writer.NewPacket();
      packet.AppendVarint(1, static_cast<uint64_t>(i) << round % 60);
      Message message = packet.BeginMessage(2);
      message.AppendDouble(3, 1.5);
      message.AppendString(4, "0123456789abcdef");
    }
    {
      auto batch = writer.Batch();
      for (int i = 0; i < 3; ++i) {
        Packet packet = writer.NewPacket();
        packet.AppendVarint(1, 2);
      }
      Packet packet = writer.NewPacket();
      packet.AppendVarint(1, 3);
      if (round % 3 == 0) Scrape(image);
      packet.AppendString(2, large);  // straddles, or is lost half-way
    }
    auto* const c_writer = reinterpret_cast<tracering_writer*>(&writer);
    tracering_batch_begin(c_writer);
    for (int i = 0; i < 20; ++i) {
      tracering_packet* const packet = tracering_packet_begin(c_writer);
      tracering_append_varint(packet, 1, static_cast<uint64_t>(i));
      tracering_message_begin(packet, 2);
      tracering_append_double(packet, 3, 1.5);
      if (i % 10 == 0) tracering_append_string(packet, 4, large.c_str());
      if (i % 7 == 0) tracering_packet_discard(packet);
      tracering_packet_end(packet);
    }
    tracering_batch_end(c_writer);
    {
      Packet packet = writer.NewPacket();
      Packet nested = writer.NewPacket();
      packet.Discard();
    }
    if (round % 2 == 0) Scrape(image);
  }
}

TEST(WriterAllocationTest, NothingIsAllocatedAfterConstruction) {
  WriterHarness harness(Shape(8));
  auto writer = harness.MakeWriter(1);
  const std::string large(700, 'x');
  const uint64_t before = NumAllocations();
  ASSERT_GT(before, 0u);
  TakeAllPaths(harness.image(), *writer, large);
  writer->Release();
  EXPECT_EQ(NumAllocations(), before);
  const WriterStats stats = writer->ReadStats();
  EXPECT_GT(stats.published, 0u);
  EXPECT_GT(stats.lost, 0u);
  ExpectBalanced(stats);
}

TEST(WriterAllocationTest, TrackEventsAllocateTheFirstTimeOnly) {
  TracingOptions options;
  options.producer.socket_path = "/nonexistent/socket";
  options.producer.own_thread = false;
  options.categories = {{"*"}};
  ASSERT_TRUE(StartTracing(options).ok());
  AsyncTrack track("track");
  const std::string text(300, 'x');
  const auto trace_all = [&] {
    TRACERING_SCOPE("c", "scope", "number", 1, "text", text);
    TRACERING_BEGIN("c", text, [](EventWriter& event) {
      event.AddDict("d", [](DictWriter& dict) { dict.Add("real", 0.5); });
    });
    TRACERING_COUNTER("c", "counter", 1);
    TRACERING_ASYNC_BEGIN("c", track, "async", Flow::Local(1));
    TRACERING_ASYNC_END(track);
    TRACERING_END("c");
    TRACERING_INSTANT("c", "instant");
    tracering_category* const category = tracering_category_get("c");
    tracering_packet* const event =
        tracering_slice_begin_open(category, "from C");
    tracering_arg_string(event, "text", text.c_str());
    tracering_packet_end(event);
    tracering_count_int(
        category, tracering_counter_get("count", TRACERING_UNIT_COUNT), 1);
    tracering_slice_end(category);
  };
  trace_all();
  const uint64_t before = NumAllocations();
  for (int i = 0; i < 100; ++i) trace_all();
  EXPECT_EQ(NumAllocations(), before);
  StopTracing();
}

TEST(WriterAllocationTest, WriterStaysBelow64KiB) {
  WriterHarness harness(Shape(2, 32768));
  const size_t scratch = 32768;
  EXPECT_LT(sizeof(internal::TraceWriterImpl) + scratch, 64u * 1024);
}

TEST(WriterAllocationTest, NoSystemCallIsMade) {
  const std::string large(700, 'x');
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Made here: a ring of the parent would be closed.
    WriterHarness harness(Shape(8));
    auto writer = harness.MakeWriter(1);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(77);
    TakeAllPaths(harness.image(), *writer, large);
    syscall(SYS_exit, writer->ReadStats().published > 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "no seccomp here";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "killed by signal " << WTERMSIG(status);
}

}  // namespace
}  // namespace tracering::test
