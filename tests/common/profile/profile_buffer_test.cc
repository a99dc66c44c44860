// The profile buffer, words in and words out, in the cases of the source
// document.
#include "tracering/profile_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/common/profile/profile_index.h"
#include "tests/support/thread_state.h"

namespace tracering {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Words = std::vector<uint64_t>;

constexpr auto kNow = ProfileReadMode::kNonBlocking;
constexpr auto kWait = ProfileReadMode::kBlocking;

std::unique_ptr<ProfileBuffer> Make(size_t header_words, size_t data_words,
                                    size_t tags, size_t threshold = 0) {
  auto buffer =
      ProfileBuffer::Create({header_words, data_words, tags, threshold});
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

ProfileWriteOutcome Write(ProfileBuffer& buffer, uint64_t tag, uint64_t time,
                          const Words& header,
                          const std::vector<uintptr_t>& stack) {
  return buffer.Write(tag, time, header.data(), header.size(), stack.data(),
                      stack.size());
}

// Record i of a numbered series: time i, header i * 10, stack i * 100 + 0..n-1.
ProfileWriteOutcome WriteNumber(ProfileBuffer& buffer, uint64_t i,
                                size_t stack_words) {
  std::vector<uintptr_t> stack;
  for (size_t k = 0; k < stack_words; ++k) stack.push_back(i * 100 + k);
  return Write(buffer, i + 1, i, {i * 10}, stack);
}

Words DataOf(const ProfileRecords& records) {
  return Words(records.data, records.data + records.data_words);
}

Words TagsOf(const ProfileRecords& records) {
  return Words(records.tags, records.tags + records.num_tags);
}

void ExpectRead(ProfileBuffer& buffer, const Words& data, const Words& tags,
                ProfileReadMode mode = kNow) {
  const ProfileRecords records = buffer.Read(mode);
  EXPECT_EQ(records.outcome, ProfileReadOutcome::kRecords);
  EXPECT_THAT(DataOf(records), ElementsAreArray(data));
  EXPECT_THAT(TagsOf(records), ElementsAreArray(tags));
}

void ExpectEmpty(ProfileBuffer& buffer) {
  EXPECT_EQ(buffer.Read(kNow).outcome, ProfileReadOutcome::kEmpty);
}

// --- Sizes ---

TEST(ProfileBufferTest, RingsAreRoundedUpToPowersOfTwo) {
  const auto buffer = Make(1, 1000, 33);
  EXPECT_EQ(buffer->data_words(), 1024u);
  EXPECT_EQ(buffer->tags(), 64u);
  const auto exact = Make(1, 1 << 17, 1 << 14);
  EXPECT_EQ(exact->data_words(), 1u << 17);
  EXPECT_EQ(exact->tags(), 1u << 14);
}

TEST(ProfileBufferTest, SmallestRingHoldsOneRecordOfDroppedEvents) {
  EXPECT_EQ(Make(1, 0, 0)->data_words(), 4u);
  EXPECT_EQ(Make(2, 1, 1)->data_words(), 8u);
  EXPECT_EQ(Make(0, 0, 0)->data_words(), 4u);
  EXPECT_EQ(Make(0, 0, 0)->tags(), 1u);
}

TEST(ProfileBufferTest, RingsOf2To28WordsAreRefusedWithTheirLimit) {
  const auto message = [](size_t header, size_t data, size_t tags,
                          size_t threshold) {
    return std::string(ProfileBuffer::Create({header, data, tags, threshold})
                           .status()
                           .message());
  };
  EXPECT_THAT(
      message(1, 1 << 28, 1, 0),
      HasSubstr("data_words is 268435456, and must be below 268435456"));
  EXPECT_THAT(message(1, 16, 1 << 28, 0), HasSubstr("tags is 268435456"));
  EXPECT_THAT(message(SIZE_MAX, 16, 1, 0), HasSubstr("header_words is 1844"));
  EXPECT_THAT(message((1 << 28) - 3, 16, 1, 0),
              HasSubstr("data_words is 268435456"));
  EXPECT_THAT(
      message(1, 16, 1, 17),
      HasSubstr("wake_threshold_words is 17, and must be at most the 16"));
}

// --- Records ---

TEST(ProfileBufferTest, RecordIsItsSizeItsTimeItsHeaderAndItsStack) {
  const auto buffer = Make(2, 16, 2);
  ExpectEmpty(*buffer);
  EXPECT_EQ(Write(*buffer, 77, 99, {11, 12}, {101, 102, 103}),
            ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {7, 99, 11, 12, 101, 102, 103}, {77});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, HeaderIsFilledUpWithZeroes) {
  const auto buffer = Make(3, 16, 4);
  Write(*buffer, 0, 5, {}, {1});
  Write(*buffer, 0, 6, {9}, {});
  ExpectRead(*buffer, {6, 5, 0, 0, 0, 1, 5, 6, 9, 0, 0}, {0, 0});
}

TEST(ProfileBufferTest, StackOfNoFramesIsARecord) {
  const auto buffer = Make(1, 16, 4);
  Write(*buffer, 3, 8, {4}, {});
  ExpectRead(*buffer, {3, 8, 4}, {3});
}

TEST(ProfileBufferTest, HeaderThatIsTooLongIsRefusedAndCounted) {
  const auto buffer = Make(1, 16, 4);
  EXPECT_EQ(Write(*buffer, 0, 1, {1, 2}, {3}), ProfileWriteOutcome::kRefused);
  EXPECT_EQ(buffer->stats().refused_writes, 1u);
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, ManyRecordsComeInOrderOneByOne) {
  const auto buffer = Make(1, 16, 4);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(WriteNumber(*buffer, i, 1), ProfileWriteOutcome::kWritten);
    ExpectRead(*buffer, {4, i, i * 10, i * 100}, {i + 1});
  }
}

TEST(ProfileBufferTest, ManyRecordsComeInOrderAtOnce) {
  const auto buffer = Make(1, 64, 16);
  Words data;
  Words tags;
  for (uint64_t i = 0; i < 16; ++i) {
    WriteNumber(*buffer, i, 1);
    data.insert(data.end(), {4, i, i * 10, i * 100});
    tags.push_back(i + 1);
  }
  ExpectRead(*buffer, data, tags);
}

// --- Room ---

TEST(ProfileBufferTest, DataRingThatIsShortOfWordsDropsTheRest) {
  const auto buffer = Make(1, 16, 16);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(WriteNumber(*buffer, i, 1), ProfileWriteOutcome::kWritten);
  }
  EXPECT_EQ(WriteNumber(*buffer, 4, 1), ProfileWriteOutcome::kDropped);
  ExpectRead(*buffer, {4, 0, 0, 0, 4, 1, 10, 100, 4, 2, 20, 200, 4, 3, 30, 300},
             {1, 2, 3, 4});
  ExpectRead(*buffer, {4, 4, 0, 1}, {0});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, TagRingThatIsShortOfTagsDropsTheRest) {
  const auto buffer = Make(1, 1024, 2);
  WriteNumber(*buffer, 0, 1);
  WriteNumber(*buffer, 1, 1);
  EXPECT_EQ(WriteNumber(*buffer, 2, 1), ProfileWriteOutcome::kDropped);
  ExpectRead(*buffer, {4, 0, 0, 0, 4, 1, 10, 100}, {1, 2});
  ExpectRead(*buffer, {4, 2, 0, 1}, {0});
}

