// Executions and the search over their orders; see explorer.h.
#include "tests/explore/explorer.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/support/require.h"

namespace tracering::test {
namespace {

// No scenario's.
constexpr WordId kEventFd = UINT32_MAX;

Explorer* active_explorer = nullptr;

constexpr PartySet SetOf(int party) { return PartySet{1} << party; }

int FirstOf(PartySet set) { return __builtin_ctz(set); }

uint64_t ValueOf(const void* word, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, word, size);
  return value;
}

StepKind KindOf(SharedAccess access) {
  switch (access) {
    case SharedAccess::kLoad:
      return StepKind::kLoad;
    case SharedAccess::kStore:
      return StepKind::kStore;
    case SharedAccess::kExchange:
      return StepKind::kExchange;
    case SharedAccess::kCompareExchange:
      return StepKind::kCompareExchange;
    case SharedAccess::kFetchAdd:
      return StepKind::kFetchAdd;
    case SharedAccess::kFence:
    case SharedAccess::kFutexWait:
    case SharedAccess::kFutexWake:
      break;
  }
  Require(false, "an access that is no step");
  return StepKind::kLoad;
}

const char* KindName(StepKind kind) {
  switch (kind) {
    case StepKind::kLoad:
      return "load";
    case StepKind::kStore:
      return "store";
    case StepKind::kExchange:
      return "exchange";
    case StepKind::kCompareExchange:
      return "compare-exchange";
    case StepKind::kFetchAdd:
      return "add";
    case StepKind::kFutexWait:
      return "futex wait";
    case StepKind::kFutexWake:
      return "futex wake";
    case StepKind::kFutexResume:
      return "woken";
    case StepKind::kFutexTimeOut:
      return "timed out";
    case StepKind::kSignal:
      return "signal";
    case StepKind::kAwaitSignal:
      return "signalled";
    case StepKind::kRest:
      return "at rest";
  }
  return "?";
}

// Whether two steps of different parties are the same to everybody in either
// order. One that left its word alone has only read it: so does a
// compare-exchange that failed.
bool AreIndependent(const Step& a, const Step& b) {
  if (a.kind == StepKind::kRest || b.kind == StepKind::kRest) return false;
  return a.word != b.word || (!a.changed && !b.changed);
}

}  // namespace

const char* InvariantName(Invariant invariant) {
  switch (invariant) {
    case Invariant::kLegalStep:
      return "legal-step";
    case Invariant::kReaderFrees:
      return "only-the-reader-frees";
    case Invariant::kOwnership:
      return "ownership";
    case Invariant::kFifo:
      return "fifo";
    case Invariant::kNoDuplicate:
      return "no-duplicate";
    case Invariant::kIntact:
      return "intact";
    case Invariant::kAccounting:
      return "accounting";
    case Invariant::kWakeUp:
      return "wake-up";
    case Invariant::kTermination:
      return "termination";
  }
  return "?";
}

Explorer::Explorer() {
  Require(active_explorer == nullptr, "one explorer at a time");
  active_explorer = this;
  for (int i = 0; i < kMaxParties; ++i) {
    parties_.push_back(std::make_unique<Party>());
  }
  internal::shared_word_hook.store(&OnAccess);
  internal::shared_word_done_hook.store(&OnAccessDone);
}

Explorer::~Explorer() {
  internal::shared_word_hook.store(nullptr);
  internal::shared_word_done_hook.store(nullptr);
  active_explorer = nullptr;
}

Explorer* Explorer::active() { return active_explorer; }

ExploreResult Explorer::Explore(Scenario& scenario,
                                const ExploreOptions& options) {
  scenario_ = &scenario;
  options_ = options;
  result_ = {};
  num_parties_ = scenario.num_parties();
  Require(num_parties_ <= kMaxParties, "parties of a scenario");
  events_.clear();
  nodes_.clear();
  do {
    Execute();
    result_.steps += position_;
    result_.longest = std::max(result_.longest, position_);
    ++(redundant_ ? result_.redundant : result_.executions);
    if (failed()) break;
    if (!NextOrder()) {
      result_.complete = true;
      break;
    }
  } while (result_.executions < options.max_executions);
  return std::exchange(result_, {});
}

