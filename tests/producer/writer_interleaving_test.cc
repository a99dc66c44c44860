// What happens between two instructions of a writer: the reader, a signal
// handler or the end of the producer acts right before a chosen access to a
// shared word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/producer/hook_script.h"
#include "tests/producer/writer_harness.h"

namespace tracering::test {
namespace {

using internal::RingMode;
using internal::SharedAccess;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a compare-exchange on a chunk's word is about to do, by what stands
// there. All writers of these tests have an id below 100.
enum class Step { kOther, kReserve, kClaim, kPublish, kReuse, kAcknowledge };

Step StepOf(WriterHarness& harness, SharedAccess access, const void* word) {
  if (access != SharedAccess::kCompareExchange) return Step::kOther;
  // The writers' own mapping, which is not the image's.
  const void* const base = &harness.ring().ring().words();
  const auto offset = static_cast<size_t>(static_cast<const uint8_t*>(word) -
                                          static_cast<const uint8_t*>(base));
  if (offset == 64) return Step::kReserve;
  if (offset < 256) return Step::kOther;
  const uint32_t index = static_cast<uint32_t>(
      (offset - 256) / harness.image().geometry().chunk_size());
  switch (harness.image().state_word(index) >> 29) {
    case 0:
      return Step::kClaim;
    case 1:
      return Step::kPublish;
    case 2:
      return Step::kReuse;
    case 3:
      return Step::kAcknowledge;
    default:
      return Step::kOther;
  }
}

// Runs `action` before each step of a kind, at most `times` times (negative:
// every time).
class BeforeStep {
 public:
  BeforeStep(WriterHarness& harness, Step step, int times,
             std::function<void()> action)
      : left_(times),
        script_([this, &harness, step, action = std::move(action)](
                    SharedAccess access, const void* word) {
          const Step now = StepOf(harness, access, word);
          if (now == Step::kOther) return;
          const Step before = std::exchange(last_, now);
          if (left_ == 0 || now != step) return;
          // A reuse that comes too late also finds a free chunk.
          if (step == Step::kClaim && before != Step::kReserve) return;
          --left_;
          action();
        }) {}
  int left() const { return left_; }

 private:
  int left_;
  Step last_ = Step::kOther;
  HookScript script_;
};

// --- The three races on a chunk's word, won by the reader ---

TEST(WriterInterleavingTest, ReaderPassesAReservationBeforeItsClaim) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  for (int round = 0; round < 1000; ++round) {
    const uint32_t before = harness.image().write_pos();
    {
      BeforeStep pass(harness, Step::kClaim, 1,
                      [&] { harness.reader().Drain(); });
      WriteSized(*writer, 100, 'a');
      EXPECT_EQ(pass.left(), 0);
    }
    // The claim failed for good, and the next one took the next position.
    EXPECT_EQ(harness.image().write_pos(), before + 2);
    harness.reader().Drain();
  }
  EXPECT_THAT(harness.Taken(), SizeIs(1000));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

// The reader goes round the ring between reservation and claim: the chunk is
// free again, for a later reservation only.
TEST(WriterInterleavingTest, LateClaimNeverPublishesBehindTheReader) {
  WriterHarness harness(Shape(4));
  auto late = harness.MakeWriter(1);
  auto other = harness.MakeWriter(2);
  for (int round = 0; round < 1000; ++round) {
    {
      BeforeStep go_round(harness, Step::kClaim, 1, [&] {
        for (int i = 0; i < 5; ++i) {
          harness.reader().Drain();
          WriteSized(*other, 10, 'o');
        }
        harness.reader().Drain();
      });
      WriteSized(*late, 10, 'l');
      EXPECT_EQ(go_round.left(), 0);
    }
    harness.reader().Drain();
  }
  EXPECT_THAT(harness.reader().joiner().PacketsOf(1), SizeIs(1000));
  EXPECT_THAT(harness.reader().joiner().PacketsOf(2), SizeIs(5000));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(late->ReadStats().lost + other->ReadStats().lost, 0u);
}

TEST(WriterInterleavingTest, ReaderReclaimsTheCachedChunkBeforeItsReuse) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  WriteSized(*writer, 10, 'a');
  {
    BeforeStep reclaim(harness, Step::kReuse, 1,
                       [&] { harness.reader().Drain(); });
    WriteSized(*writer, 10, 'b');
    EXPECT_EQ(reclaim.left(), 0);
  }
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'b')));
  EXPECT_EQ(harness.image().write_pos(), 2u);
}