// What was returned is not given back before the next read.
TEST(ProfileBufferTest, ReturnedRecordsStayUntilTheNextRead) {
  const auto buffer = Make(1, 16, 4);
  for (uint64_t i = 0; i < 4; ++i) WriteNumber(*buffer, i, 1);
  const ProfileRecords records = buffer->Read(kNow);
  const Words data = DataOf(records);
  EXPECT_EQ(WriteNumber(*buffer, 4, 1), ProfileWriteOutcome::kDropped);
  EXPECT_EQ(DataOf(records), data);
  EXPECT_THAT(TagsOf(records), ElementsAre(1, 2, 3, 4));
  ExpectRead(*buffer, {4, 4, 0, 1}, {0});
  EXPECT_THAT(TagsOf(records), ElementsAre(0, 0, 0, 0)) << "tags are let go of";
  EXPECT_EQ(WriteNumber(*buffer, 5, 1), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {4, 5, 50, 500}, {6});
}

TEST(ProfileBufferTest, RecordThatCanNeverFitIsOneDropEach) {
  const auto buffer = Make(1, 16, 4);
  EXPECT_EQ(WriteNumber(*buffer, 0, 14), ProfileWriteOutcome::kDropped);
  EXPECT_EQ(buffer->Write(0, 1, nullptr, 0, nullptr, SIZE_MAX),
            ProfileWriteOutcome::kDropped);
  ExpectRead(*buffer, {4, 0, 0, 2}, {0});
  ExpectEmpty(*buffer);
}

