// The explorer itself: that the reduction leaves out no outcome, that it leaves
// out what is the same, and that each way to be stuck is noticed.
#include "tests/explore/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/common/os/eventfd.h"
#include "src/common/os/futex.h"

namespace tracering::test {
namespace {

using internal::SharedWord;

constexpr auto kOrder = std::memory_order_seq_cst;

// Parties over a few words of their own, and what they have seen.
class Toy : public Scenario {
 public:
  using Word = SharedWord<uint32_t>;
  using Body = std::function<void(Toy&, int party)>;

  explicit Toy(std::vector<Body> bodies) : bodies_(std::move(bodies)) {}

  Word& word(size_t i) { return *reinterpret_cast<Word*>(&memory_[i]); }
  void Note(int party, uint32_t value) {
    seen_[static_cast<size_t>(party)] += std::to_string(value) + " ";
  }
  const std::set<std::string>& outcomes() const { return outcomes_; }
  void DieOnce(size_t before_step) { dies_before_ = before_step; }

  int num_parties() const override { return static_cast<int>(bodies_.size()); }
  std::string PartyName(int party) const override {
    return std::to_string(party);
  }
  void Begin() override {
    for (uint64_t& word : memory_) word = 0;
    seen_.assign(bodies_.size(), "");
    died_ = false;
  }
  void Run(int party) override {
    if (party == 0 && dies_before_ != 0 && !std::exchange(died_, true)) {
      Explorer::DieBeforeStep(dies_before_);
    }
    bodies_[static_cast<size_t>(party)](*this, party);
  }
  WordId IdOf(const void* word) const override {
    return static_cast<WordId>(static_cast<const uint64_t*>(word) - memory_);
  }
  std::string WordName(WordId word) const override {
    return std::to_string(word);
  }
  size_t WordSize(WordId) const override { return sizeof(uint32_t); }
  bool IsContended(WordId) const override { return true; }
  void BeforeStep(int) override {}
  void AfterStep(const Step&) override {}
  void OnRest(PartySet) override {}
  void End() override {
    std::string outcome;
    for (const uint64_t word : memory_) outcome += std::to_string(word) + " ";
    for (const std::string& seen : seen_) outcome += "| " + seen;
    outcomes_.insert(outcome);
  }