void Explorer::Fail(Invariant invariant, std::string what) {
  ExploreResult& result = active_explorer->result_;
  if (result.violation.has_value()) return;
  result.violation = {invariant, std::move(what), active_explorer->Trace()};
}

bool Explorer::failed() {
  return active_explorer->result_.violation.has_value();
}

std::string Explorer::Trace() const {
  std::string trace;
  for (size_t i = 0; i < position_ && i < events_.size(); ++i) {
    const Step& step = events_[i].step;
    char values[64] = "";
    if (step.word != kEventFd && step.before == step.after) {
      std::snprintf(values, sizeof(values), "  %" PRIx64, step.before);
    } else if (step.word != kEventFd) {
      std::snprintf(values, sizeof(values), "  %" PRIx64 " -> %" PRIx64,
                    step.before, step.after);
    }
    char line[256];
    std::snprintf(line, sizeof(line), "%4zu  %-8s %-16s %s%s\n", i,
                  scenario_->PartyName(step.party).c_str(), KindName(step.kind),
                  step.word == kEventFd
                      ? "eventfd"
                      : scenario_->WordName(step.word).c_str(),
                  values);
    trace += line;
  }
  return trace;
}

// --- One execution ---

void Explorer::Execute() {
  position_ = 0;
  redundant_ = at_rest_ = signalled_ = false;
  outside_now_ns_ = 0;
  scenario_->Begin();
  for (int i = 0; i < num_parties_; ++i) {
    parties_[i]->finished = false;
    parties_[i]->now_ns = 0;
    parties_[i]->steps = 0;
    parties_[i]->dies_before = SIZE_MAX;
    StartParty(i);
  }
  for (;;) {
    died_ = false;
    const int next = failed() ? -1 : Decide();
    if (next >= 0) {
      current_ = next;
      main_.SwitchTo(parties_[next]->fiber.context());
    }
    if (died_ && !failed()) {
      StartParty(current_);
      current_ = -1;
      continue;
    }
    current_ = -1;
    if (failed()) return;
    // Everybody stands.
    PartySet unfinished = 0;
    PartySet asleep = 0;
    for (int i = 0; i < num_parties_; ++i) {
      if (!parties_[i]->finished) unfinished |= SetOf(i);
      if (parties_[i]->wait == Wait::kFutex) asleep |= SetOf(i);
    }
    if (unfinished == 0) break;
    scenario_->OnRest(asleep);
    if (!failed() && (at_rest_ || asleep != 0)) {
      Fail(Invariant::kWakeUp, "somebody sleeps for ever");
    }
    if (failed()) return;
    at_rest_ = true;
  }
  scenario_->End();
}

// Runs the party up to its first step.
void Explorer::StartParty(int party) {
  Party& self = *parties_[party];
  self.wait = Wait::kNone;
  self.woken = false;
  self.enabled_by = kNoEvent;
  current_ = party;
  starting_ = true;
  do {
    died_ = false;
    self.fiber.Prepare(&RunFiber);
    main_.SwitchTo(self.fiber.context());
  } while (died_);
  starting_ = false;
  current_ = -1;
}

void Explorer::RunFiber() {
  Explorer& self = *active_explorer;
  const int party = self.current_;
  self.scenario_->Run(party);
  if (!failed()) self.scenario_->BeforeStep(party);
  self.parties_[party]->finished = true;
  self.GoOn();
  Require(false, "a party that has finished went on");
}

PartySet Explorer::Enabled() const {
  PartySet enabled = 0;
  for (int i = 0; i < num_parties_; ++i) {
    const Party& party = *parties_[i];
    if (party.finished) continue;
    const bool may =
        party.wait == Wait::kNone ||
        (party.wait == Wait::kFutex && (party.woken || options_.time_outs)) ||
        (party.wait == Wait::kSignal && (signalled_ || at_rest_));
    if (may) enabled |= SetOf(i);
  }
  return enabled;
}