// --- Wrap ---

TEST(ProfileBufferTest, RecordThatEndsWithTheRingNeedsNoRewind) {
  const auto buffer = Make(1, 16, 4);
  WriteNumber(*buffer, 0, 5);  // words 0..7
  WriteNumber(*buffer, 1, 5);  // words 8..15
  ExpectRead(*buffer,
             {8, 0, 0, 0, 1, 2, 3, 4, 8, 1, 10, 100, 101, 102, 103, 104},
             {1, 2});
  ExpectEmpty(*buffer);
  WriteNumber(*buffer, 2, 1);
  ExpectRead(*buffer, {4, 2, 20, 200}, {3});
}

TEST(ProfileBufferTest, RecordThatDoesNotFitBehindTheOthersStartsOver) {
  const auto buffer = Make(1, 16, 4);
  WriteNumber(*buffer, 0, 3);  // words 0..5
  WriteNumber(*buffer, 1, 3);  // words 6..11
  ExpectRead(*buffer, {6, 0, 0, 0, 1, 2, 6, 1, 10, 100, 101, 102}, {1, 2});
  ExpectEmpty(*buffer);
  // Four words are left at the end, and six are needed.
  EXPECT_EQ(WriteNumber(*buffer, 2, 3), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {6, 2, 20, 200, 201, 202}, {3});
  EXPECT_EQ(WriteNumber(*buffer, 3, 3), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {6, 3, 30, 300, 301, 302}, {4});
}

// Some lie before the unused end and some behind it: two reads.
TEST(ProfileBufferTest, RecordsOnBothSidesOfTheRewindComeInTwoReads) {
  const auto buffer = Make(1, 16, 8);
  WriteNumber(*buffer, 0, 3);
  ExpectRead(*buffer, {6, 0, 0, 0, 1, 2}, {1});
  ExpectEmpty(*buffer);
  WriteNumber(*buffer, 1, 3);  // words 6..11
  WriteNumber(*buffer, 2, 3);  // rewinds, words 0..5
  ExpectRead(*buffer, {6, 1, 10, 100, 101, 102}, {2});
  ExpectRead(*buffer, {6, 2, 20, 200, 201, 202}, {3});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, UnusedEndCountsAsUsedForWhoComesNext) {
  const auto buffer = Make(1, 16, 8);
  WriteNumber(*buffer, 0, 3);
  ExpectRead(*buffer, {6, 0, 0, 0, 1, 2}, {1});
  ExpectEmpty(*buffer);
  WriteNumber(*buffer, 1, 3);  // words 6..11
  WriteNumber(*buffer, 2, 3);  // words 0..5; 12..15 are unused
  EXPECT_EQ(WriteNumber(*buffer, 3, 0), ProfileWriteOutcome::kDropped);
}

TEST(ProfileBufferTest, TagsWrapOnTheirOwn) {
  const auto buffer = Make(1, 1024, 4);
  for (uint64_t i = 0; i < 3; ++i) WriteNumber(*buffer, i, 0);
  ExpectRead(*buffer, {3, 0, 0, 3, 1, 10, 3, 2, 20}, {1, 2, 3});
  ExpectEmpty(*buffer);
  for (uint64_t i = 3; i < 6; ++i) WriteNumber(*buffer, i, 0);
  // As many records as there are tags before the end of their ring.
  ExpectRead(*buffer, {3, 3, 30}, {4});
  ExpectRead(*buffer, {3, 4, 40, 3, 5, 50}, {5, 6});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, DataAndTagsWrapInOneRecord) {
  const auto buffer = Make(1, 16, 2);
  uint64_t number = 0;
  for (int round = 0; round < 100; ++round) {
    Words data;
    Words tags;
    for (int k = 0; k < 2; ++k, ++number) {
      ASSERT_EQ(WriteNumber(*buffer, number, 2), ProfileWriteOutcome::kWritten);
      data.insert(data.end(),
                  {5, number, number * 10, number * 100, number * 100 + 1});
      tags.push_back(number + 1);
    }
    Words got;
    Words got_tags;
    for (;;) {
      const ProfileRecords records = buffer->Read(kNow);
      if (records.outcome == ProfileReadOutcome::kEmpty) break;
      ASSERT_EQ(records.outcome, ProfileReadOutcome::kRecords);
      got.insert(got.end(), records.data, records.data + records.data_words);
      got_tags.insert(got_tags.end(), records.tags,
                      records.tags + records.num_tags);
    }
    ASSERT_EQ(got, data);
    ASSERT_EQ(got_tags, tags);
  }
}

