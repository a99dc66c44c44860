// The profile buffer's writer against its reader; see configuration.h.
//
// Events are numbered. In a ring of eight words with two tags some never fit,
// some do if the reader was there in time, and the reader gets each number once
// and in order: as an event, or as one of those that a record says were
// dropped.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "tests/explore/configuration.h"
#include "tests/support/require.h"
#include "tracering/profile_buffer.h"

namespace tracering::test {
namespace {

// Words of a stack. A record has two more.
constexpr size_t kOne = 1;
constexpr size_t kNeverFits = 7;

struct ProfileSetup {
  ProfileBufferOptions options{0, 8, 2};
  // Stacks of the events, numbered from 1.
  std::vector<size_t> stacks;
  ProfileReadMode mode = ProfileReadMode::kBlocking;
  // Reads without waiting, before the last one after the end.
  int reads = 0;
};

class ProfileScenario : public Scenario {
 public:
  explicit ProfileScenario(ProfileSetup setup) : setup_(std::move(setup)) {}

  int num_parties() const override { return 2; }
  std::string PartyName(int party) const override {
    return party == kWriter ? "writer" : "reader";
  }
  void Begin() override;
  void Run(int party) override { party == kWriter ? RunWriter() : RunReader(); }
  // Counted from the buffer's first word.
  WordId IdOf(const void* word) const override {
    return static_cast<WordId>(static_cast<const uint8_t*>(word) - base_);
  }
  std::string WordName(WordId word) const override;
  size_t WordSize(WordId word) const override {
    return word == kClosedAt || word == kWokenAt ? sizeof(uint32_t)
                                                 : sizeof(uint64_t);
  }
  bool IsContended(WordId word) const override {
    return word != kRefusedWritesAt && word != kIgnoredClosesAt;
  }
  void BeforeStep(int party) override;
  void AfterStep(const Step& step) override;
  void OnRest(PartySet) override {
    Explorer::Fail(Invariant::kWakeUp, "the reader sleeps for ever");
  }
  void End() override;

 private:
  static constexpr int kWriter = 0;
  static constexpr int kReader = 1;
  // Where the words of ProfileBuffer lie, from its first.
  static constexpr WordId kReadAt = 0;
  static constexpr WordId kWriteAt = 64;
  static constexpr WordId kOverflowAt = 72;
  static constexpr WordId kClosedAt = 88;
  static constexpr WordId kWokenAt = 92;
  static constexpr WordId kRefusedWritesAt = 96;
  static constexpr WordId kIgnoredClosesAt = 104;

  void RunWriter();
  void RunReader();
  // False at the end.
  bool Read(ProfileReadMode mode);
  void Take(const ProfileRecords& records);
  void CheckKept();