TEST(WriterInterleavingTest, ReaderScrapesBeforeThePublication) {
  for (int published : {0, 1, 2}) {
    SCOPED_TRACE(published);
    WriterHarness harness;
    auto writer = harness.MakeWriter(1);
    std::vector<std::string> expected;
    for (int i = 0; i < published; ++i) {
      WriteSized(*writer, 10, 'a');
      expected.push_back(PacketBytes(10, 'a'));
    }
    {
      BeforeStep scrape(harness, Step::kPublish, 1,
                        [&] { harness.reader().Drain(); });
      WriteSized(*writer, 10, 'b');
      EXPECT_EQ(scrape.left(), 0);
      expected.push_back(PacketBytes(10, 'b'));
    }
    EXPECT_EQ(harness.DrainAll(), expected);
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
    EXPECT_EQ(writer->ReadStats().lost, 0u);
  }
}

// --- Replacements that are scraped as well ---

// An acknowledged chunk is free only once the reader comes by again, so that a
// writer which does not wait needs a chunk for each move.
TEST(WriterInterleavingTest, ReplacementIsScrapedAHundredTimes) {
  for (bool owes_loss : {false, true}) {
    for (int published : {0, 2}) {
      SCOPED_TRACE(testing::Message() << owes_loss << published);
      WriterHarness harness(Shape(128));
      auto writer = harness.MakeWriter(1, {}, owes_loss);
      std::vector<std::string> expected;
      for (int i = 0; i < published; ++i) {
        WriteSized(*writer, 10, 'a');
        expected.push_back(PacketBytes(10, 'a'));
      }
      {
        auto batch = writer->Batch();
        for (char fill : {'b', 'c', 'd'}) {
          WriteSized(*writer, 10, fill);
          expected.push_back(PacketBytes(10, fill));
        }
        BeforeStep scrape(harness, Step::kPublish, 100,
                          [&] { harness.reader().Drain(); });
        writer->PublishPending();
        EXPECT_EQ(scrape.left(), 0);
      }
      EXPECT_EQ(harness.DrainAll(), expected);
      EXPECT_THAT(harness.reader().violations(), IsEmpty());
      EXPECT_EQ(harness.reader().num_rewrites_requested(), 100u);
      EXPECT_EQ(writer->ReadStats().lost, 0u);
      const auto& packets = harness.reader().joiner().packets();
      EXPECT_EQ(packets[0].after_loss, owes_loss);
      for (size_t i = 1; i < packets.size(); ++i) {
        EXPECT_FALSE(packets[i].after_loss);
      }
    }
  }
}