// Who takes the next step; -1 if nobody can, or need.
int Explorer::Decide() {
  const PartySet enabled = Enabled();
  if (enabled == 0) return -1;
  if (position_ >= options_.max_steps) {
    Fail(Invariant::kTermination,
         "an execution goes on after " + std::to_string(position_) + " steps");
    return -1;
  }
  if (!redundant_ && position_ == nodes_.size() && !MakeNode(enabled)) {
    redundant_ = true;
  }
  if (redundant_) {
    const bool runs_on = current_ >= 0 && (enabled & SetOf(current_)) != 0;
    return runs_on ? current_ : FirstOf(enabled);
  }
  const int chosen = nodes_[position_].chosen;
  Require((enabled & SetOf(chosen)) != 0, "executions differ: a choice");
  return chosen;
}

// On a fiber: lets whoever is next take its step, and returns when that is the
// caller.
void Explorer::GoOn() {
  const int self = current_;
  ExecutionContext& here = parties_[self]->fiber.context();
  if (starting_) {
    here.SwitchTo(main_);
    return;
  }
  const int next = failed() ? -1 : Decide();
  if (next == self) return;
  if (next < 0) {
    here.SwitchTo(main_);
    return;
  }
  current_ = next;
  here.SwitchTo(parties_[next]->fiber.context());
}

// The party's next step is to be one on `word`: stands still before it. False
// if it is none.
bool Explorer::BeginStep(WordId word) {
  if (current_ < 0) return false;
  if (word != kEventFd && !scenario_->IsContended(word)) return false;
  Party& party = *parties_[current_];
  scenario_->BeforeStep(current_);
  if (++party.steps == party.dies_before) {
    party.dies_before = SIZE_MAX;
    died_ = true;
    party.fiber.context().SwitchTo(main_);
  }
  GoOn();
  return true;
}

void Explorer::EndStep(StepKind kind, WordId word, bool changed,
                       uint64_t before, uint64_t after) {
  const Step step{current_, kind, word, changed, before, after};
  Record(step);
  if (word != kEventFd) scenario_->AfterStep(step);
}

void Explorer::OnAccess(SharedAccess access, const void* word) {
  Explorer& self = *active_explorer;
  // Futex calls come to FutexWait and FutexWake by themselves.
  if (self.current_ < 0 || access == SharedAccess::kFence ||
      access == SharedAccess::kFutexWait ||
      access == SharedAccess::kFutexWake) {
    return;
  }
  const WordId id = self.scenario_->IdOf(word);
  if (!self.BeginStep(id)) return;
  self.stepping_ = true;
  self.before_ = ValueOf(word, self.scenario_->WordSize(id));
}

void Explorer::OnAccessDone(SharedAccess access, const void* word) {
  Explorer& self = *active_explorer;
  if (!std::exchange(self.stepping_, false)) return;
  const WordId id = self.scenario_->IdOf(word);
  const uint64_t after = ValueOf(word, self.scenario_->WordSize(id));
  self.EndStep(KindOf(access), id, after != self.before_, self.before_, after);
}

void Explorer::DieBeforeStep(size_t nth) {
  Party& party = *active_explorer->parties_[active_explorer->current_];
  party.dies_before = party.steps + nth;
}

// --- The kernel ---

int64_t Explorer::NowNs() const {
  // Later than 0, which some take for no time at all.
  constexpr int64_t kStart = 1'000'000'000;
  return kStart + (on_fiber() ? parties_[current_]->now_ns : outside_now_ns_);
}