// --- Overflow ---

TEST(ProfileBufferTest, ReaderTellsOfDropsWhenItHasReadAll) {
  const auto buffer = Make(1, 16, 4);
  for (uint64_t i = 0; i < 4; ++i) WriteNumber(*buffer, i, 1);
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(WriteNumber(*buffer, 1000 + i, 1), ProfileWriteOutcome::kDropped);
  }
  EXPECT_EQ(buffer->Read(kNow).num_tags, 4u);
  ExpectRead(*buffer, {4, 1000, 0, 300}, {0});
  ExpectEmpty(*buffer);
  // From 0 again.
  for (uint64_t i = 0; i < 5; ++i) WriteNumber(*buffer, i, 1);
  EXPECT_EQ(buffer->Read(kNow).num_tags, 4u);
  ExpectRead(*buffer, {4, 4, 0, 1}, {0});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, WriterTellsOfDropsOnceBothRecordsFit) {
  const auto buffer = Make(1, 32, 8);
  WriteNumber(*buffer, 0, 11);  // words 0..13
  EXPECT_EQ(buffer->Read(kNow).num_tags, 1u);
  ExpectEmpty(*buffer);
  WriteNumber(*buffer, 1, 11);  // words 14..27
  WriteNumber(*buffer, 2, 11);  // words 0..13, 28..31 are unused
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(WriteNumber(*buffer, 1000 + i, 0), ProfileWriteOutcome::kDropped);
  }
  EXPECT_EQ(buffer->Read(kNow).num_tags, 1u);
  EXPECT_EQ(WriteNumber(*buffer, 1300, 0), ProfileWriteOutcome::kDropped)
      << "nothing has been given back";
  EXPECT_EQ(buffer->Read(kNow).num_tags, 1u);
  EXPECT_EQ(WriteNumber(*buffer, 9, 1), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {4, 1000, 0, 301, 4, 9, 90, 900}, {0, 10});
  ExpectEmpty(*buffer);
}

// The ring has a gap of one record: not enough for the count and the new one.
TEST(ProfileBufferTest, RoomForTheCountAloneIsNotUsed) {
  const auto buffer = Make(1, 16, 8);
  for (uint64_t i = 0; i < 3; ++i) WriteNumber(*buffer, i, 1);  // 4 words free
  EXPECT_EQ(WriteNumber(*buffer, 3, 2), ProfileWriteOutcome::kDropped);
  EXPECT_EQ(WriteNumber(*buffer, 4, 1), ProfileWriteOutcome::kDropped)
      << "the drops come first";
  EXPECT_EQ(buffer->Read(kNow).num_tags, 3u);
  ExpectRead(*buffer, {4, 3, 0, 2}, {0});
}

TEST(ProfileBufferTest, RoomForTheCountAndTheNewRecordIsUsed) {
  const auto buffer = Make(1, 16, 8);
  WriteNumber(*buffer, 0, 1);  // words 0..3, 12 are free
  EXPECT_EQ(WriteNumber(*buffer, 1, 10), ProfileWriteOutcome::kDropped);
  EXPECT_EQ(WriteNumber(*buffer, 2, 10), ProfileWriteOutcome::kDropped);
  EXPECT_EQ(WriteNumber(*buffer, 3, 5), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer,
             {4, 0, 0, 0,                          //
              4, 1, 0, 2,                          // the drops
              8, 3, 30, 300, 301, 302, 303, 304},  //
             {1, 0, 4});
  ExpectEmpty(*buffer);
}

TEST(ProfileBufferTest, CountAtTheEndOfTheRingRewindsLikeAnyRecord) {
  const auto buffer = Make(2, 16, 8);
  Write(*buffer, 1, 1, {}, {1, 2, 3, 4, 5});  // words 0..8
  ExpectRead(*buffer, {9, 1, 0, 0, 1, 2, 3, 4, 5}, {1});
  ExpectEmpty(*buffer);
  Write(*buffer, 2, 2, {}, {6});  // words 9..13
  EXPECT_EQ(Write(*buffer, 3, 3, {}, std::vector<uintptr_t>(9, 7)),
            ProfileWriteOutcome::kDropped);
  // Two words are left: the count starts over at 0, its successor follows.
  EXPECT_EQ(Write(*buffer, 4, 4, {}, {}), ProfileWriteOutcome::kWritten);
  ExpectRead(*buffer, {5, 2, 0, 0, 6}, {2});
  ExpectRead(*buffer, {5, 3, 0, 0, 1, 4, 4, 0, 0}, {0, 4});
}