 private:
  const std::vector<Body> bodies_;
  alignas(64) uint64_t memory_[3] = {};
  std::vector<std::string> seen_;
  std::set<std::string> outcomes_;
  size_t dies_before_ = 0;
  bool died_ = false;
};

ExploreResult Explore(Toy& toy, const ExploreOptions& options = {}) {
  Explorer explorer;
  return explorer.Explore(toy, options);
}

void Add(Toy& toy, int) { (void)toy.word(0).FetchAdd(1, kOrder); }

TEST(ExplorerTest, OrdersOfOneWordAreAllWalked) {
  Toy toy({Add, Add, Add});
  const ExploreResult result = Explore(toy);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.executions, 6u);
  EXPECT_EQ(toy.outcomes().size(), 1u);
}

TEST(ExplorerTest, OrdersOfDifferentWordsAndOfReadsAreOne) {
  const auto on_its_own = [](Toy& toy, int party) {
    toy.word(static_cast<size_t>(party)).Store(1, kOrder);
    toy.Note(party, toy.word(2).Load(kOrder));
  };
  Toy toy({on_its_own, on_its_own});
  const ExploreResult result = Explore(toy);
  EXPECT_EQ(result.executions, 1u);
  EXPECT_EQ(result.redundant, 0u);
}

TEST(ExplorerTest, PreemptionsAreCounted) {
  const auto twice = [](Toy& toy, int party) {
    Add(toy, party);
    Add(toy, party);
  };
  // Of the six orders two have no preemption, four at most one.
  const std::pair<int, uint64_t> expected[] = {{0, 2}, {1, 4}, {2, 6}, {3, 6}};
  for (const auto& [bound, executions] : expected) {
    Toy toy({twice, twice});
    ExploreOptions options;
    options.preemptions = bound;
    EXPECT_EQ(Explore(toy, options).executions, executions) << bound;
  }
}

// Random little programs: what may come of them is the same with and without
// the reduction, and the reduction is one.
TEST(ExplorerTest, ReductionLosesNoOutcome) {
  std::mt19937 random(1);
  uint64_t all_orders = 0;
  uint64_t reduced_orders = 0;
  for (int round = 0; round < 300; ++round) {
    struct Op {
      uint32_t kind;
      size_t word;
      uint32_t value;
    };
    std::vector<Toy::Body> bodies;
    const int parties = 2 + static_cast<int>(random() % 2);
    for (int i = 0; i < parties; ++i) {
      std::vector<Op> ops(parties == 2 ? 4 : 2 + random() % 2);
      for (Op& op : ops) {
        op = {static_cast<uint32_t>(random() % 5), random() % 2,
              static_cast<uint32_t>(random() % 2 + 1)};
      }
      bodies.push_back([ops](Toy& toy, int party) {
        for (const Op& op : ops) {
          Toy::Word& word = toy.word(op.word);
          uint32_t expected = op.value - 1;
          switch (op.kind) {
            case 0:
              toy.Note(party, word.Load(kOrder));
              break;
            case 1:
              word.Store(op.value, kOrder);
              break;
            case 2:
              toy.Note(party, word.Exchange(op.value, kOrder));
              break;
            case 3:
              toy.Note(party, word.CompareExchange(expected, op.value, kOrder,
                                                   kOrder));
              break;
            default:
              // What comes next may depend on what was seen.
              if (word.Load(kOrder) == op.value) {
                (void)toy.word(1 - op.word).FetchAdd(1, kOrder);
              }
              break;
          }
        }
      });
    }
    Toy all(bodies);
    Toy reduced(bodies);
    ExploreOptions every_order;
    every_order.preemptions = 1000;
    all_orders += Explore(all, every_order).executions;
    const ExploreResult result = Explore(reduced);
    reduced_orders += result.executions;
    ASSERT_TRUE(result.complete);
    ASSERT_EQ(all.outcomes(), reduced.outcomes()) << "round " << round;
  }
  EXPECT_LT(reduced_orders * 3, all_orders);
}

// --- Waiting ---

TEST(ExplorerTest, WaiterThatNobodyWakesIsNoticed) {
  const auto wait = [](Toy& toy, int) {
    (void)os::FutexWait(&toy.word(0), 0, std::chrono::seconds(1));
  };
  Toy toy({wait, [](Toy& other, int) { other.word(0).Store(1, kOrder); }});
  const ExploreResult result = Explore(toy);
  ASSERT_TRUE(result.violation.has_value());
  EXPECT_EQ(result.violation->invariant, Invariant::kWakeUp);
  EXPECT_THAT(result.violation->trace, testing::HasSubstr("futex wait"));
}

TEST(ExplorerTest, WaiterIsWokenOrDoesNotSleep) {
  Toy toy({[](Toy& self, int party) {
             self.Note(party, os::FutexWait(&self.word(0), 0,
                                            std::chrono::seconds(1)) ==
                                  os::FutexWaitOutcome::kWoken);
           },
           [](Toy& self, int) {
             self.word(0).Store(1, kOrder);
             os::FutexWake(&self.word(0), 1);
           }});
  const ExploreResult result = Explore(toy);
  EXPECT_FALSE(result.violation.has_value());
  EXPECT_GE(result.executions, 2u);
}

TEST(ExplorerTest, TimeOutsAreWalkedIfTheyMayCome) {
  const auto wait = [](Toy& self, int party) {
    self.Note(party, os::FutexWait(&self.word(0), 0, std::chrono::seconds(1)) ==
                         os::FutexWaitOutcome::kWoken);
  };
  Toy toy({wait, [](Toy& self, int) { os::FutexWake(&self.word(0), 1); }});
  ExploreOptions options;
  options.time_outs = true;
  EXPECT_FALSE(Explore(toy, options).violation.has_value());
  EXPECT_THAT(toy.outcomes(),
              testing::UnorderedElementsAre("0 0 0 | 0 | ", "0 0 0 | 1 | "));
}

TEST(ExplorerTest, SignalIsSeenOrRestIs) {
  const auto await = [](Toy& self, int party) {
    self.Note(party, Explorer::AwaitSignal());
  };
  Toy signalled({await, [](Toy&, int) { os::SignalEventFd(1); }});
  EXPECT_FALSE(Explore(signalled).violation.has_value());
  EXPECT_THAT(signalled.outcomes(), testing::ElementsAre("0 0 0 | 1 | "));
  Toy alone({await});
  EXPECT_FALSE(Explore(alone).violation.has_value());
  EXPECT_THAT(alone.outcomes(), testing::ElementsAre("0 0 0 | 0 "));
}

TEST(ExplorerTest, EndlessExecutionIsNoticed) {
  const auto spin = [](Toy& self, int) {
    while (self.word(0).Load(kOrder) == 0) {
    }
  };
  Toy toy({spin});
  const ExploreResult result = Explore(toy);
  ASSERT_TRUE(result.violation.has_value());
  EXPECT_EQ(result.violation->invariant, Invariant::kTermination);
}

TEST(ExplorerTest, PartyThatDiesIsRunAgain) {
  const auto body = [](Toy& self, int) {
    (void)self.word(0).FetchAdd(1, kOrder);
    (void)self.word(1).FetchAdd(1, kOrder);
  };
  for (const size_t before : {size_t{1}, size_t{2}, size_t{3}}) {
    Toy toy({body});
    toy.DieOnce(before);
    EXPECT_EQ(Explore(toy).executions, 1u);
    const char* const expected[] = {"1 1 0 | ", "2 1 0 | ", "1 1 0 | "};
    EXPECT_THAT(toy.outcomes(), testing::ElementsAre(expected[before - 1]));
  }
}

}  // namespace
}  // namespace tracering::test
