// Writer and reader at the same time, by identity: numbered events come in
// order, and each is read or counted. A writer that is a signal handler
// interrupts the reader's own thread. Shows the interleavings that happened.
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "tests/support/sanitizers.h"
#include "tracering/profile_buffer.h"

namespace tracering {
namespace {

// Event i: time i, header i, a stack of i % 7 words.
ProfileWriteOutcome WriteEvent(ProfileBuffer& buffer, uint64_t i) {
  uintptr_t stack[7];
  for (uintptr_t& word : stack) word = i;
  return buffer.Write(i + 1, i, &i, 1, stack, i % 7);
}

// Follows the numbers through what is read.
class Follower {
 public:
  void Add(const ProfileRecords& records) {
    size_t at = 0;
    for (size_t i = 0; i < records.num_tags; ++i) {
      const uint64_t* record = records.data + at;
      ASSERT_EQ(record[1], next_);
      if (records.tags[i] == 0) {
        ASSERT_EQ(record[0], 4u);
        ASSERT_EQ(record[2], 0u);
        dropped_ += record[3];
        next_ += record[3];
      } else {
        ASSERT_EQ(records.tags[i], next_ + 1);
        ASSERT_EQ(record[0], 3 + next_ % 7);
        ASSERT_EQ(record[2], next_);
        for (size_t k = 3; k < record[0]; ++k) ASSERT_EQ(record[k], next_);
        ++read_;
        ++next_;
      }
      at += record[0];
    }
    ASSERT_EQ(at, records.data_words);
  }
  uint64_t next() const { return next_; }
  uint64_t read() const { return read_; }
  uint64_t dropped() const { return dropped_; }

 private:
  uint64_t next_ = 0;
  uint64_t read_ = 0;
  uint64_t dropped_ = 0;
};

class ProfileStressTest : public testing::TestWithParam<size_t> {};

TEST_P(ProfileStressTest, EveryEventIsReadOrCountedInOrder) {
  const uint64_t events = test::kSanitized ? 10'000 : 100'000;
  auto buffer = ProfileBuffer::Create({1, 64, 8, GetParam()});
  ASSERT_TRUE(buffer.ok());
  uint64_t written = 0;
  std::thread writer([&] {
    for (uint64_t i = 0; i < events; ++i) {
      if (WriteEvent(**buffer, i) == ProfileWriteOutcome::kWritten) ++written;
      if (i % 16 == 0) std::this_thread::yield();
    }
    (*buffer)->Close();
  });
  Follower follower;
  for (;;) {
    const ProfileRecords records = (*buffer)->Read(ProfileReadMode::kBlocking);
    if (records.outcome == ProfileReadOutcome::kEnd) break;
    ASSERT_EQ(records.outcome, ProfileReadOutcome::kRecords);
    follower.Add(records);
    if (HasFatalFailure()) break;
  }
  writer.join();
  EXPECT_EQ(follower.next(), events);
  EXPECT_EQ(follower.read(), written);
  EXPECT_EQ(follower.dropped(), events - written);
}

INSTANTIATE_TEST_SUITE_P(Thresholds, ProfileStressTest,
                         testing::Values(0, 1, 20, 64));

// --- A handler that interrupts the reader ---

std::atomic<ProfileBuffer*> signal_buffer{nullptr};
std::atomic<uint64_t> signal_events{0};

void OnSignal(int) {
  ProfileBuffer* const buffer = signal_buffer.load();
  if (buffer == nullptr) return;
  // Several, so that the small ring overflows now and then.
  for (int i = 0; i < 3; ++i) WriteEvent(*buffer, signal_events++);
}

TEST(ProfileSignalTest, HandlerMayInterruptTheReaderAnywhere) {
  const uint64_t events = test::kSanitized ? 3'000 : 15'000;
  auto buffer = ProfileBuffer::Create({1, 32, 4});
  ASSERT_TRUE(buffer.ok());
  signal_events = 0;
  signal_buffer = buffer->get();
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGPROF, &action, &before), 0);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer;
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  itimerspec period = {};
  period.it_interval.tv_nsec = period.it_value.tv_nsec = 100'000;
  ASSERT_EQ(timer_settime(timer, 0, &period, nullptr), 0);

  Follower follower;
  bool block = false;
  while (signal_events < events) {
    // Asleep in Read, only the handler on this very thread can end it.
    block = !block;
    errno = 77;
    const ProfileRecords records = (*buffer)->Read(
        block ? ProfileReadMode::kBlocking : ProfileReadMode::kNonBlocking);
    EXPECT_EQ(errno, 77);
    follower.Add(records);
    if (HasFatalFailure()) break;
  }
  timer_delete(timer);
  // A signal may be pending still: it runs before this returns.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  signal_buffer = nullptr;
  sigaction(SIGPROF, &before, nullptr);
  (*buffer)->Close();
  for (;;) {
    const ProfileRecords records = (*buffer)->Read(ProfileReadMode::kBlocking);
    if (records.outcome == ProfileReadOutcome::kEnd) break;
    follower.Add(records);
  }
  EXPECT_EQ(follower.next(), signal_events);
  EXPECT_GT(follower.read(), 0u);
  EXPECT_GT(follower.dropped(), 0u);
}

}  // namespace
}  // namespace tracering