// True if it was woken, or need not wait; false if the time is over.
bool Explorer::FutexWait(const void* word, uint32_t expected,
                         int64_t timeout_ns) {
  if (!on_fiber()) {
    outside_now_ns_ += timeout_ns;
    return false;
  }
  const WordId id = scenario_->IdOf(word);
  Require(scenario_->IsContended(id), "a futex that is contended");
  BeginStep(id);
  const uint64_t value = ValueOf(word, sizeof(uint32_t));
  if (value != expected) {
    EndStep(StepKind::kFutexWait, id, false, value, value);
    return true;
  }
  Party& party = *parties_[current_];
  party.wait = Wait::kFutex;
  party.futex = id;
  party.woken = false;
  EndStep(StepKind::kFutexWait, id, true, value, value);
  GoOn();
  party.wait = Wait::kNone;
  const uint64_t now = ValueOf(word, sizeof(uint32_t));
  if (party.woken) {
    EndStep(StepKind::kFutexResume, id, false, now, now);
    return true;
  }
  party.now_ns += timeout_ns;
  EndStep(StepKind::kFutexTimeOut, id, true, now, now);
  return false;
}

void Explorer::FutexWake(const void* word, int count) {
  if (!on_fiber()) return;
  const WordId id = scenario_->IdOf(word);
  BeginStep(id);
  const uint64_t value = ValueOf(word, sizeof(uint32_t));
  bool changed = false;
  for (int i = 0; i < num_parties_ && count > 0; ++i) {
    Party& party = *parties_[i];
    if (party.wait != Wait::kFutex || party.futex != id || party.woken)
      continue;
    party.woken = true;
    party.enabled_by = position_;
    changed = true;
    --count;
  }
  EndStep(StepKind::kFutexWake, id, changed, value, value);
}

void Explorer::Signal() {
  if (!on_fiber()) return;
  BeginStep(kEventFd);
  const bool changed = !std::exchange(signalled_, true);
  if (changed) {
    for (const auto& party : parties_) {
      if (party->wait == Wait::kSignal) party->enabled_by = position_;
    }
  }
  EndStep(StepKind::kSignal, kEventFd, changed, !changed, 1);
}

bool Explorer::AwaitSignal() {
  Explorer& self = *active_explorer;
  Require(self.on_fiber(), "waiting on a fiber");
  Party& party = *self.parties_[self.current_];
  party.wait = Wait::kSignal;
  party.enabled_by = kNoEvent;
  self.BeginStep(kEventFd);
  party.wait = Wait::kNone;
  if (self.signalled_) {
    self.signalled_ = false;
    self.EndStep(StepKind::kAwaitSignal, kEventFd, true, 1, 0);
    return true;
  }
  self.EndStep(StepKind::kRest, kEventFd, false, 0, 0);
  return false;
}

// --- The search ---

// The first time that this state is reached. False if whatever can be done from
// it was done from another one.
bool Explorer::MakeNode(PartySet enabled) {
  Node node;
  node.enabled = enabled;
  const bool at_start = nodes_.empty();
  const int running = at_start ? -1 : nodes_.back().chosen;
  if (options_.preemptions.has_value()) {
    if (!at_start) {
      const Node& before = nodes_.back();
      node.preemptions =
          before.preemptions +
          (before.runs_on && before.chosen != before.running ? 1 : 0);
    }
    node.running = running;
    node.runs_on = !at_start && (enabled & SetOf(running)) != 0 &&
                   parties_[running]->wait == Wait::kNone;
    node.chosen = node.runs_on ? running : FirstOf(enabled);
    node.backtrack = node.runs_on && node.preemptions == *options_.preemptions
                         ? SetOf(running)
                         : enabled;
    nodes_.push_back(node);
    return true;
  }
  if (!at_start) {
    const Node& before = nodes_.back();
    const Step& step = events_[position_ - 1].step;
    for (PartySet left = (before.sleeping | before.done) & ~SetOf(running);
         left != 0; left &= left - 1) {
      const int party = FirstOf(left);
      if (!AreIndependent(before.next[party], step)) continue;
      node.sleeping |= SetOf(party);
      node.next[party] = before.next[party];
    }
  }
  const PartySet awake = enabled & ~node.sleeping;
  if (awake == 0) return false;
  node.chosen =
      !at_start && (awake & SetOf(running)) != 0 ? running : FirstOf(awake);
  node.backtrack = SetOf(node.chosen);
  nodes_.push_back(node);
  return true;
}