// Under kStall relocation waits as well, here in the smallest ring: whenever
// the writer is about to sleep the reader takes what there is.
TEST(WriterInterleavingTest, StallingWriterIsScrapedAHundredTimes) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1, Stalling(std::chrono::hours(1)));
  int scrapes = 0;
  int waits = 0;
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    WriteSized(*writer, 10, 'b');
    HookScript script([&](SharedAccess access, const void* word) {
      if (access == SharedAccess::kFutexWait) {
        ++waits;
        harness.reader().Drain();
      }
      if (scrapes < 100 && StepOf(harness, access, word) == Step::kPublish) {
        ++scrapes;
        harness.reader().Drain();
      }
    });
    writer->PublishPending();
  }
  EXPECT_EQ(scrapes, 100);
  EXPECT_GT(waits, 0);
  EXPECT_THAT(harness.DrainAll(),
              ElementsAre(PacketBytes(10, 'a'), PacketBytes(10, 'b')));
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(WriterInterleavingTest, LargePacketIsScrapedAtEveryPublication) {
  WriterHarness harness(Shape(64));
  auto writer = harness.MakeWriter(1);
  const std::string payload(5000, 'x');
  bool scrape_next = true;
  {
    BeforeStep scrape(harness, Step::kPublish, -1, [&] {
      // Every second time, or no part would ever be published.
      if (std::exchange(scrape_next, !scrape_next)) harness.reader().Drain();
    });
    Packet packet = writer->NewPacket();
    packet.AppendString(1, payload);
  }
  const auto taken = harness.DrainAll();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_TRUE(taken[0] == std::string("\x0a\x88\x27", 3) + payload);
  EXPECT_GE(harness.reader().num_rewrites_requested(), 20u);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

// Two chunks: the replacement is scraped too, then there is none. The old
// chunk is acknowledged first, the suffix counted, loss marked once.
TEST(WriterInterleavingTest, SecondReplacementDoesNotExistInARingOfTwo) {
  WriterHarness harness(Shape(2));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    WriteSized(*writer, 10, 'b');
    int scrapes = 0;
    BeforeStep scrape(harness, Step::kPublish, -1, [&] {
      if (++scrapes == 2) {
        // The chunk before is acknowledged and not yet freed: this pass takes
        // the replacement, and its position is the last that there is.
        EXPECT_EQ(harness.image().state_word(0), 0x8000'0000u);
        harness.reader().Drain();
        harness.FillWithReservations();
      } else {
        harness.reader().Drain();
      }
    });
    writer->PublishPending();
    EXPECT_EQ(scrapes, 2);
  }
  EXPECT_EQ(harness.image().state_word(1), 0x8000'0000u);
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(stats.lost, 2u);
  ExpectBalanced(stats);
  EXPECT_EQ(harness.image().WriterLoss(), 2u);
  harness.reader().Drain();
  for (char fill : {'c', 'd'}) {
    WriteSized(*writer, 10, fill);
    harness.reader().Drain();
  }
  const auto& packets = harness.reader().joiner().packets();
  ASSERT_THAT(packets, SizeIs(2));
  EXPECT_TRUE(packets[0].after_loss);
  EXPECT_FALSE(packets[1].after_loss);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
}

// --- Words that may not stand there ---

TEST(WriterInterleavingTest, ForeignWordAtThePublicationPoisons) {
  for (uint32_t foreign :
       {0x0000'0000u, 0x0000'0001u, 0x2001'0001u, 0x2000'0002u, 0x4001'0001u,
        0x6001'0001u, 0x6000'0002u, 0x6100'0001u, 0x8000'0000u, 0xa000'0000u,
        0xffff'ffffu}) {
    SCOPED_TRACE(foreign);
    WriterHarness harness;
    harness.AttachConsumer();
    auto writer = harness.MakeWriter(1);
    auto other = harness.MakeWriter(2);
    {
      BeforeStep forge(harness, Step::kPublish, 1,
                       [&] { harness.image().set_state_word(0, foreign); });
      WriteSized(*writer, 10, 'a');
    }
    EXPECT_EQ(harness.ring().mode(), RingMode::kPoisoned);
    EXPECT_EQ(harness.image().state_word(0), foreign);
    WriteSized(*writer, 10, 'b');
    WriteSized(*other, 10, 'c');
    EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingPoisoned), 2u);
    EXPECT_EQ(LostBy(other->ReadStats(), LossCause::kRingPoisoned), 1u);
    ExpectBalanced(writer->ReadStats());
    EXPECT_EQ(harness.Loss(LossCause::kRingPoisoned), 3u);
    EXPECT_EQ(harness.image().write_pos(), 1u);
  }
}

TEST(WriterInterleavingTest, RequestThatVanishesBeforeItsAckPoisons) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    auto batch = writer->Batch();
    WriteSized(*writer, 10, 'a');
    WriteSized(*writer, 10, 'b');
    harness.reader().Drain();
    BeforeStep forge(harness, Step::kAcknowledge, 1,
                     [&] { harness.image().set_state_word(0, 0); });
    writer->PublishPending();
    EXPECT_EQ(forge.left(), 0);
  }
  EXPECT_EQ(harness.ring().mode(), RingMode::kPoisoned);
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingPoisoned), 2u);
  EXPECT_EQ(harness.image().write_pos(), 1u);
}

