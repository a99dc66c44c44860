// CpuProfiler against a service that is played by the test: what samples say,
// what is counted, and what it leaves behind. How many samples a timer gives is
// up to the machine; tests wait for those they need.
#include "tracering/cpu_profiler.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/producer/scripted_service.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/profile_sample.h"
#include "tests/support/sanitizers.h"
#include "tests/support/scoped_limit.h"
#include "tests/support/temp_dir.h"
#include "tracering/clock.h"

// Named in samples; see the CMake file for their frame pointers.
namespace profiled {

std::atomic<bool> stop{false};

// On the stack: gcc gives a leaf function that uses none of it no frame.
__attribute__((noinline)) uint64_t Spin(uint64_t seed) {
  uint64_t state = seed;
  for (int i = 0; i < 5'000; ++i) {
    asm volatile("" : "+m"(state));
    state = state * 6364136223846793005 + 1442695040888963407;
  }
  return state;
}

__attribute__((noinline)) uint64_t SpinUntilStopped() {
  uint64_t sum = 1;
  while (!stop.load(std::memory_order_relaxed)) sum += Spin(sum);
  return sum;
}

__attribute__((noinline)) uint64_t Recurse(int depth) {
  const uint64_t sum = depth == 0 ? SpinUntilStopped() : Recurse(depth - 1);
  asm volatile("" ::: "memory");
  return sum + 1;
}

}  // namespace profiled

namespace tracering {
namespace {

using test::DecodeSample;
using test::DrainingService;
using test::Eventually;
using test::ProfileSample;
using test::ScopedLimit;
using test::TracePacket;
using testing::Contains;
using testing::HasSubstr;

constexpr std::chrono::seconds kLong(30);

class CpuProfilerTest : public testing::Test {
 protected:
  CpuProfilerTest() {
    profiled::stop = false;
    ProducerOptions options;
    options.name = "profiled";
    options.socket_path = directory_.Path("service.sock");
    options.ring_size = size_t{8} << 20;
    service_ = std::make_unique<DrainingService>(options.socket_path);
    auto producer = Producer::Create(options);
    EXPECT_TRUE(producer.ok()) << producer.status();
    producer_ = *std::move(producer);
    EXPECT_TRUE(producer_->WaitForConsumer(kLong));
  }

  std::unique_ptr<CpuProfiler> Start(uint32_t frequency_hz) {
    CpuProfilerOptions options;
    options.frequency_hz = frequency_hz;
    options.scan_period = std::chrono::milliseconds(5);
    auto profiler = CpuProfiler::Start(*producer_, options);
    EXPECT_TRUE(profiler.ok()) << profiler.status();
    return *std::move(profiler);
  }

  // Runs `body` on a thread of its own until there are so many samples.
  static void SampleThread(CpuProfiler& profiler, uint64_t samples,
                           const std::function<void()>& body) {
    std::thread thread(body);
    const uint64_t enough = profiler.stats().samples + samples;
    EXPECT_TRUE(Eventually([&] { return profiler.stats().samples >= enough; }));
    profiled::stop = true;
    thread.join();
    profiled::stop = false;
  }

  // All samples that reached the service. Ends the producer.
  std::vector<ProfileSample> Samples() {
    EXPECT_TRUE(producer_->Flush(kLong).ok());
    EXPECT_EQ(producer_->stats().lost, 0u);
    producer_ = nullptr;
    service_->Stop();
    std::vector<ProfileSample> samples;
    for (const auto& client : service_->clients()) {
      for (const TracePacket& packet : client.session->Packets()) {
        if (packet.has_perf_sample()) samples.push_back(DecodeSample(packet));
      }
    }
    return samples;
  }