void Explorer::Record(const Step& step) {
  const size_t index = position_++;
  if (index < events_.size()) {
    const Step& earlier = events_[index].step;
    Require(earlier.party == step.party && earlier.word == step.word &&
                earlier.kind == step.kind && earlier.changed == step.changed,
            "executions differ: a step");
    return;
  }
  events_.emplace_back();
  events_.back().step = step;
  if (!options_.preemptions.has_value() && !redundant_) FindRaces(index);
}

// Gives the new event its clock, and finds the earlier ones that it might have
// come before.
void Explorer::FindRaces(size_t index) {
  Event& event = events_[index];
  const int self = event.step.party;
  const auto join = [&event](const Clock& other) {
    for (int i = 0; i < kMaxParties; ++i) {
      event.clock[i] = std::max(event.clock[i], other[i]);
    }
  };
  for (size_t i = index; i-- > 0;) {
    if (events_[i].step.party != self) continue;
    join(events_[i].clock);
    event.number = events_[i].number;
    break;
  }
  ++event.number;
  const bool rest = event.step.kind == StepKind::kRest;
  // The latest first: what comes before one of them is no race.
  for (size_t i = index; i-- > 0;) {
    const Event& other = events_[i];
    const int party = other.step.party;
    if (party == self || event.clock[party] >= other.number ||
        AreIndependent(other.step, event.step)) {
      continue;
    }
    // What made it possible, it cannot come before.
    const bool possible_before =
        !rest && !((event.step.kind == StepKind::kFutexResume ||
                    event.step.kind == StepKind::kAwaitSignal) &&
                   parties_[self]->enabled_by == i && !options_.time_outs);
    if (possible_before) AddBacktrack(i, index);
    join(other.clock);
  }
  event.clock[self] = event.number;
}

// `events_[index]` might have come before `events_[racing]`. Has an order in
// which it does so be walked, unless one is already: it can begin with any
// party whose first step, of those that do not depend on the racing one, needs
// none of the others.
void Explorer::AddBacktrack(size_t racing, size_t index) {
  const Event& race = events_[racing];
  const Event& last = events_[index];
  std::array<uint32_t, kMaxParties> first{};  // their numbers, 0 for none
  PartySet initials = 0;
  for (size_t i = racing + 1; i <= index; ++i) {
    const Event& event = events_[i];
    const int party = event.step.party;
    if (i != index && event.clock[race.step.party] >= race.number) {
      continue;  // happens after the racing one
    }
    if (first[party] != 0) continue;
    first[party] = event.number;
    // The clock of the last event is not complete, and holds by now what it
    // needs of those in between.
    bool needs_another = false;
    for (int other = 0; other < num_parties_; ++other) {
      needs_another |= other != party && first[other] != 0 &&
                       event.clock[other] >= first[other];
    }
    if (!needs_another) initials |= SetOf(party);
  }
  Node& node = nodes_[racing];
  if ((initials & (node.backtrack | node.sleeping)) != 0) return;
  const PartySet possible = initials & node.enabled;
  if ((possible & SetOf(last.step.party)) != 0) {
    node.backtrack |= SetOf(last.step.party);
  } else if (possible != 0) {
    node.backtrack |= SetOf(FirstOf(possible));
  } else {
    node.backtrack |= node.enabled;
  }
}

// Goes back to the last choice that is still to be made in another way.
bool Explorer::NextOrder() {
  events_.resize(nodes_.size());
  while (!nodes_.empty()) {
    const size_t index = nodes_.size() - 1;
    Node& node = nodes_.back();
    node.done |= SetOf(node.chosen);
    node.next[node.chosen] = events_[index].step;
    const PartySet left =
        node.backtrack & node.enabled & ~node.done & ~node.sleeping;
    events_.resize(index);
    if (left != 0) {
      node.chosen = FirstOf(left);
      return true;
    }
    nodes_.pop_back();
  }
  return false;
}

}  // namespace tracering::test
