// The two rings, their framing, and the protocol between writer and reader;
// see profile_buffer.h for who may call what.
//
// Data first, then one compare-exchange: what lies beyond the counts of `w` is
// the writer's alone, what lies between `r` and `w` is the reader's, and so
// every stretch that a reader gets consists of whole records.
#include "tracering/profile_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/os/futex.h"
#include "src/common/profile/pending_overflow.h"
#include "src/common/profile/profile_index.h"
#include "src/common/sync/shared_word.h"

namespace tracering {

using internal::CountSub;
using internal::PendingOverflow;
using internal::ProfileIndex;
using internal::SharedWord;

namespace {

constexpr size_t kFrameWords = 2;  // size and time
constexpr size_t kMaxRing = size_t{1} << 28;
// No size of a record: the rest of the ring is unused, the next record stands
// at its start.
constexpr uint64_t kRewind = 0;

// A wait is repeated until it was woken; the length of one does not matter.
constexpr std::chrono::hours kWaitSlice{1};
// Where futexes are denied.
constexpr std::chrono::milliseconds kPause{1};

constexpr auto kOrder = std::memory_order_seq_cst;

size_t NextPowerOfTwo(size_t n) {
  size_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

class ProfileBuffer::Impl {
 public:
  explicit Impl(const ProfileBufferOptions& options)
      : header_words_(options.header_words),
        wake_threshold_(options.wake_threshold_words),
        data_(options.data_words),
        tags_(options.tags),
        overflow_record_(kFrameWords + options.header_words + 1),
        storage_(new Storage()) {}

  ProfileWriteOutcome Write(uint64_t tag, uint64_t time, const uint64_t* header,
                            size_t header_words, const uintptr_t* stack,
                            size_t stack_words);
  void Close();
  ProfileRecords Read(ProfileReadMode mode);

  ProfileBufferStats stats() const {
    return {words().refused_writes.Load(std::memory_order_relaxed),
            words().ignored_closes.Load(std::memory_order_relaxed)};
  }
  size_t data_words() const { return data_.size(); }
  size_t tags() const { return tags_.size(); }

 private:
  // Looked at through words(): memory that starts as zeroes.
  struct Words {
    // Advanced by the reader: given back to the writer.
    SharedWord<uint64_t> r;
    uint8_t unused0[56];
    // Advanced by the writer: whole records. Both change its flags.
    SharedWord<uint64_t> w;
    PendingOverflow overflow;
    SharedWord<uint32_t> closed;
    // 1 from the wake-up to the reader's next sleep.
    SharedWord<uint32_t> woken;
    SharedWord<uint64_t> refused_writes;
    SharedWord<uint64_t> ignored_closes;
  };
  struct alignas(64) Storage {
    uint8_t bytes[sizeof(Words)] = {};
  };

  Words& words() const { return *reinterpret_cast<Words*>(storage_->bytes); }
  ProfileIndex LoadR() const { return ProfileIndex(words().r.Load(kOrder)); }
  ProfileIndex LoadW() const { return ProfileIndex(words().w.Load(kOrder)); }
  bool ReplaceW(ProfileIndex expected, ProfileIndex desired) {
    uint64_t word = expected.word();
    return words().w.CompareExchange(word, desired.word(), kOrder, kOrder);
  }

  size_t RecordWords(size_t stack_words) const {
    return kFrameWords + header_words_ + stack_words;
  }
  size_t DataIndex(ProfileIndex index) const {
    return index.data_count() & (data_.size() - 1);
  }
  size_t TagIndex(ProfileIndex index) const {
    return index.tag_count() & (tags_.size() - 1);
  }

  // Writer.
  bool HasRoomFor(std::initializer_list<size_t> stacks) const;
  void Append(uint64_t tag, uint64_t time, const uint64_t* header,
              size_t header_words, const uintptr_t* stack, size_t stack_words);
  bool IsWakeUpDue(ProfileIndex w) const;
  void WakeReaderForExtra();
  void WakeReader();

  // Reader.
  void GiveBack();
  void Sleep();
  ProfileRecords OverflowRecord(PendingOverflow::Taken taken);
  ProfileRecords Slice(ProfileIndex w);
  ProfileRecords Malformed();

  // Immutable.
  const size_t header_words_;
  const size_t wake_threshold_;

  // Handed to and fro by `r` and `w`.
  std::vector<uint64_t> data_;
  std::vector<uint64_t> tags_;

  // Owned by the reader. r <= next_ <= w.
  ProfileIndex next_;
  std::vector<uint64_t> overflow_record_;
  std::optional<ProfileReadOutcome> last_outcome_;  // kEnd or kMalformed

  const std::unique_ptr<Storage> storage_;
};

// --- The writer ---

// Whether records with these stacks fit one after the other. Each is in one
// piece, so that the end of the ring may be left unused.
bool ProfileBuffer::Impl::HasRoomFor(
    std::initializer_list<size_t> stacks) const {
  const ProfileIndex r = LoadR();
  const ProfileIndex w = LoadW();
  const auto free_in = [](size_t ring, uint32_t read, uint32_t written) {
    return static_cast<int64_t>(ring) + CountSub(read, written);
  };
  if (free_in(tags_.size(), r.tag_count(), w.tag_count()) <
      static_cast<int64_t>(stacks.size())) {
    return false;
  }
  int64_t room = free_in(data_.size(), r.data_count(), w.data_count());
  size_t index = DataIndex(w);
  for (const size_t stack : stacks) {
    if (stack >= data_.size()) return false;  // sums cannot overflow
    const size_t want = RecordWords(stack);
    if (index + want > data_.size()) {
      room -= static_cast<int64_t>(data_.size() - index);
      index = 0;
    }
    index += want;
    room -= static_cast<int64_t>(want);
    if (room < 0) return false;
  }
  return true;
}

ProfileWriteOutcome ProfileBuffer::Impl::Write(uint64_t tag, uint64_t time,
                                               const uint64_t* header,
                                               size_t header_words,
                                               const uintptr_t* stack,
                                               size_t stack_words) {
  if (header_words > header_words_) {
    words().refused_writes.FetchAdd(1, std::memory_order_relaxed);
    return ProfileWriteOutcome::kRefused;
  }
  if (words().closed.Load(kOrder) != 0) return ProfileWriteOutcome::kClosed;
  const PendingOverflow::Seen pending = words().overflow.Look();
  if (pending.any() && HasRoomFor({1, stack_words})) {
    // Unless the reader was faster: nobody else can change it.
    if (const PendingOverflow::Taken taken =
            words().overflow.TakeIfStill(pending);
        taken.count != 0) {
      const uintptr_t count = taken.count;
      Append(0, taken.time, nullptr, 0, &count, 1);
    }
  } else if (pending.any() || !HasRoomFor({stack_words})) {
    words().overflow.Increment(time);
    WakeReaderForExtra();
    return ProfileWriteOutcome::kDropped;
  }
  Append(tag, time, header, header_words, stack, stack_words);
  return ProfileWriteOutcome::kWritten;
}

// There is room.
void ProfileBuffer::Impl::Append(uint64_t tag, uint64_t time,
                                 const uint64_t* header, size_t header_words,
                                 const uintptr_t* stack, size_t stack_words) {
  const ProfileIndex w = LoadW();
  tags_[TagIndex(w)] = tag;
  const size_t want = RecordWords(stack_words);
  size_t index = DataIndex(w);
  size_t skipped = 0;
  if (index + want > data_.size()) {
    data_[index] = kRewind;
    skipped = data_.size() - index;
    index = 0;
  }
  uint64_t* out = &data_[index];
  *out++ = want;
  *out++ = time;
  out = std::copy_n(header, header_words, out);
  out = std::fill_n(out, header_words_ - header_words, 0);
  std::copy_n(stack, stack_words, out);

  for (;;) {
    // Only flags can have changed meanwhile.
    const ProfileIndex old = LoadW();
    ProfileIndex advanced =
        old.AddCountsAndClearFlags(static_cast<uint32_t>(skipped + want), 1);
    const bool wake = old.reader_sleeping() && IsWakeUpDue(advanced);
    if (old.reader_sleeping() && !wake) {
      advanced = advanced.With(ProfileIndex::kReaderSleeping);
    }
    if (!ReplaceW(old, advanced)) continue;
    if (wake) WakeReader();
    return;
  }
}

bool ProfileBuffer::Impl::IsWakeUpDue(ProfileIndex w) const {
  return CountSub(w.data_count(), LoadR().data_count()) >=
         static_cast<int64_t>(wake_threshold_);
}

// The flag and the wake-up are one step: a reader that is about to sleep either
// sees the flag, or fails to say that it sleeps, or is woken.
void ProfileBuffer::Impl::WakeReaderForExtra() {
  for (;;) {
    const ProfileIndex old = LoadW();
    if (!ReplaceW(old, old.Without(ProfileIndex::kReaderSleeping)
                           .With(ProfileIndex::kExtra))) {
      continue;
    }
    if (old.reader_sleeping()) WakeReader();
    return;
  }
}

void ProfileBuffer::Impl::WakeReader() {
  words().woken.Store(1, kOrder);
  os::FutexWake(&words().woken, 1);
}

void ProfileBuffer::Impl::Close() {
  if (words().closed.Exchange(1, kOrder) != 0) {
    words().ignored_closes.FetchAdd(1, std::memory_order_relaxed);
    return;
  }
  WakeReaderForExtra();
}

// --- The reader ---

ProfileRecords ProfileBuffer::Impl::Read(ProfileReadMode mode) {
  if (last_outcome_.has_value()) return {*last_outcome_};
  GiveBack();
  for (;;) {
    const ProfileIndex w = LoadW();
    if (w.data_count() != next_.data_count()) return Slice(w);
    if (const PendingOverflow::Seen pending = words().overflow.Look();
        pending.any()) {
      // `w` may be older than what is pending: records may have come between.
      // None can come now without changing what was seen.
      if (LoadW().data_count() != next_.data_count()) continue;
      const PendingOverflow::Taken taken =
          words().overflow.TakeIfStill(pending);
      if (taken.count == 0) continue;  // the writer was faster
      return OverflowRecord(taken);
    }
    if (words().closed.Load(kOrder) != 0) {
      // What was committed or dropped before the close is seen by now.
      if (LoadW().data_count() != next_.data_count() ||
          words().overflow.Look().any()) {
        continue;
      }
      last_outcome_ = ProfileReadOutcome::kEnd;
      return {ProfileReadOutcome::kEnd};
    }
    if (w.extra()) {
      (void)ReplaceW(w, w.Without(ProfileIndex::kExtra));
      continue;
    }
    if (mode == ProfileReadMode::kNonBlocking) {
      return {ProfileReadOutcome::kEmpty};
    }
    if (ReplaceW(w, w.With(ProfileIndex::kReaderSleeping))) Sleep();
  }
}

// Takes tags out first: a tag may stand for something that its owner wants to
// see let go of.
void ProfileBuffer::Impl::GiveBack() {
  const ProfileIndex given = LoadR();
  if (given == next_) return;
  const int32_t count = CountSub(next_.tag_count(), given.tag_count());
  for (int32_t i = 0; i < count; ++i) {
    tags_[(given.tag_count() + static_cast<uint32_t>(i)) & (tags_.size() - 1)] =
        0;
  }
  words().r.Store(next_.word(), kOrder);
}

void ProfileBuffer::Impl::Sleep() {
  while (words().woken.Load(kOrder) == 0) {
    internal::OnSharedAccess(internal::SharedAccess::kFutexWait,
                             &words().woken);
    if (os::FutexWait(&words().woken, 0, kWaitSlice) ==
        os::FutexWaitOutcome::kUnavailable) {
      std::this_thread::sleep_for(kPause);
    }
  }
  words().woken.Store(0, kOrder);
}

ProfileRecords ProfileBuffer::Impl::OverflowRecord(
    PendingOverflow::Taken taken) {
  static constexpr uint64_t kNoTag = 0;
  overflow_record_.front() = overflow_record_.size();
  overflow_record_[1] = taken.time;
  overflow_record_.back() = taken.count;
  return {ProfileReadOutcome::kRecords, overflow_record_.data(),
          overflow_record_.size(), &kNoTag, 1};
}

ProfileRecords ProfileBuffer::Impl::Malformed() {
  last_outcome_ = ProfileReadOutcome::kMalformed;
  return {ProfileReadOutcome::kMalformed};
}

// Cuts whole records out of what lies between next_ and w, as far as they lie
// in one piece, and no more than there are tags in one piece.
ProfileRecords ProfileBuffer::Impl::Slice(ProfileIndex w) {
  const int32_t words_there = CountSub(w.data_count(), next_.data_count());
  const int32_t tags_there = CountSub(w.tag_count(), next_.tag_count());
  if (words_there <= 0 || static_cast<size_t>(words_there) > data_.size() ||
      tags_there <= 0 || static_cast<size_t>(tags_there) > tags_.size()) {
    return Malformed();
  }
  auto available = static_cast<size_t>(words_there);
  size_t begin = DataIndex(next_);
  size_t skipped = 0;
  if (data_[begin] == kRewind) {
    skipped = data_.size() - begin;
    if (skipped >= available) return Malformed();
    available -= skipped;
    begin = 0;
  }
  const size_t size = std::min(available, data_.size() - begin);
  const size_t first_tag = TagIndex(next_);
  const size_t max_tags =
      std::min(static_cast<size_t>(tags_there), tags_.size() - first_tag);

  size_t taken = 0;
  size_t num_tags = 0;
  while (taken < size && num_tags < max_tags) {
    const uint64_t record = data_[begin + taken];
    if (record == kRewind) break;
    if (record < RecordWords(0) || record > size - taken) return Malformed();
    taken += record;
    ++num_tags;
  }
  if (taken == 0) return Malformed();
  next_ = next_.AddCountsAndClearFlags(static_cast<uint32_t>(skipped + taken),
                                       static_cast<uint32_t>(num_tags));
  return {ProfileReadOutcome::kRecords, &data_[begin], taken, &tags_[first_tag],
          num_tags};
}

// --- The class itself ---

absl::StatusOr<std::unique_ptr<ProfileBuffer>> ProfileBuffer::Create(
    const ProfileBufferOptions& options) {
  const auto too_large = [](std::string_view what, size_t value) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}, and must be below {}", what, value, kMaxRing));
  };
  // Each alone, so that no sum overflows.
  if (options.header_words >= kMaxRing) {
    return too_large("header_words", options.header_words);
  }
  ProfileBufferOptions rounded = options;
  rounded.data_words =
      std::max(options.data_words, kFrameWords + options.header_words + 1);
  if (rounded.data_words >= kMaxRing) {
    return too_large("data_words", rounded.data_words);
  }
  if (options.tags >= kMaxRing) return too_large("tags", options.tags);
  rounded.data_words = NextPowerOfTwo(rounded.data_words);
  rounded.tags = NextPowerOfTwo(options.tags);
  if (options.wake_threshold_words > rounded.data_words) {
    return absl::InvalidArgumentError(fmt::format(
        "wake_threshold_words is {}, and must be at most the {} words of the "
        "data ring",
        options.wake_threshold_words, rounded.data_words));
  }
  return std::unique_ptr<ProfileBuffer>(
      new ProfileBuffer(std::make_unique<Impl>(rounded)));
}

ProfileBuffer::ProfileBuffer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

ProfileBuffer::~ProfileBuffer() = default;

ProfileWriteOutcome ProfileBuffer::Write(uint64_t tag, uint64_t time,
                                         const uint64_t* header,
                                         size_t header_words,
                                         const uintptr_t* stack,
                                         size_t stack_words) noexcept {
  return impl_->Write(tag, time, header, header_words, stack, stack_words);
}

void ProfileBuffer::Close() noexcept { impl_->Close(); }

ProfileRecords ProfileBuffer::Read(ProfileReadMode mode) noexcept {
  return impl_->Read(mode);
}

ProfileBufferStats ProfileBuffer::stats() const noexcept {
  return impl_->stats();
}

size_t ProfileBuffer::data_words() const noexcept {
  return impl_->data_words();
}

size_t ProfileBuffer::tags() const noexcept { return impl_->tags(); }

}  // namespace tracering
