// Which rings are explored; see configuration.h.
#include <chrono>
#include <iterator>
#include <utility>

#include "tests/explore/configuration.h"
#include "tests/explore/ring_scenario.h"

namespace tracering::test {
namespace {

// Two packets share a chunk, or three.
constexpr size_t kSmall = 10;
// One packet fills a chunk to the last byte, so that the next one needs
// another.
constexpr size_t kWhole = 237;
// One packet needs two chunks.
constexpr size_t kTwoChunks = 300;

using Script = std::function<void(WriterParty&)>;

Script Packets(size_t size, int times) {
  return [=](WriterParty& writer) { writer.Write(size, times); };
}
Script Batch(size_t size, int times) {
  return [=](WriterParty& writer) { writer.WriteBatch(size, times); };
}

std::function<std::unique_ptr<Scenario>()> Of(RingSetup setup) {
  return [setup = std::move(setup)] {
    return std::make_unique<RingScenario>(setup);
  };
}

RingSetup Ring(uint32_t num_chunks, int passes, std::vector<Script> writers) {
  RingSetup setup;
  setup.num_chunks = num_chunks;
  setup.passes = passes;
  setup.writers = std::move(writers);
  return setup;
}

RingSetup Sleeping(uint32_t num_chunks, uint32_t threshold,
                   std::vector<Script> writers) {
  RingSetup setup = Ring(num_chunks, 0, std::move(writers));
  setup.wakeup_threshold = threshold;
  return setup;
}

RingSetup Stalling(RingSetup setup) {
  setup.writer_options = {BufferExhaustedPolicy::kStall, std::chrono::hours(1)};
  return setup;
}

RingSetup Slices(int max_slices, RingSetup setup) {
  setup.max_slices = max_slices;
  return setup;
}

RingSetup At(uint32_t position, RingSetup setup) {
  setup.position = position;
  return setup;
}

class List {
 public:
  List& Add(std::string name, std::string what, RingSetup setup) {
    return Add(std::move(name), std::move(what), {Of(std::move(setup))});
  }
  List& Add(std::string name, std::string what,
            std::vector<std::function<std::unique_ptr<Scenario>()>> scenarios) {
    Configuration configuration;
    configuration.name = std::move(name);
    configuration.what = std::move(what);
    configuration.scenarios = std::move(scenarios);
    list_.push_back(std::move(configuration));
    return *this;
  }
  List& Long() {
    list_.back().is_long = true;
    return *this;
  }
  List& Preemptions(int bound) {
    list_.back().options.preemptions = bound;
    return *this;
  }
  List& TimeOuts() {
    list_.back().options.time_outs = true;
    return *this;
  }
  std::vector<Configuration> Take() { return std::move(list_); }

