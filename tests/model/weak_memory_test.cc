// The hand-overs of docs/memory-model.md under C++'s memory model, by a checker
// that knows it (Relacy): every interleaving, every value that a load may see.
//
// These are models, written again in the checker's atomics: what they show is
// that the orders of the tables are enough for these hand-overs, and which of
// them are needed. That the code has these orders is for the reader of the
// tables to see. Each model is small, and bounded: one chunk, two traversals.
// Not modelled: what rests on a fence and seq_cst operations together, which
// the checker does not relate (a stall), and the profile buffer, which is
// seq_cst throughout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <ostream>
#include <relacy/relacy.hpp>
#include <string>
#include <vector>

// Defined by the checker, for code under test that allocates.
#undef delete
#undef new

namespace {

using rl::mo_acq_rel;
using rl::mo_acquire;
using rl::mo_relaxed;
using rl::mo_release;
using rl::mo_seq_cst;
using testing::UnorderedElementsAre;

// Whether the checker has nothing to say, having searched everything.
template <typename Model>
bool Holds() {
  std::ostream nowhere(nullptr);
  rl::test_params params;
  params.search_type = rl::sched_full;
  params.output_stream = &nowhere;
  params.progress_stream = &nowhere;
  const bool holds = rl::simulate<Model>(params);
  if (holds) printf("%lu executions\n", params.stop_iteration);
  return holds;
}

// An order of a model, by name, and what it is weakened to.
template <typename Orders>
struct Weaker {
  const char* name;
  rl::memory_order Orders::*order;
  rl::memory_order to;
};

// The names of those without which the checker finds nothing.
template <typename Model, typename Orders>
std::vector<std::string> FoundWithout(
    const std::vector<Weaker<Orders>>& weaker) {
  std::vector<std::string> found;
  for (const Weaker<Orders>& one : weaker) {
    Model::orders = Orders();
    Model::orders.*one.order = one.to;
    if (!Holds<Model>()) found.emplace_back(one.name);
  }
  Model::orders = Orders();
  return found;
}

// --- The state word of a chunk ---

struct StateOrders {
  rl::memory_order load = mo_acquire;
  rl::memory_order claim = mo_acquire;
  rl::memory_order publish = mo_release;
  rl::memory_order publish_failure = mo_acquire;
  rl::memory_order reuse = mo_relaxed;
  rl::memory_order acknowledge = mo_release;
  rl::memory_order advance = mo_release;
  rl::memory_order advance_failure = mo_acquire;
  rl::memory_order request = mo_release;
  rl::memory_order request_failure = mo_acquire;
  rl::memory_order reclaim = mo_release;
  rl::memory_order reclaim_failure = mo_acquire;
  rl::memory_order reclaim_acknowledged = mo_acq_rel;
};

// A writer publishes a fragment, reuses the chunk for a second one, and
// acknowledges where it must; the reader copies, takes, and comes back once;
// a second writer claims the chunk for the next traversal and writes all of it.
// An access to the payload that is not ordered is a race to the checker.
struct StateModel : rl::test_suite<StateModel, 3> {
  static StateOrders orders;

  enum Phase : uint32_t {
    kFree,
    kAcquired,
    kComplete,
    kRewriteRequested,
    kAcknowledged,
    kNextFree,
    kNextAcquired,
  };
  static uint32_t Word(Phase phase, uint32_t fragments = 0) {
    return phase * 16 + fragments;
  }
  static Phase PhaseOf(uint32_t word) { return static_cast<Phase>(word / 16); }

  rl::atomic<uint32_t> state;
  rl::var<uint32_t> payload[2];

  void before() {
    state.store(Word(kFree), mo_relaxed, RL_INFO);
    payload[0](RL_INFO) = 0;
    payload[1](RL_INFO) = 0;
  }

  // The checker is older than P0418, and knows no failure that is stronger than
  // the success: a fence behind the failure says the same.
  bool Cas(uint32_t* expected, uint32_t desired, rl::memory_order success,
           rl::memory_order failure) {
    const bool done = state.compare_exchange_strong(
        *expected, desired, success, RL_INFO, mo_relaxed, RL_INFO);
    if (!done && failure == mo_acquire) {
      rl::atomic_thread_fence(mo_acquire, RL_INFO);
    }
    return done;
  }