TEST(WriterInterleavingTest, OpenPacketOnARingThatIsPoisonedMeanwhileIsLost) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    AppendSized(packet, 100, 'a');
    harness.ring().Poison();
    packet.AppendString(1, std::string(500, 'x'));
  }
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(LostBy(stats, LossCause::kRingPoisoned), 1u);
  ExpectBalanced(stats);
}

// --- Signal handlers ---

// A handler on the writer's thread begins a packet before every single access
// of a program that takes all paths. Each goes nowhere and is counted; nothing
// of the interrupted packets is lost or spoilt.
TEST(WriterInterleavingTest, HandlerMayTraceAtEveryAccess) {
  WriterHarness harness(Shape(8));
  harness.AttachConsumer();
  auto writer = harness.MakeWriter(1);
  uint64_t handled = 0;
  uint64_t written = 0;
  std::vector<std::string> expected;
  const auto write = [&](size_t size, char fill) {
    WriteSized(*writer, size, fill);
    expected.push_back(PacketBytes(size, fill));
    ++written;
  };
  {
    HookScript handler([&](SharedAccess, const void*) {
      auto batch = writer->Batch();
      Packet packet = writer->NewPacket();
      AppendSized(packet, 10, 'n');
      ++handled;
    });
    for (int round = 0; round < 50; ++round) {
      write(10, 'a');
      {
        auto batch = writer->Batch();
        write(11, 'b');
        write(12, 'c');
        if (round % 3 == 0) harness.reader().Drain();
      }
      Packet packet = writer->NewPacket();
      AppendSized(packet, 120, 'd');
      if (round % 2 == 0) harness.reader().Drain();
      AppendSized(packet, 120, 'e');
      AppendSized(packet, 120, 'f');
      packet.Finish();
      ++written;
      expected.push_back(PacketBytes(120, 'd') + PacketBytes(120, 'e') +
                         PacketBytes(120, 'f'));
      harness.reader().Drain();
    }
  }
  EXPECT_GT(handled, 500u);
  EXPECT_EQ(harness.DrainAll(), expected);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  const WriterStats stats = writer->ReadStats();
  EXPECT_EQ(stats.attempted, written + handled);
  EXPECT_EQ(stats.lost, handled);
  EXPECT_EQ(LostBy(stats, LossCause::kWriterAbort), handled);
  ExpectBalanced(stats);
  EXPECT_EQ(harness.Loss(LossCause::kWriterAbort), handled);
}

// --- The end of the producer, and forked children ---

// At each access in turn the ring turns into private zeroes, as in the child
// handler of fork. From there on the writer is harmless and counts nothing.
TEST(WriterInterleavingTest, ForkAtEveryAccessIsHarmless) {
  const auto program = [](WriterHarness& harness,
                          internal::TraceWriterImpl& writer) {
    WriteSized(writer, 10, 'a');
    {
      auto batch = writer.Batch();
      WriteSized(writer, 10, 'b');
      harness.reader().Drain();
      WriteSized(writer, 10, 'c');
    }
    Packet packet = writer.NewPacket();
    Message message = packet.BeginMessage(5);
    message.AppendString(1, std::string(700, 'd'));
  };
  int accesses = 0;
  {
    WriterHarness harness(Shape(8));
    auto writer = harness.MakeWriter(1);
    HookScript count([&](SharedAccess, const void*) { ++accesses; });
    program(harness, *writer);
    writer->Release();
  }
  ASSERT_GT(accesses, 20);
  for (int at = 1; at <= accesses; ++at) {
    SCOPED_TRACE(at);
    WriterHarness harness(Shape(8));
    auto writer = harness.MakeWriter(1);
    int left = at;
    HookScript fork([&](SharedAccess, const void*) {
      if (--left != 0) return;
      harness.set_mode(RingMode::kClosed);
      std::memset(harness.image().base(), 0, harness.image().size());
    });
    program(harness, *writer);
    writer->Release();
    EXPECT_EQ(harness.ring().mode(), RingMode::kClosed);
    const WriterStats stats = writer->ReadStats();
    EXPECT_EQ(stats.lost, 0u);
    WriteSized(*writer, 10, 'z');
    EXPECT_EQ(writer->ReadStats().attempted, stats.attempted);
  }
}

}  // namespace
}  // namespace tracering::test
