// Runs a few parties in every order that their accesses to shared words allow,
// and lets a scenario judge each step.
//
// The parties are fibers of one thread. Each stands still before its next
// access to a shared word (the hook of SharedWord); one access, and what the
// party does by itself after it, is a step. After each execution the explorer
// starts the scenario afresh and takes the same steps up to one at which
// another party could have gone first, until there is no such order left.
//
// Orders that differ only in steps that do not touch the same word, or only
// read it, are the same to everybody, so that one of them is enough. Which
// others are needed is found from the races of the executions seen: dynamic
// partial-order reduction with source sets and sleep sets (Abdulla, Aronis,
// Jonsson, Sagonas 2014). A scenario too large for that gets a preemption
// bound instead: then each order that takes a party from its work no more often
// than that is walked, without any reduction.
//
// Steps are sequentially consistent, whatever memory order an access names, and
// fences are no steps. A futex wait is two of them: going to sleep, and going
// on. The kernel and the clock are replaced by virtual_os.cc: no execution
// makes a system call or takes time.
#ifndef TRACERING_TESTS_EXPLORE_EXPLORER_H_
#define TRACERING_TESTS_EXPLORE_EXPLORER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/common/sync/shared_word.h"
#include "tests/explore/fiber.h"

#ifndef TRACERING_SHARED_WORD_HOOK
#error "link the hooked libraries"
#endif

namespace tracering::test {

using internal::SharedAccess;

// What a scenario promises. Each is shown to be looked at by a mutant.
enum class Invariant {
  kLegalStep,    // each word is only changed as its owner may change it
  kReaderFrees,  // only the reader makes a chunk free
  kOwnership,    // bytes of a chunk are touched by their owner alone
  kFifo,         // by position, and so in order for each writer
  kNoDuplicate,  // nothing is delivered twice
  kIntact,       // what is delivered is what was written
  kAccounting,   // attempted = delivered + lost, and losses are told
  kWakeUp,       // nobody sleeps while there is something to do for it
  kTermination,  // every execution ends
};
const char* InvariantName(Invariant invariant);

// A word's name within a scenario, the same in every execution.
using WordId = uint32_t;

enum class StepKind : uint8_t {
  kLoad,
  kStore,
  kExchange,
  kCompareExchange,
  kFetchAdd,
  kFutexWait,  // looks at the word, and goes to sleep if it is unchanged
  kFutexWake,
  kFutexResume,   // goes on because it was woken
  kFutexTimeOut,  // goes on although it was not
  kSignal,        // writes the eventfd
  kAwaitSignal,   // goes on because the eventfd was written
  kRest,          // goes on because nobody else can
};

struct Step {
  int party = 0;
  StepKind kind = StepKind::kLoad;
  WordId word = 0;
  // Whether it left the word, and who sleeps on it, as they were.
  bool changed = false;
  uint64_t before = 0;
  uint64_t after = 0;
};

// The set of parties, of at most kMaxParties.
using PartySet = uint32_t;

class Scenario {
 public:
  virtual ~Scenario() = default;

  virtual int num_parties() const = 0;
  virtual std::string PartyName(int party) const = 0;
  // Brings everything back to the state in which an execution starts.
  virtual void Begin() = 0;
  // What the party does, on its fiber.
  virtual void Run(int party) = 0;

  virtual WordId IdOf(const void* word) const = 0;
  virtual std::string WordName(WordId word) const = 0;
  virtual size_t WordSize(WordId word) const = 0;
  // False for words that are not written in any execution, or by one party and
  // read by none: accesses are then not worth a step.
  virtual bool IsContended(WordId word) const = 0;

  // `party` is about to take its next step: what it did by itself since its
  // last one can be judged.
  virtual void BeforeStep(int party) = 0;
  virtual void AfterStep(const Step& step) = 0;

  // Nobody can go on. `asleep`: in a futex, waiting for a wake-up. The others
  // wait for the eventfd, and go on afterwards as if their period had passed.
  virtual void OnRest(PartySet asleep) = 0;
  // All parties have ended.
  virtual void End() = 0;