  void thread(unsigned index) {
    if (index == 0) Writer();
    if (index == 1) Reader();
    if (index == 2) NextWriter();
  }

  void Writer() {
    uint32_t word = Word(kFree);
    if (!Cas(&word, Word(kAcquired), orders.claim, mo_relaxed)) return;
    if (!Publish(0)) return;
    word = Word(kComplete, 1);
    if (!Cas(&word, Word(kAcquired, 1), orders.reuse, mo_relaxed)) return;
    Publish(1);
  }
  bool Publish(uint32_t fragment) {
    payload[fragment](RL_INFO) = fragment + 1;
    uint32_t word = Word(kAcquired, fragment);
    if (Cas(&word, Word(kComplete, fragment + 1), orders.publish,
            orders.publish_failure)) {
      return true;
    }
    RL_ASSERT(word == Word(kRewriteRequested, fragment));
    // The suffix moves to another chunk.
    const uint32_t moved = payload[fragment](RL_INFO);
    RL_ASSERT(moved == fragment + 1);
    const bool acknowledged =
        Cas(&word, Word(kAcknowledged), orders.acknowledge, mo_relaxed);
    RL_ASSERT(acknowledged);
    return false;
  }

  void Copy(uint32_t fragments) {
    for (uint32_t i = 0; i < fragments; ++i) {
      const uint32_t copied = payload[i](RL_INFO);
      RL_ASSERT(copied == i + 1);
    }
  }
  void Reader() {
    uint32_t word = state.load(orders.load, RL_INFO);
    // A failure means that the writer went on, which it does four times at
    // most.
    for (;;) {
      const uint32_t fragments = word % 16;
      if (PhaseOf(word) == kFree) {
        if (Cas(&word, Word(kNextFree), orders.advance,
                orders.advance_failure)) {
          return;
        }
      } else if (PhaseOf(word) == kComplete) {
        Copy(fragments);
        if (Cas(&word, Word(kNextFree), orders.reclaim,
                orders.reclaim_failure)) {
          return;
        }
      } else {
        RL_ASSERT(PhaseOf(word) == kAcquired);
        Copy(fragments);
        if (Cas(&word, Word(kRewriteRequested, fragments), orders.request,
                orders.request_failure)) {
          break;
        }
      }
    }
    // The next time around.
    word = state.load(orders.load, RL_INFO);
    if (PhaseOf(word) == kAcknowledged) {
      const bool reclaimed =
          Cas(&word, Word(kNextFree), orders.reclaim_acknowledged, mo_relaxed);
      RL_ASSERT(reclaimed);
    }
  }

  void NextWriter() {
    uint32_t word = Word(kNextFree);
    if (!Cas(&word, Word(kNextAcquired), orders.claim, mo_relaxed)) return;
    payload[0](RL_INFO) = 7;
    payload[1](RL_INFO) = 7;
  }
};
StateOrders StateModel::orders;

TEST(WeakMemoryTest, OrdersOfTheStateWordAreEnough) {
  EXPECT_TRUE(Holds<StateModel>());
}

// Without the others nothing is found: docs/memory-model.md says why.
TEST(WeakMemoryTest, OrdersOfTheStateWordAreNeeded) {
  using W = Weaker<StateOrders>;
  const std::vector<W> weaker = {
      {"load", &StateOrders::load, mo_relaxed},
      {"claim", &StateOrders::claim, mo_relaxed},
      {"publish", &StateOrders::publish, mo_relaxed},
      {"publish failure", &StateOrders::publish_failure, mo_relaxed},
      {"acknowledge", &StateOrders::acknowledge, mo_relaxed},
      {"advance", &StateOrders::advance, mo_relaxed},
      {"advance failure", &StateOrders::advance_failure, mo_relaxed},
      {"request", &StateOrders::request, mo_relaxed},
      {"request failure", &StateOrders::request_failure, mo_relaxed},
      {"reclaim", &StateOrders::reclaim, mo_relaxed},
      {"reclaim failure", &StateOrders::reclaim_failure, mo_relaxed},
      {"reclaim acknowledged: acquire", &StateOrders::reclaim_acknowledged,
       mo_release},
      {"reclaim acknowledged: release", &StateOrders::reclaim_acknowledged,
       mo_acquire},
  };
  EXPECT_THAT(FoundWithout<StateModel>(weaker),
              UnorderedElementsAre("load", "claim", "publish", "acknowledge",
                                   "advance failure", "request failure",
                                   "reclaim", "reclaim failure"));
}

// --- The cursors ---

struct CursorOrders {
  rl::memory_order publish_read_pos = mo_release;
  rl::memory_order load_read_pos = mo_acquire;
};

// A writer that looks at read_pos, then at write_pos, while another one
// reserves and the reader follows.
struct CursorModel : rl::test_suite<CursorModel, 3> {
  static CursorOrders orders;