// --- Blocking and the end ---

pid_t ThreadId() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// A reader on a thread of its own, asleep in Read.
class SleepingReader {
 public:
  explicit SleepingReader(ProfileBuffer& buffer)
      : thread_([this, &buffer] {
          tid_ = ThreadId();
          records_ = buffer.Read(kWait);
        }) {
    test::AwaitAsleep(tid_);
  }
  ProfileRecords Join() {
    thread_.join();
    return records_;
  }

 private:
  std::atomic<pid_t> tid_{0};
  ProfileRecords records_;
  std::thread thread_;
};

TEST(ProfileBufferTest, BlockedReadWakesForData) {
  const auto buffer = Make(1, 16, 4);
  SleepingReader reader(*buffer);
  WriteNumber(*buffer, 5, 1);
  EXPECT_THAT(DataOf(reader.Join()), ElementsAre(4, 5, 50, 500));
}

TEST(ProfileBufferTest, BlockedReadWakesForDrops) {
  const auto buffer = Make(1, 4, 1);
  SleepingReader reader(*buffer);
  WriteNumber(*buffer, 5, 8);
  EXPECT_THAT(DataOf(reader.Join()), ElementsAre(4, 5, 0, 1));
}

TEST(ProfileBufferTest, BlockedReadWakesForTheEnd) {
  const auto buffer = Make(1, 16, 4);
  SleepingReader reader(*buffer);
  buffer->Close();
  EXPECT_EQ(reader.Join().outcome, ProfileReadOutcome::kEnd);
}

TEST(ProfileBufferTest, EndComesLastAndForGood) {
  const auto buffer = Make(1, 16, 4);
  for (uint64_t i = 0; i < 5; ++i) WriteNumber(*buffer, i, 1);
  buffer->Close();
  EXPECT_EQ(WriteNumber(*buffer, 9, 1), ProfileWriteOutcome::kClosed);
  EXPECT_EQ(buffer->Read(kWait).num_tags, 4u);
  ExpectRead(*buffer, {4, 4, 0, 1}, {0}, kWait);
  EXPECT_EQ(buffer->Read(kWait).outcome, ProfileReadOutcome::kEnd);
  EXPECT_EQ(buffer->Read(kNow).outcome, ProfileReadOutcome::kEnd);
}

TEST(ProfileBufferTest, SecondCloseIsIgnoredAndCounted) {
  const auto buffer = Make(1, 16, 4);
  buffer->Close();
  buffer->Close();
  EXPECT_EQ(buffer->stats().ignored_closes, 1u);
  EXPECT_EQ(buffer->Read(kWait).outcome, ProfileReadOutcome::kEnd);
}

TEST(ProfileBufferTest, EmptyIsNotTheEnd) {
  const auto buffer = Make(1, 16, 4);
  ExpectEmpty(*buffer);
  ExpectEmpty(*buffer);
  WriteNumber(*buffer, 0, 1);
  ExpectRead(*buffer, {4, 0, 0, 0}, {1});
}

// An overflow and a close behind it, both for one sleeper; and again.
TEST(ProfileBufferTest, TwoWakeUpsForOneSleepAreHarmless) {
  for (int round = 0; round < 50; ++round) {
    const auto buffer = Make(1, 4, 1);
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (buffer->Read(kWait).outcome != ProfileReadOutcome::kEnd) {
      }
      done = true;
    });
    for (int i = 0; i < 100; ++i) WriteNumber(*buffer, 1, 8);
    WriteNumber(*buffer, 1, 1);
    WriteNumber(*buffer, 1, 8);
    buffer->Close();
    reader.join();
    EXPECT_TRUE(done);
  }
}

TEST(ProfileBufferTest, WakeThresholdLetsTheReaderSleepOverSmallWrites) {
  const auto buffer = Make(1, 64, 16, 12);
  SleepingReader reader(*buffer);
  WriteNumber(*buffer, 0, 1);
  WriteNumber(*buffer, 1, 1);
  WriteNumber(*buffer, 2, 1);
  EXPECT_EQ(reader.Join().num_tags, 3u);
}