  static void ExpectExact(const CpuProfilerStats& stats,
                          const std::vector<ProfileSample>& samples) {
    EXPECT_EQ(stats.attempted, stats.samples + stats.lost());
    uint64_t lost = 0;
    uint64_t taken = 0;
    uint64_t truncated = 0;
    for (const ProfileSample& sample : samples) {
      lost += sample.lost;
      if (sample.lost == 0) ++taken;
      if (sample.truncated) ++truncated;
    }
    EXPECT_EQ(taken, stats.samples);
    EXPECT_EQ(lost, stats.lost());
    EXPECT_EQ(truncated, stats.truncated);
  }

  static struct sigaction Disposition() {
    struct sigaction present {};
    EXPECT_EQ(sigaction(SIGPROF, nullptr, &present), 0);
    return present;
  }

  const test::TempDir directory_;
  std::unique_ptr<DrainingService> service_;
  std::unique_ptr<Producer> producer_;
};

TEST_F(CpuProfilerTest, SamplesNameTheirStackRootFirst) {
  auto profiler = Start(1000);
  SampleThread(*profiler, 50, [] { profiled::SpinUntilStopped(); });
  profiler->Stop();
  const CpuProfilerStats stats = profiler->stats();
  const std::vector<ProfileSample> samples = Samples();
  ExpectExact(stats, samples);
  EXPECT_GE(stats.samples, 50u);
  uint64_t spinning = 0;
  for (const ProfileSample& sample : samples) {
    for (size_t i = 0; i + 1 < sample.frames.size(); ++i) {
      if (sample.frames[i].function == "profiled::SpinUntilStopped()" &&
          sample.frames[i + 1].function == "profiled::Spin(unsigned long)") {
        ++spinning;
        EXPECT_THAT(sample.frames[i].module, HasSubstr("cpu_profiler_test"));
      }
    }
  }
  if (!test::kThreadSanitizer) {  // which delays signals to its own calls
    EXPECT_GT(spinning, stats.samples / 3) << ToString(samples[0]);
  }
}

TEST_F(CpuProfilerTest, ThreadsThatAreBornLaterAreSampled) {
  auto profiler = Start(1000);
  std::set<uint32_t> born;
  for (int i = 0; i < 3; ++i) {
    // Enough of them that not all are of threads which wait for this one.
    SampleThread(*profiler, 50, [&born] {
      born.insert(static_cast<uint32_t>(gettid()));
      profiled::SpinUntilStopped();
    });
  }
  profiler->Stop();
  EXPECT_EQ(profiler->stats().threads, 0u);
  std::set<uint32_t> sampled;
  for (const ProfileSample& sample : Samples()) sampled.insert(sample.tid);
  for (const uint32_t tid : born) EXPECT_THAT(sampled, Contains(tid));
}

TEST_F(CpuProfilerTest, ThreadsThatTracedAndEndedUnseenAreCounted) {
  CpuProfilerOptions options;
  options.frequency_hz = 1;
  options.scan_period = std::chrono::milliseconds(200);
  auto profiler = CpuProfiler::Start(*producer_, options);
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  // Some may be seen by the scan in their midst.
  EXPECT_TRUE(Eventually([&] {
    std::thread([&] { producer_->ThreadWriter("main"); }).join();
    return (*profiler)->stats().unsampled_threads > 0;
  }));
}

TEST_F(CpuProfilerTest, DeepStacksAreTruncatedAndMarked) {
  auto profiler = Start(1000);
  SampleThread(*profiler, 20, [] { profiled::Recurse(200); });
  profiler->Stop();
  const CpuProfilerStats stats = profiler->stats();
  const std::vector<ProfileSample> samples = Samples();
  ExpectExact(stats, samples);
  if (!test::kThreadSanitizer) {
    EXPECT_GT(stats.truncated, 0u);
  }
  for (const ProfileSample& sample : samples) {
    EXPECT_LE(sample.frames.size(), 64u);
    if (sample.truncated) {
      EXPECT_EQ(sample.frames.size(), 64u);
      EXPECT_TRUE(sample.Has("profiled::Recurse"));
    }
  }
}

#if defined(__x86_64__)
// Uses the frame pointer for something else, as code without one does.
__attribute__((noinline)) void SpinWithFramePointer(uint64_t value) {
  while (!profiled::stop.load(std::memory_order_relaxed)) {
    asm volatile(
        "push %%rbp\n mov %0, %%rbp\n mov $10000, %%ecx\n"
        "1: dec %%ecx\n jnz 1b\n pop %%rbp"
        :
        : "r"(value)
        : "ecx", "memory", "cc");
  }
}

TEST_F(CpuProfilerTest, BrokenFramePointersLeaveThePc) {
  auto profiler = Start(1000);
  uint64_t cycle[2] = {reinterpret_cast<uintptr_t>(cycle), 0x401000};
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{0x5555'0000'0000}, UINT64_MAX - 7,
        uint64_t{reinterpret_cast<uintptr_t>(cycle)}}) {
    SampleThread(*profiler, 3, [value] { SpinWithFramePointer(value); });
  }
  profiler->Stop();
  const CpuProfilerStats stats = profiler->stats();
  ExpectExact(stats, Samples());
}
#endif