  rl::atomic<uint32_t> write_pos;
  rl::atomic<uint32_t> read_pos;

  void before() {
    write_pos.store(0, mo_relaxed, RL_INFO);
    read_pos.store(0, mo_relaxed, RL_INFO);
  }
  void thread(unsigned index) {
    if (index == 0) {
      write_pos.fetch_add(1, mo_seq_cst, RL_INFO);
    } else if (index == 1) {
      const uint32_t end = write_pos.load(mo_relaxed, RL_INFO);
      read_pos.store(end, orders.publish_read_pos, RL_INFO);
    } else {
      const uint32_t read = read_pos.load(orders.load_read_pos, RL_INFO);
      const uint32_t written = write_pos.load(mo_relaxed, RL_INFO);
      RL_ASSERT(written >= read);  // the distance is not negative
    }
  }
};
CursorOrders CursorModel::orders;

TEST(WeakMemoryTest, OrdersOfTheCursorsAreEnoughAndNeeded) {
  EXPECT_TRUE(Holds<CursorModel>());
  const std::vector<Weaker<CursorOrders>> weaker = {
      {"publish", &CursorOrders::publish_read_pos, mo_relaxed},
      {"load", &CursorOrders::load_read_pos, mo_relaxed},
  };
  EXPECT_THAT(FoundWithout<CursorModel>(weaker),
              UnorderedElementsAre("publish", "load"));
}

// --- Waking the reader ---

struct WakeOrders {
  rl::memory_order reserve = mo_seq_cst;
  rl::memory_order look = mo_seq_cst;
  rl::memory_order arm = mo_seq_cst;
  rl::memory_order outstanding = mo_seq_cst;
};

// Two writers, each of which may be the one that reaches the threshold of 2,
// and a reader that goes to sleep.
struct WakeModel : rl::test_suite<WakeModel, 3> {
  static WakeOrders orders;
  static constexpr uint32_t kThreshold = 2;

  rl::atomic<uint32_t> write_pos;
  rl::atomic<uint32_t> armed;
  rl::atomic<uint32_t> signals;  // of the eventfd
  bool sleeps;

  void before() {
    write_pos.store(0, mo_relaxed, RL_INFO);
    armed.store(0, mo_relaxed, RL_INFO);
    signals.store(0, mo_relaxed, RL_INFO);
    sleeps = false;
  }
  void thread(unsigned index) {
    if (index < 2) {
      const uint32_t position = write_pos.fetch_add(1, orders.reserve, RL_INFO);
      if (position + 1 >= kThreshold && armed.load(orders.look, RL_INFO) != 0 &&
          armed.exchange(0, mo_seq_cst, RL_INFO) != 0) {
        signals.fetch_add(1, mo_relaxed, RL_INFO);
      }
    } else {
      armed.store(1, orders.arm, RL_INFO);
      sleeps = write_pos.load(orders.outstanding, RL_INFO) < kThreshold;
    }
  }
  void after() { RL_ASSERT(!sleeps || signals.load(mo_relaxed, RL_INFO) == 1); }
};
WakeOrders WakeModel::orders;

TEST(WeakMemoryTest, OrdersOfTheWakeUpAreEnoughAndNeeded) {
  EXPECT_TRUE(Holds<WakeModel>());
  const std::vector<Weaker<WakeOrders>> weaker = {
      {"reserve", &WakeOrders::reserve, mo_acq_rel},
      {"look", &WakeOrders::look, mo_acquire},
      {"arm", &WakeOrders::arm, mo_release},
      {"outstanding", &WakeOrders::outstanding, mo_acquire},
  };
  EXPECT_THAT(FoundWithout<WakeModel>(weaker),
              UnorderedElementsAre("reserve", "look", "arm", "outstanding"));
}

}  // namespace