 private:
  std::vector<Configuration> list_;
};

// A reader that dies before any of its steps, and its successor.
std::vector<std::function<std::unique_ptr<Scenario>()>> Dying(
    const RingSetup& setup, size_t steps) {
  std::vector<std::function<std::unique_ptr<Scenario>()>> scenarios;
  for (size_t i = 1; i <= steps; ++i) {
    RingSetup dying = setup;
    dying.reader_dies_before = i;
    scenarios.push_back(Of(std::move(dying)));
  }
  return scenarios;
}

// The first writer stops for ever before any of its steps.
std::vector<std::function<std::unique_ptr<Scenario>()>> Stopping(
    const RingSetup& setup, size_t steps) {
  std::vector<std::function<std::unique_ptr<Scenario>()>> scenarios;
  for (size_t i = 1; i <= steps; ++i) {
    RingSetup stopping = setup;
    stopping.writer_dies_before = i;
    scenarios.push_back(Of(std::move(stopping)));
  }
  return scenarios;
}

}  // namespace

std::vector<std::string_view> RequiredSituations(bool with_long) {
  std::vector<std::string_view> situations(
      std::begin(RingScenario::kSituations),
      std::end(RingScenario::kSituations));
  if (with_long) {
    situations.insert(situations.end(),
                      std::begin(RingScenario::kLongSituations),
                      std::end(RingScenario::kLongSituations));
  }
  return situations;
}

std::vector<Configuration> RingConfigurations() {
  const auto split_and_one = [](WriterParty& writer) {
    writer.Write(kTwoChunks);
    writer.Write(kSmall);
  };
  const auto discard = [](WriterParty& writer) {
    writer.Write(kSmall);
    writer.Discard();
    writer.Write(kSmall);
  };
  const auto batch_over_chunks = [](WriterParty& writer) {
    writer.WriteBatch(kWhole / 2, 3);
  };
  List list;

  // --- One writer, two chunks ---
  list.Add("w1c2-publish", "one packet, three passes",
           Ring(2, 3, {Packets(kSmall, 1)}));
  list.Add("w1c2-reuse", "three packets in a cached chunk, two passes",
           Ring(2, 2, {Packets(kSmall, 3)}));
  list.Add("w1c2-retry-later",
           "five packets, and a reader that loses nine races",
           Ring(2, 1, {Packets(kSmall, 5)}));
  list.Add("w1c2-full", "four packets of a chunk each, two passes",
           Ring(2, 2, {Packets(kWhole, 4)}));
  list.Add("w1c2-batch", "a batch of three, three passes",
           Ring(2, 3, {Batch(kSmall, 3)}));
  list.Add("w1c2-batch-chunks", "a batch over two chunks, two passes",
           Ring(2, 2, {batch_over_chunks}));
  list.Add("w1c2-split", "a packet over two chunks, and one more, two passes",
           Ring(2, 2, {split_and_one}));
  list.Add("w1c2-discard", "packets and one that is given up, two passes",
           Ring(2, 2, {discard}));
  list.Add("w1c2-rollover", "across position 2^32, two passes",
           At(0xffff'fffe, Ring(2, 2, {Packets(kWhole, 4)})));
  list.Add("w1c2-sleep",
           "two packets, the reader sleeps and takes three slices",
           Slices(3, Sleeping(2, 1, {Packets(kWhole, 2)})));
  list.Add("w1c2-sleep-more", "three packets, four slices, woken by two chunks",
           Slices(4, Sleeping(2, 2, {Packets(kWhole, 3)})))
      .Long();
  list.Add("w1c2-sleep-prompt", "three packets, the reader is woken by each",
           Sleeping(2, 1, {Packets(kWhole, 3)}))
      .Preemptions(3);
  list.Add("w1c2-sleep-half", "three, the reader is woken by two chunks",
           Sleeping(2, 2, {Packets(kWhole, 3)}))
      .Preemptions(3);
  list.Add("w1c2-wait",
           "three packets, stalling; signalled, the reader takes two", [] {
             RingSetup setup = Stalling(Ring(2, 1, {Packets(kWhole, 3)}));
             setup.awaits_signal = true;
             setup.wakeup_threshold = 2;
             return setup;
           }());
  // Without a bound a writer can lose its claims for ever.
  list.Add("w1c2-stall", "four packets of a chunk each, stalling",
           Stalling(Sleeping(2, 2, {Packets(kWhole, 4)})))
      .Preemptions(3);
  list.Add("w1c2-stall-prompt", "the same, the reader is woken by each",
           Stalling(Sleeping(2, 1, {Packets(kWhole, 3)})))
      .Preemptions(3);
  list.Add("w1c2-timeout", "stalling, with a deadline of two slices, one pass",
           [] {
             RingSetup setup = Ring(2, 1, {Packets(kWhole, 4)});
             setup.writer_options = {BufferExhaustedPolicy::kStall,
                                     std::chrono::milliseconds(15)};
             return setup;
           }())
      .TimeOuts();
  list.Add("w1c2-restart", "the reader dies before any of its steps",
           Dying(Ring(2, 2, {Packets(kWhole, 2)}), 20));
  list.Add("w1c2-restart-reuse", "the same, with packets that share a chunk",
           Dying(Ring(2, 2, {Packets(kSmall, 2)}), 20));

  list.Add("w1c2-death", "the writer dies before any of its steps",
           Stopping(Ring(2, 2, {Packets(kSmall, 2)}), 16));
  list.Add("w1c2-death-split", "the same, with a packet over two chunks",
           Stopping(Ring(2, 2, {split_and_one}), 24));

  // --- One writer, four chunks ---
  list.Add("w1c4-full", "six packets of a chunk each, two passes",
           Ring(4, 2, {Packets(kWhole, 6)}));
  list.Add("w1c4-split", "packets over two chunks, two passes",
           Ring(4, 2, {Packets(kTwoChunks, 2)}));
  list.Add("w1c4-sleep", "five packets, the reader is woken at two chunks",
           Sleeping(4, 2, {Packets(kWhole, 5)}))
      .Preemptions(3)
      .Long();

  // --- One writer, sixteen chunks: read_pos is published every other position,
  // and positions roll over before wrap counts do ---
  list.Add("w1c16-rollover", "across position 2^32, two passes",
           At(0xffff'ffef, Ring(16, 2, {Packets(kWhole, 2)})));
  list.Add("w1c16-restart", "the reader dies before any of its steps",
           Dying(Ring(16, 2, {Packets(kWhole, 2)}), 20));

  // --- Two writers ---
  list.Add("w2c2-publish", "a packet each, one pass",
           Ring(2, 1, {Packets(kSmall, 1), Packets(kSmall, 1)}));
  list.Add("w2c2-full", "two packets of a chunk each, one pass",
           Ring(2, 1, {Packets(kWhole, 2), Packets(kWhole, 2)}));
  list.Add("w2c2-batch", "a batch each, one pass",
           Ring(2, 1, {Batch(kSmall, 2), Batch(kSmall, 2)}));
  list.Add("w2c2-split", "a packet over two chunks and one, and another's",
           Ring(2, 1, {split_and_one, Packets(kSmall, 1)}));
  list.Add("w2c2-both", "three small and three large packets, two passes",
           Ring(2, 2, {Packets(kSmall, 3), Packets(kWhole, 3)}))
      .Preemptions(3);
  list.Add("w2c4-both", "the same on four chunks",
           Ring(4, 2, {Packets(kSmall, 3), Packets(kWhole, 3)}))
      .Preemptions(3);
  list.Add("w2c2-sleep", "a packet each, the reader sleeps",
           Sleeping(2, 1, {Packets(kSmall, 1), Packets(kSmall, 1)}))
      .Preemptions(3);
  list.Add("w2c2-stall", "two packets of a chunk each, stalling",
           Stalling(Sleeping(2, 2, {Packets(kWhole, 2), Packets(kWhole, 2)})))
      .Preemptions(2);

  list.Add("w2c16-restart", "a packet each, the reader dies",
           Dying(Ring(16, 1, {Packets(kSmall, 1), Packets(kSmall, 1)}), 12))
      .Preemptions(2);

  // --- Three writers ---
  list.Add("w3c2-publish", "a packet each, two passes",
           Ring(2, 2,
                {Packets(kSmall, 1), Packets(kSmall, 1), Packets(kSmall, 1)}))
      .Preemptions(3);
  list.Add("w3c4-publish", "two packets each, one pass",
           Ring(4, 1,
                {Packets(kSmall, 2), Packets(kWhole, 2), Packets(kSmall, 2)}))
      .Preemptions(2);

  // --- More of the same ---
  list.Add("w1c2-reuse-more", "four packets in a cached chunk, three passes",
           Ring(2, 3, {Packets(kSmall, 4)}))
      .Long();
  list.Add("w1c2-full-more", "five packets of a chunk each, three passes",
           Ring(2, 3, {Packets(kWhole, 5)}))
      .Long();
  list.Add("w1c2-restart-more", "the reader dies, three packets",
           Dying(Ring(2, 2, {Packets(kWhole, 3)}), 20))
      .Long();
  list.Add("w1c2-sleep-prompt-more", "three packets, woken by each",
           Sleeping(2, 1, {Packets(kWhole, 3)}))
      .Preemptions(4)
      .Long();
  list.Add("w1c2-stall-more", "four packets of a chunk each, stalling",
           Stalling(Sleeping(2, 2, {Packets(kWhole, 4)})))
      .Preemptions(4)
      .Long();
  list.Add("w2c2-publish-more", "a packet each, two passes",
           Ring(2, 2, {Packets(kSmall, 1), Packets(kSmall, 1)}))
      .Long();
  list.Add("w2c2-reuse-more", "two packets each, one pass",
           Ring(2, 1, {Packets(kSmall, 2), Packets(kSmall, 2)}))
      .Long();
  list.Add("w2c2-both-more", "three small and three large packets, two passes",
           Ring(2, 2, {Packets(kSmall, 3), Packets(kWhole, 3)}))
      .Preemptions(4)
      .Long();
  list.Add("w2c2-stall-more", "two packets of a chunk each, stalling",
           Stalling(Sleeping(2, 2, {Packets(kWhole, 2), Packets(kWhole, 2)})))
      .Preemptions(3)
      .Long();
  list.Add("w2c2-restart", "a packet each, the reader dies",
           Dying(Ring(2, 1, {Packets(kSmall, 1), Packets(kSmall, 1)}), 12))
      .Long();
  list.Add("w1c2-restart-split", "the reader dies, packets over two chunks",
           Dying(Ring(2, 2, {Packets(kTwoChunks, 2)}), 24))
      .Long();
  list.Add("w1c2-restart-batch", "the reader dies, a batch over two chunks",
           Dying(Ring(2, 2, {batch_over_chunks}), 24))
      .Long();
  list.Add("w2c4-restart-split", "the reader dies, packets over two chunks",
           Dying(Ring(4, 2, {split_and_one, Packets(kTwoChunks, 1)}), 24))
      .Preemptions(3)
      .Long();
  list.Add("w1c2-death-batch", "a writer dies, a batch over two chunks",
           Stopping(Ring(2, 2, {batch_over_chunks}), 24))
      .Long();
  list.Add("w2c2-death", "one of two writers dies, one pass",
           Stopping(Ring(2, 1, {Packets(kSmall, 2), Packets(kSmall, 1)}), 16))
      .Long();
  list.Add("w2c2-death-split", "one dies inside its packets, two passes",
           Stopping(Ring(2, 2, {split_and_one, Packets(kWhole, 2)}), 24))
      .Preemptions(3)
      .Long();
  list.Add("w3c4-death", "one of three dies, one pass",
           Stopping(Ring(4, 1,
                         {Packets(kTwoChunks, 1), Packets(kSmall, 2),
                          Packets(kWhole, 1)}),
                    24))
      .Preemptions(2)
      .Long();
  list.Add("w2c4-publish", "a packet each, one pass",
           Ring(4, 1, {Packets(kSmall, 1), Packets(kSmall, 1)}))
      .Long();
  list.Add("w3c2-publish-more", "a packet each, two passes",
           Ring(2, 2,
                {Packets(kSmall, 1), Packets(kSmall, 1), Packets(kSmall, 1)}))
      .Preemptions(4)
      .Long();
  list.Add("w3c4-publish-more", "two packets each, one pass",
           Ring(4, 1,
                {Packets(kSmall, 2), Packets(kWhole, 2), Packets(kSmall, 2)}))
      .Preemptions(3)
      .Long();
  return list.Take();
}

}  // namespace tracering::test