TEST_F(CpuProfilerTest, ModulesMayBeUnloadedAtAnyTime) {
  auto profiler = Start(10'000);
  for (int i = 0; i < 20; ++i) {
    void* plugin = dlopen(TRACERING_PROFILED_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto spin = reinterpret_cast<uint64_t (*)(const std::atomic<bool>*)>(
        dlsym(plugin, "ProfiledPluginSpin"));
    ASSERT_NE(spin, nullptr);
    SampleThread(*profiler, i % 2 == 0 ? 10 : 1,
                 [spin] { spin(&profiled::stop); });
    dlclose(plugin);
  }
  profiler->Stop();
  const CpuProfilerStats stats = profiler->stats();
  uint64_t named = 0;
  const std::vector<ProfileSample> samples = Samples();
  ExpectExact(stats, samples);
  for (const ProfileSample& sample : samples) {
    if (sample.Has("ProfiledPluginSpin")) ++named;
  }
  if (!test::kThreadSanitizer) {
    EXPECT_GT(named, 10u);
  }
}

TEST_F(CpuProfilerTest, LabelsAreTheRootAndNest) {
  auto profiler = Start(1000);
  const ScopedProfileLabel of_another_thread("of another thread");
  SampleThread(*profiler, 10, [] {
    const ScopedProfileLabel outer("outer");
    {
      const ScopedProfileLabel inner("inner");
      const ScopedProfileLabel same("inner");
    }
    profiled::SpinUntilStopped();
  });
  SampleThread(*profiler, 10, [] {
    const ScopedProfileLabel outer("outer");
    const ScopedProfileLabel inner(std::string(300, 'x'));
    profiled::SpinUntilStopped();
  });
  profiler->Stop();
  std::set<std::string> labels;
  for (const ProfileSample& sample : Samples()) {
    if (sample.Has("profiled::Spin")) labels.insert(sample.label());
  }
  if (!test::kThreadSanitizer) {
    EXPECT_THAT(labels, Contains("outer"));
    EXPECT_THAT(labels, Contains(std::string(255, 'x')));
  }
  EXPECT_EQ(labels.count("of another thread"), 0u);
}

TEST_F(CpuProfilerTest, EverySignalIsASampleOrALoss) {
  constexpr uint64_t kThreads = 4;
  const uint64_t signals = test::kSanitized ? 500 : 5000;
  CpuProfilerOptions options;
  options.frequency_hz = 1;  // the signals are the test's own
  options.data_words = 1024;
  auto profiler = CpuProfiler::Start(*producer_, options);
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  std::atomic<uint64_t> errno_changes{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < signals; ++n) {
        errno = 77;
        raise(SIGPROF);  // handled before it returns
        if (errno != 77) ++errno_changes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*profiler)->Stop();
  const CpuProfilerStats stats = (*profiler)->stats();
  EXPECT_GE(stats.attempted, kThreads * signals);
  EXPECT_LT(stats.attempted, kThreads * signals + 100);
  EXPECT_GT(stats.lost_overflow, 0u);
  EXPECT_EQ(errno_changes, 0u);
  ExpectExact(stats, Samples());
}

TEST_F(CpuProfilerTest, ThousandStartsAndStopsWithSignalsPending) {
  std::vector<std::thread> threads;
  std::atomic<bool> blocked;
  for (int i = 0; i < 2; ++i) {
    blocked = false;
    threads.emplace_back([&blocked, i] {
      if (i == 1) {  // keeps what it is sent pending
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGPROF);
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
      }
      blocked.store(true);
      profiled::SpinUntilStopped();
      if (i == 1) {  // none must have been left
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGPROF);
        pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return blocked.load(); }));
  const int rounds = test::kSanitized ? 100 : 1000;
  for (int i = 0; i < rounds; ++i) {
    auto profiler = Start(10'000);
    pthread_kill(threads[1].native_handle(), SIGPROF);
    if (i % 10 == 0) {
      EXPECT_TRUE(Eventually([&] { return profiler->stats().attempted > 0; }));
    }
    profiler->Stop();
    profiler->Stop();
    const CpuProfilerStats stats = profiler->stats();
    ASSERT_EQ(stats.attempted, stats.samples + stats.lost());
    ASSERT_EQ(Disposition().sa_handler, SIG_DFL);
  }
  profiled::stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CpuProfilerTest, BadOptionsAreNamed) {
  for (const uint32_t frequency : {0u, 10'001u}) {
    CpuProfilerOptions options;
    options.frequency_hz = frequency;
    const absl::Status status =
        CpuProfiler::Start(*producer_, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              "frequency_hz is " + std::to_string(frequency) +
                  "; it must be from 1 to 10000");
  }
  CpuProfilerOptions options;
  options.buffer = "";
  EXPECT_FALSE(CpuProfiler::Start(*producer_, options).ok());
  options = {};
  options.scan_period = std::chrono::milliseconds(0);
  EXPECT_FALSE(CpuProfiler::Start(*producer_, options).ok());
  options = {};
  options.data_words = size_t{1} << 40;
  EXPECT_FALSE(CpuProfiler::Start(*producer_, options).ok());
  EXPECT_TRUE(CpuProfiler::Start(*producer_, {}).ok());
}

TEST_F(CpuProfilerTest, ThereIsOneAtATime) {
  auto first = Start(100);
  const auto second = CpuProfiler::Start(*producer_, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("only one"));
  first = nullptr;
  EXPECT_NE(Start(100), nullptr);
}

std::atomic<int> own_signals{0};
void OwnHandler(int) { own_signals.fetch_add(1, std::memory_order_relaxed); }

TEST_F(CpuProfilerTest, TheProgramsOwnHandlerIsLeftAlone) {
  ASSERT_NE(signal(SIGPROF, OwnHandler), SIG_ERR);
  const auto refused = CpuProfiler::Start(*producer_, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("SIGPROF handler of its own"));
  EXPECT_EQ(Disposition().sa_handler, OwnHandler);
  raise(SIGPROF);
  EXPECT_EQ(own_signals, 1);
  signal(SIGPROF, SIG_DFL);
  auto profiler = Start(100);
  // One that comes later gets the signals, and stays.
  signal(SIGPROF, OwnHandler);
  profiler->Stop();
  EXPECT_EQ(Disposition().sa_handler, OwnHandler);
  signal(SIGPROF, SIG_DFL);
}

TEST_F(CpuProfilerTest, WhatSigprofDidBeforeIsRestored) {
  for (const auto before : {SIG_IGN, SIG_DFL}) {
    signal(SIGPROF, before);
    auto profiler = Start(10'000);
    EXPECT_NE(Disposition().sa_flags & SA_SIGINFO, 0);
    SampleThread(*profiler, 1, [] { profiled::SpinUntilStopped(); });
    profiler = nullptr;
    EXPECT_EQ(Disposition().sa_handler, before);
  }
}

TEST_F(CpuProfilerTest, TheProducerMayGoFirst) {
  auto profiler = Start(1000);
  producer_ = nullptr;
  SampleThread(*profiler, 10, [] { profiled::SpinUntilStopped(); });
  profiler->Stop();
  EXPECT_GE(profiler->stats().samples, 10u);
}

TEST_F(CpuProfilerTest, AForkedChildIsNotSampledAndCanProfileItself) {
  if (test::kSanitized) GTEST_SKIP() << "no threads in a forked child";
  auto profiler = Start(10'000);
  std::thread busy([] { profiled::SpinUntilStopped(); });
  for (int i = 0; i < 20; ++i) {
    test::ChildProcess child = test::ChildProcess::Fork([&] {
      raise(SIGPROF);
      if (profiler->stats().attempted != 0) return 1;
      profiler->Stop();
      profiler = nullptr;
      raise(SIGPROF);
      producer_ = nullptr;
      auto producer = Producer::Create({});
      if (!producer.ok()) return 2;
      auto own = CpuProfiler::Start(**producer, {});
      if (!own.ok()) return 3;
      raise(SIGPROF);
      (*own)->Stop();
      if ((*own)->stats().attempted < 1) return 4;
      return 0;
    });
    const auto end = child.Wait();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->signal, 0);
    EXPECT_EQ(end->code, 0) << child.error_output();
  }
  profiled::stop = true;
  busy.join();
  profiler->Stop();
  const CpuProfilerStats stats = profiler->stats();
  ExpectExact(stats, Samples());
}

// A thread that blocks all signals from its first moment on: no look at the
// threads finds it before it does.
std::thread StartBlocked(const std::function<void()>& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(body);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// Once it took our signal out of sigwait.
TEST_F(CpuProfilerTest, AThreadThatBlocksTheSignalIsLeftAlone) {
  auto profiler = Start(10'000);
  std::atomic<bool> got{false};
  std::thread thread = StartBlocked([&] {
    profiled::SpinUntilStopped();
    sigset_t pending;
    sigpending(&pending);
    got = sigismember(&pending, SIGPROF) == 1;
  });
  EXPECT_TRUE(Eventually([&] { return profiler->stats().threads > 0; }));
  const uint64_t samples = profiler->stats().samples;
  std::thread busy([] { profiled::SpinUntilStopped(); });
  EXPECT_TRUE(
      Eventually([&] { return profiler->stats().samples > samples + 20; }));
  EXPECT_TRUE(
      Eventually([&] { return profiler->stats().unsampled_threads > 0; }));
  profiled::stop = true;
  thread.join();
  busy.join();
  EXPECT_FALSE(got);
}

// It is asked again, though ever less often.
TEST_F(CpuProfilerTest, AThreadThatNoLongerBlocksTheSignalIsSampled) {
  auto profiler = Start(1000);
  const uint64_t unsampled = profiler->stats().unsampled_threads;
  std::atomic<bool> refused{false};
  std::thread thread = StartBlocked([&] {
    EXPECT_TRUE(Eventually(
        [&] { return profiler->stats().unsampled_threads > unsampled; }));
    refused = true;
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    profiled::SpinUntilStopped();
  });
  EXPECT_TRUE(Eventually([&] { return refused.load(); }));
  const uint64_t samples = profiler->stats().samples;
  EXPECT_TRUE(Eventually([&] { return profiler->stats().samples > samples; }));
  profiled::stop = true;
  thread.join();
}

// Nothing of the program's may run on top of the handler and leave it by a jump
// or by unwinding.
TEST_F(CpuProfilerTest, NoSignalInterruptsTheHandler) {
  auto profiler = Start(100);
  const struct sigaction present = Disposition();
  for (int number = 1; number < SIGRTMIN; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    const auto* const mask =
        reinterpret_cast<const unsigned char*>(&present.sa_mask);
    EXPECT_TRUE(mask[(number - 1) / 8] >> ((number - 1) % 8) & 1) << number;
  }
}

// Once the end of the process: std::terminate in a destructor.
TEST_F(CpuProfilerTest, ACancellationWaitsForTheEndOfTheProfiler) {
  auto profiler = Start(100);
  std::atomic<bool> stopped{false};
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    profiler->Stop();
    profiler = nullptr;
    producer_ = nullptr;
    stopped = true;
    pthread_testcancel();
    ADD_FAILURE() << "not cancelled";
  });
  thread.join();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(Disposition().sa_handler, SIG_DFL);
}

TEST_F(CpuProfilerTest, ATimerThatTheProgramPutInPlaceOfOursStays) {
  const ScopedLimit no_timers(RLIMIT_SIGPENDING, 0);
  auto profiler = Start(100);
  ASSERT_TRUE(profiler->stats().process_timer);
  itimerval own{};
  own.it_interval.tv_sec = own.it_value.tv_sec = 1000;
  ASSERT_EQ(setitimer(ITIMER_PROF, &own, nullptr), 0);
  profiler->Stop();
  itimerval left{};
  ASSERT_EQ(getitimer(ITIMER_PROF, &left), 0);
  EXPECT_EQ(left.it_interval.tv_sec, 1000);
  own = {};
  setitimer(ITIMER_PROF, &own, nullptr);
}

// As a program may have for each of its tasks. The first sample of a process
// once took twice as much as the others.
TEST_F(CpuProfilerTest, ASampleFitsOnASmallStack) {
  if (test::kSanitized) GTEST_SKIP() << "their frames are larger";
  constexpr size_t kPage = 4096;
  // The kernel's own frame takes most of it.
  const size_t bytes = static_cast<size_t>(getauxval(AT_MINSIGSTKSZ)) + 2048;
  const size_t pages = (bytes + kPage - 1) / kPage + 1;
  char* memory =
      static_cast<char*>(mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory, kPage, PROT_NONE), 0);
  auto profiler = Start(1);
  static ucontext_t main;
  ucontext_t fiber;
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = memory + pages * kPage - bytes;
  fiber.uc_stack.ss_size = bytes;
  fiber.uc_link = &main;
  makecontext(
      &fiber, [] { raise(SIGPROF); }, 0);
  const uint64_t before = profiler->stats().attempted;
  swapcontext(&main, &fiber);
  EXPECT_GE(profiler->stats().attempted, before + 1);
  profiler->Stop();
  munmap(memory, pages * kPage);
}

TEST_F(CpuProfilerTest, WithoutTimersTheProcessIsSampled) {
  const ScopedLimit no_timers(RLIMIT_SIGPENDING, 0);
  auto profiler = Start(1000);
  EXPECT_TRUE(profiler->stats().process_timer);
  SampleThread(*profiler, 10, [] { profiled::SpinUntilStopped(); });
  profiler->Stop();
  itimerval left{};
  getitimer(ITIMER_PROF, &left);
  EXPECT_EQ(left.it_value.tv_sec + left.it_value.tv_usec, 0);
  EXPECT_EQ(Disposition().sa_handler, SIG_DFL);
  const CpuProfilerStats stats = profiler->stats();
  ExpectExact(stats, Samples());
}

// Last: it fills the table of this process.
TEST_F(CpuProfilerTest, LabelsBeyondTheTableAreDroppedAndCounted) {
  const uint64_t before = ScopedProfileLabel::dropped();
  for (int i = 0; i < 5000; ++i) {
    const ScopedProfileLabel label("label " + std::to_string(i));
  }
  EXPECT_GE(ScopedProfileLabel::dropped() - before, 5000u - 4096);
  const uint64_t dropped = ScopedProfileLabel::dropped();
  const ScopedProfileLabel known("label 1");
  EXPECT_EQ(ScopedProfileLabel::dropped(), dropped);
}

}  // namespace
}  // namespace tracering