  // Names of what has happened so far, in any execution.
  virtual std::set<std::string_view> Reached() const { return {}; }
};

struct ExploreOptions {
  // Unset: all orders, reduced. Else: all orders with so many preemptions.
  std::optional<int> preemptions;
  // Whether a futex wait may end by its time-out, too.
  bool time_outs = false;
  // An execution of more steps does not end.
  size_t max_steps = 2000;
  // Executions after which the exploration gives up, incomplete.
  uint64_t max_executions = UINT64_MAX;
};

struct Violation {
  Invariant invariant = Invariant::kLegalStep;
  std::string what;
  // The steps that led there, one a line.
  std::string trace;
};

struct ExploreResult {
  uint64_t executions = 0;  // to the end
  uint64_t redundant = 0;   // found to repeat one halfway, and run to the end
  uint64_t steps = 0;
  size_t longest = 0;  // steps of an execution
  bool complete = false;
  std::optional<Violation> violation;
};

class Explorer {
 public:
  static constexpr int kMaxParties = 4;

  // One at a time exists; it owns the hooks of SharedWord.
  Explorer();
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  ExploreResult Explore(Scenario& scenario, const ExploreOptions& options);

  // --- For scenarios, while Explore runs ---

  // Notes what is wrong, the first time. The execution and the exploration end
  // at the next step at the latest.
  static void Fail(Invariant invariant, std::string what);
  static bool failed();

  // On a party's fiber: waits for the eventfd. False if instead everybody else
  // has come to rest.
  static bool AwaitSignal();

  // On a party's fiber: dies before its `nth` step from here, counted from 1.
  // Its stack is abandoned, and Scenario::Run is called for it again.
  static void DieBeforeStep(size_t nth);

  // --- For virtual_os.cc ---

  static Explorer* active();
  bool on_fiber() const { return current_ >= 0; }
  // Of the running party, or of everybody outside of an execution.
  int64_t NowNs() const;
  bool FutexWait(const void* word, uint32_t expected, int64_t timeout_ns);
  void FutexWake(const void* word, int count);
  void Signal();

 private:
  static constexpr size_t kNoEvent = SIZE_MAX;
  using Clock = std::array<uint32_t, kMaxParties>;

  enum class Wait : uint8_t { kNone, kFutex, kSignal };

  struct Party {
    Fiber fiber;
    bool finished = false;
    Wait wait = Wait::kNone;
    WordId futex = 0;
    bool woken = false;
    // The event that ended the wait.
    size_t enabled_by = kNoEvent;
    int64_t now_ns = 0;
    size_t steps = 0;
    size_t dies_before = SIZE_MAX;
  };
  // A step as the reduction sees it.
  struct Event {
    Step step;
    uint32_t number = 0;  // of the party's, from 1
    Clock clock{};        // of each party, how many happen before or at it
  };
  // The choice before the step of the same index.
  struct Node {
    int chosen = 0;
    // With a bound: who took the step before, whether it could go on, and how
    // often somebody who could was not let.
    int running = -1;
    bool runs_on = false;
    int preemptions = 0;
    PartySet enabled = 0;
    PartySet backtrack = 0;
    PartySet done = 0;
    PartySet sleeping = 0;
    // What the parties in `done` and `sleeping` do next.
    std::array<Step, kMaxParties> next{};
  };
  static void RunFiber();
  static void OnAccess(SharedAccess access, const void* word);
  static void OnAccessDone(SharedAccess access, const void* word);

  // An execution.
  void Execute();
  void StartParty(int party);
  int Decide();
  PartySet Enabled() const;
  void GoOn();
  bool BeginStep(WordId word);
  void EndStep(StepKind kind, WordId word, bool changed, uint64_t before,
               uint64_t after);

  // The search.
  bool MakeNode(PartySet enabled);
  void Record(const Step& step);
  void FindRaces(size_t index);
  void AddBacktrack(size_t racing, size_t index);
  bool NextOrder();
  std::string Trace() const;

  Scenario* scenario_ = nullptr;
  ExploreOptions options_;
  ExploreResult result_;

  ExecutionContext main_;
  std::vector<std::unique_ptr<Party>> parties_;
  int num_parties_ = 0;
  int current_ = -1;
  bool starting_ = false;
  // From here on everything was seen: the parties only need to come to an end.
  bool redundant_ = false;
  bool at_rest_ = false;
  bool signalled_ = false;
  bool died_ = false;  // the party that was running
  int64_t outside_now_ns_ = 0;
  size_t position_ = 0;  // steps taken in this execution
  // Of the access that is being made.
  bool stepping_ = false;
  uint64_t before_ = 0;

  std::vector<Event> events_;
  std::vector<Node> nodes_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_EXPLORER_H_