  const ProfileSetup setup_;
  std::unique_ptr<ProfileBuffer> buffer_;
  const uint8_t* base_ = nullptr;
  uint64_t next_ = 1;          // number to come
  uint64_t told_dropped_ = 0;  // in records
  uint64_t dropped_ = 0;       // as Write said
  // What the reader holds until it gives it back, and a copy of it.
  ProfileRecords held_;
  std::vector<uint64_t> copy_;
};

// The hook tells where the words lie: stats() looks at two of them.
const uint8_t* refused_writes_word = nullptr;

void ProfileScenario::Begin() {
  auto buffer = ProfileBuffer::Create(setup_.options);
  Require(buffer.ok(), "a profile buffer");
  buffer_ = *std::move(buffer);
  const internal::SharedWordHook hook = internal::shared_word_hook.exchange(
      [](internal::SharedAccess, const void* word) {
        if (refused_writes_word == nullptr) {
          refused_writes_word = static_cast<const uint8_t*>(word);
        }
      });
  refused_writes_word = nullptr;
  (void)buffer_->stats();
  internal::shared_word_hook.store(hook);
  base_ = refused_writes_word - kRefusedWritesAt;
  next_ = 1;
  told_dropped_ = dropped_ = 0;
  held_ = {};
  copy_.clear();
}

std::string ProfileScenario::WordName(WordId word) const {
  switch (word) {
    case kReadAt:
      return "r";
    case kWriteAt:
      return "w";
    case kOverflowAt:
      return "overflow";
    case kClosedAt:
      return "closed";
    case kWokenAt:
      return "woken";
    default:
      return "word+" + std::to_string(word);
  }
}

void ProfileScenario::RunWriter() {
  uint64_t number = 0;
  for (const size_t words : setup_.stacks) {
    ++number;
    const std::array<uintptr_t, 8> stack = {number, number, number, number,
                                            number, number, number, number};
    switch (buffer_->Write(number, number, nullptr, 0, stack.data(), words)) {
      case ProfileWriteOutcome::kWritten:
        break;
      case ProfileWriteOutcome::kDropped:
        ++dropped_;
        break;
      case ProfileWriteOutcome::kClosed:
      case ProfileWriteOutcome::kRefused:
        Explorer::Fail(Invariant::kAccounting, "an event is refused");
        break;
    }
  }
  buffer_->Close();
}

void ProfileScenario::RunReader() {
  for (int i = 0; i < setup_.reads; ++i) {
    if (!Read(ProfileReadMode::kNonBlocking)) return;
  }
  while (Read(ProfileReadMode::kBlocking)) {
  }
}

bool ProfileScenario::Read(ProfileReadMode mode) {
  const ProfileRecords records = buffer_->Read(mode);
  switch (records.outcome) {
    case ProfileReadOutcome::kRecords:
      Take(records);
      // A single record of drops may lie outside of the ring.
      if (records.num_tags == 1 && records.tags[0] == 0) return true;
      held_ = records;
      copy_.assign(records.data, records.data + records.data_words);
      return true;
    case ProfileReadOutcome::kEmpty:
      return true;
    case ProfileReadOutcome::kEnd:
      return false;
    case ProfileReadOutcome::kMalformed:
      break;
  }
  Explorer::Fail(Invariant::kIntact, "the buffer is malformed");
  return false;
}

void ProfileScenario::Take(const ProfileRecords& records) {
  size_t at = 0;
  for (size_t i = 0; i < records.num_tags; ++i) {
    const uint64_t* record = records.data + at;
    const uint64_t number = record[1];
    const uint64_t size = record[0];
    at += size;
    if (size < 2 || at > records.data_words) {
      return Explorer::Fail(Invariant::kIntact, "a record has no size");
    }
    if (number < next_) {
      return Explorer::Fail(Invariant::kNoDuplicate, "an event comes twice");
    }
    if (number > next_) {
      return Explorer::Fail(Invariant::kAccounting,
                            "an event is missing, or comes too early");
    }
    if (records.tags[i] == 0) {
      next_ += record[2];
      told_dropped_ += record[2];
      continue;
    }
    ++next_;
    bool intact = records.tags[i] == number && number <= setup_.stacks.size() &&
                  size == 2 + setup_.stacks[number - 1];
    for (uint64_t k = 2; k < size && intact; ++k) intact = record[k] == number;
    if (!intact) {
      return Explorer::Fail(Invariant::kIntact, "an event is damaged");
    }
  }
}

// What Read returned belongs to the reader until it reads again.
void ProfileScenario::CheckKept() {
  for (size_t i = 0; i < held_.data_words; ++i) {
    if (held_.data[i] != copy_[i]) {
      return Explorer::Fail(Invariant::kOwnership,
                            "records change in the reader's hands");
    }
  }
}

void ProfileScenario::BeforeStep(int party) {
  if (party == kWriter) CheckKept();
}

void ProfileScenario::AfterStep(const Step& step) {
  if (!step.changed || step.kind == StepKind::kFutexWait ||
      step.kind == StepKind::kFutexWake) {
    return;
  }
  const bool reader = step.party == kReader;
  if (step.word == kReadAt) held_ = {};  // given back
  constexpr uint64_t kFlags = uint64_t{3} << 32;
  const bool legal =
      step.word == kReadAt ? reader
      : step.word == kWriteAt
          ? !reader || ((step.before ^ step.after) & ~kFlags) == 0
      : step.word == kClosedAt ? !reader
      : step.word == kWokenAt  ? reader == (step.after == 0)
                               : true;
  if (!legal) {
    Explorer::Fail(Invariant::kLegalStep,
                   WordName(step.word) + " is changed by the other side");
  }
}

void ProfileScenario::End() {
  if (next_ != setup_.stacks.size() + 1 || told_dropped_ != dropped_) {
    Explorer::Fail(Invariant::kAccounting,
                   "events told " + std::to_string(next_ - 1) + " of " +
                       std::to_string(setup_.stacks.size()) + ", dropped " +
                       std::to_string(told_dropped_) + " of " +
                       std::to_string(dropped_));
  }
}

Configuration Of(std::string name, std::string what, ProfileSetup setup) {
  Configuration configuration;
  configuration.name = std::move(name);
  configuration.what = std::move(what);
  configuration.scenarios = {[setup = std::move(setup)] {
    return std::make_unique<ProfileScenario>(setup);
  }};
  return configuration;
}

}  // namespace

std::vector<Configuration> ProfileConfigurations() {
  std::vector<Configuration> list;
  const auto add = [&list](std::string name, std::string what,
                           const ProfileSetup& setup,
                           std::optional<int> preemptions = {}) {
    list.push_back(Of(name, what, setup));
    list.back().options.preemptions = preemptions;
    if (!preemptions.has_value()) return;
    list.push_back(Of(name + "-more", std::move(what), setup));
    list.back().options.preemptions = *preemptions + 1;
    list.back().is_long = true;
  };

  ProfileSetup setup;
  setup.stacks = {kOne, 0};
  add("profile-events", "two events", setup);
  setup.stacks = {kNeverFits};
  add("profile-drop", "an event that never fits", setup);
  setup.stacks = {kNeverFits, 0};
  add("profile-drop-event", "one that never fits, and one that does", setup);
  list.back().is_long = true;

  setup.stacks = {kOne, kOne, kOne};
  add("profile-wrap", "events around the end of the ring", setup, 4);
  setup.stacks = {kOne, kNeverFits, kOne, 0};
  add("profile-overflow", "one is dropped in any case, one perhaps", setup, 3);
  setup.options.wake_threshold_words = 6;
  add("profile-threshold", "the same, woken by two events, a drop or the end",
      setup, 3);
  setup.options.wake_threshold_words = 0;
  setup.reads = 2;
  add("profile-nonblocking", "the same, after two reads that do not wait",
      setup, 3);
  return list;
}

}  // namespace tracering::test