TEST(ProfileBufferTest, DropsAndTheEndWakeBelowTheThreshold) {
  const auto buffer = Make(1, 64, 2, 64);
  SleepingReader reader(*buffer);
  for (uint64_t i = 0; i < 3; ++i) WriteNumber(*buffer, i, 1);
  EXPECT_EQ(reader.Join().num_tags, 2u);
  ExpectRead(*buffer, {4, 2, 0, 1}, {0});
  SleepingReader last(*buffer);
  buffer->Close();
  EXPECT_EQ(last.Join().outcome, ProfileReadOutcome::kEnd);
}

TEST(ProfileBufferTest, WritingKeepsErrno) {
  const auto buffer = Make(1, 16, 1);
  SleepingReader reader(*buffer);
  errno = 1234;
  WriteNumber(*buffer, 0, 1);
  WriteNumber(*buffer, 1, 1);
  buffer->Close();
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(reader.Join().outcome, ProfileReadOutcome::kRecords);
}

// --- Damage ---

TEST(ProfileBufferTest, DamagedBufferIsAnErrorForGood) {
  for (const uint64_t size :
       {uint64_t{1}, uint64_t{2}, uint64_t{9}, UINT64_MAX}) {
    const auto buffer = Make(1, 16, 4);
    WriteNumber(*buffer, 0, 1);
    const ProfileRecords first = buffer->Read(kNow);
    WriteNumber(*buffer, 1, 1);
    // Where the second record's size stands.
    const_cast<uint64_t*>(first.data)[4] = size;
    EXPECT_EQ(buffer->Read(kNow).outcome, ProfileReadOutcome::kMalformed);
    EXPECT_EQ(buffer->Read(kWait).outcome, ProfileReadOutcome::kMalformed);
    WriteNumber(*buffer, 2, 1);
  }
}

// --- Counts ---

using internal::CountSub;
using internal::ProfileIndex;

TEST(ProfileIndexTest, PartsShareOneWord) {
  const ProfileIndex index(0xffff'fffe'1234'5678);
  EXPECT_EQ(index.data_count(), 0x1234'5678u);
  EXPECT_EQ(index.tag_count(), 0x3fff'ffffu);
  EXPECT_TRUE(index.extra());
  EXPECT_FALSE(index.reader_sleeping());
  EXPECT_EQ(ProfileIndex::kReaderSleeping, 0x1'0000'0000u);
  EXPECT_EQ(ProfileIndex::kExtra, 0x2'0000'0000u);
}

TEST(ProfileIndexTest, AddingMovesBothCountsAndClearsTheFlags) {
  const ProfileIndex index = ProfileIndex(0).With(
      ProfileIndex::kReaderSleeping | ProfileIndex::kExtra);
  const ProfileIndex moved = index.AddCountsAndClearFlags(7, 1);
  EXPECT_EQ(moved.word(), (uint64_t{1} << 34) + 7);
}

TEST(ProfileIndexTest, EachCountWrapsAlone) {
  const ProfileIndex last =
      ProfileIndex(0).AddCountsAndClearFlags(0xffff'ffff, 0x3fff'ffff);
  EXPECT_EQ(last.data_count(), 0xffff'ffffu);
  EXPECT_EQ(last.tag_count(), 0x3fff'ffffu);
  EXPECT_EQ(last.AddCountsAndClearFlags(1, 0).data_count(), 0u);
  EXPECT_EQ(last.AddCountsAndClearFlags(1, 0).tag_count(), 0x3fff'ffffu);
  EXPECT_EQ(last.AddCountsAndClearFlags(0, 1).tag_count(), 0u);
  EXPECT_EQ(last.AddCountsAndClearFlags(0, 1).data_count(), 0xffff'ffffu);
}

TEST(ProfileIndexTest, DifferencesBelow2To29AreRightAcrossBothWraps) {
  constexpr uint32_t kPremise = 1u << 29;
  for (const uint32_t y : {0u, 1u, 0x3fff'fff0u, 0xffff'fff0u, 0x2000'0000u}) {
    for (const uint32_t d : {0u, 1u, 15u, 16u, 17u, kPremise - 1}) {
      const auto signed_d = static_cast<int32_t>(d);
      EXPECT_EQ(CountSub(y + d, y), signed_d);
      EXPECT_EQ(CountSub(y, y + d), -signed_d);
      // Tag counts have 30 bits only.
      EXPECT_EQ(CountSub((y + d) & 0x3fff'ffff, y & 0x3fff'ffff), signed_d);
    }
  }
}

}  // namespace
}  // namespace tracering
