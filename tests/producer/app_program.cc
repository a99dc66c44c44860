// An instrumented program that ends, forks or traces in one of many awkward
// ways, for tests that look at it from outside. argv[1] says which way; the
// service is where $TRACERING_SOCKET says.
//
// Prints `attempted=N lost=N` of what the parent process traced, where its
// end leaves time for that. Anything unexpected ends it with status 9.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/program_require.h"
#include "tests/support/sanitizers.h"
#include "tracering/producer.h"
#include "tracering/trace_fields.h"

// What other threads held when a child was forked is nobody's there, which is
// no leak of ours: only the program itself is looked at.
static const pid_t program = getpid();
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" int __lsan_is_turned_off() { return getpid() != program ? 1 : 0; }

namespace {

using tracering::OwnedTraceWriter;
using tracering::Producer;
using tracering::ProducerOptions;
using tracering::TraceWriter;
using tracering::test::program::kUnexpected;
using tracering::test::program::Require;

constexpr std::chrono::seconds kLong(30);

std::unique_ptr<Producer> CreateProducer(const char* name) {
  ProducerOptions options;
  options.name = name;
  // Whoever is attached drains: nothing is lost.
  options.writer_options.policy = tracering::BufferExhaustedPolicy::kStall;
  options.writer_options.stall_timeout = kLong;
  auto producer = Producer::Create(options);
  Require(producer.ok(), "a producer can be created");
  Require((*producer)->WaitForConsumer(kLong), "a consumer attaches");
  return *std::move(producer);
}

// A numbered packet, as tests/support/accounting.h knows it.
void Trace(TraceWriter& writer, uint64_t number, uint64_t index) {
  namespace annotation = tracering::debug_annotation;
  tracering::Packet packet = writer.NewPacket();
  packet.AppendVarint(tracering::trace_packet::kTimestamp, index + 1);
  tracering::Message event =
      packet.BeginMessage(tracering::trace_packet::kTrackEvent);
  event.AppendVarint(tracering::track_event::kType,
                     tracering::track_event::kTypeInstant);
  for (const auto& [name, value] :
       {std::pair("writer", number), std::pair("index", index)}) {
    tracering::Message field =
        event.BeginMessage(tracering::track_event::kDebugAnnotations);
    field.AppendString(annotation::kName, name);
    field.AppendVarint(annotation::kUintValue, value);
  }
}

void Report(Producer& producer) {
  const absl::Status flushed = producer.Flush(kLong);
  Require(flushed.ok(), "a flush succeeds");
  const Producer::Stats stats = producer.stats();
  printf("attempted=%llu lost=%llu\n",
         static_cast<unsigned long long>(stats.attempted),
         static_cast<unsigned long long>(stats.lost));
  fflush(stdout);
}

// --- Ends of threads ---

// Traces in its destructor, through a reference and by name.
struct TracesAtEnd {
  explicit TracesAtEnd(Producer& p) : producer(p) {}
  ~TracesAtEnd() {
    if (writer != nullptr) Trace(*writer, number, index++);
    Trace(producer.ThreadWriter("main"), number, index++);
    producer.ThreadTrack();
  }
  Producer& producer;
  TraceWriter* writer = nullptr;
  uint64_t number = 0;
  uint64_t index = 0;
};

int TlsDestructors() {
  auto producer = CreateProducer("tls");
  for (uint64_t number = 0; number < 20; ++number) {
    std::thread([&, number] {
      // Constructed before the thread's first writer, and after it.
      thread_local TracesAtEnd before(*producer);
      before.number = 2 * number;
      TraceWriter& writer = producer->ThreadWriter("main");
      thread_local TracesAtEnd after(*producer);
      after.number = 2 * number + 1;
      before.writer = after.writer = &writer;
      Trace(writer, before.number, before.index++);
      Trace(writer, after.number, after.index++);
      const tracering::WriterBatch batch = writer.Batch();
      Trace(writer, after.number, after.index++);
    }).join();
  }
  Report(*producer);
  return 0;
}

pthread_key_t tracing_key;
Producer* key_producer = nullptr;

// Comes again in every round of destructors, before and after the library's.
void TraceInKeyDestructor(void* value) {
  auto* rounds = static_cast<int*>(value);
  TraceWriter& writer = key_producer->ThreadWriter("main");
  { tracering::Packet packet = writer.NewPacket(); }
  const tracering::WriterBatch batch = writer.Batch();
  key_producer->ThreadTrack();
  if (++*rounds < 4) {
    pthread_setspecific(tracing_key, value);
  } else {
    delete rounds;
  }
}

int KeyDestructors() {
  auto producer = CreateProducer("keys");
  key_producer = producer.get();
  Require(pthread_key_create(&tracing_key, TraceInKeyDestructor) == 0,
          "a key can be created");
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      pthread_setspecific(tracing_key, new int(0));
      { tracering::Packet packet = producer->ThreadWriter("main").NewPacket(); }
    }).join();
  }
  Report(*producer);
  return 0;
}

// --- Ends of the process ---

TraceWriter* static_writer = nullptr;
void TraceAtEnd();

struct TracesInStaticDestructor {
  ~TracesInStaticDestructor() { TraceAtEnd(); }
};

// Null once it is gone, which a smart pointer need not be after its own end.
Producer* static_producer = nullptr;

struct OwnsProducer {
  ~OwnsProducer() { delete std::exchange(static_producer, nullptr); }
};

// The first is destroyed after the producer.
TracesInStaticDestructor constructed_first;
OwnsProducer owns_producer;

uint64_t static_index = 0;

void TraceAtEnd() {
  if (static_writer == nullptr) return;
  const tracering::WriterBatch batch = static_writer->Batch();
  Trace(*static_writer, 1, static_index++);
  if (static_producer == nullptr) return;
  Trace(static_producer->ThreadWriter("main"), 1, static_index++);
  Require(static_producer->Flush(kLong).ok(), "a flush at exit succeeds");
}

int StaticDestructors() {
  static TracesInStaticDestructor constructed_last;
  atexit(TraceAtEnd);
  static_producer = CreateProducer("static").release();
  static_writer = &static_producer->ThreadWriter("main");
  Trace(*static_writer, 0, 0);
  // Goes on tracing while the process exits. The producer may be used until
  // its end only, a writer also after that.
  std::promise<void> has_writer;
  std::thread([&has_writer] {
    TraceWriter& writer = static_producer->ThreadWriter("other");
    has_writer.set_value();
    for (uint64_t i = 0;; ++i) Trace(writer, 2, i);
  }).detach();
  has_writer.get_future().wait();
  exit(0);
}

int ExitInsidePacket() {
  static_producer = CreateProducer("inside").release();
  static_writer = &static_producer->ThreadWriter("main");
  const tracering::WriterBatch batch = static_writer->Batch();
  Trace(*static_writer, 0, 0);
  tracering::Packet packet = static_writer->NewPacket();
  packet.AppendVarint(tracering::trace_packet::kTimestamp, 1);
  exit(0);
}

int AfterShutdown() {
  auto producer = CreateProducer("shutdown");
  TraceWriter& writer = producer->ThreadWriter("main");
  OwnedTraceWriter owned = producer->CreateWriter("main");
  Trace(writer, 0, 0);
  Report(*producer);
  producer.reset();
  for (int i = 0; i < 1000; ++i) Trace(writer, 0, 1);
  for (int i = 0; i < 1000; ++i) Trace(*owned, 0, 1);
  return 0;
}

int LeakedProducer() {
  static Producer* const leaked = CreateProducer("leaked").release();
  Trace(leaked->ThreadWriter("main"), 0, 0);
  Report(*leaked);
  return 0;
}

// --- Descriptors ---

// Closes all that it does not know, as daemons do, and is given the numbers
// again for files of its own.
int CloseDescriptors() {
  ProducerOptions options;
  options.name = "closes";
  // A thread of its own might be about to close what it has just received.
  options.own_thread = false;
  auto producer = *Producer::Create(options);
  Require(producer->WaitForConsumer(kLong), "a consumer attaches");
  // Nobody drains from here on.
  OwnedTraceWriter writer =
      producer->CreateWriter("main", tracering::WriterOptions());
  Trace(*writer, 0, 0);
  constexpr int kHighest = 700;
  for (int fd = 3; fd <= kHighest; ++fd) close(fd);
  std::vector<int> files;
  while (files.empty() || files.back() < kHighest) {
    files.push_back(memfd_create("theirs", 0));
    Require(files.back() >= 0, "files can be opened");
  }
  const auto require_untouched = [&files] {
    for (const int fd : files) {
      struct stat info {};
      Require(fstat(fd, &info) == 0, "their file is still open");
      Require(info.st_size == 0, "their file is empty");
      Require(lseek(fd, 0, SEEK_CUR) == 0, "their file was not read");
    }
  };
  for (uint64_t i = 0; i < 20'000; ++i) Trace(*writer, 0, i);
  producer->ThreadTrack();
  producer->Flush(std::chrono::milliseconds(1)).IgnoreError();
  const pid_t child = fork();
  if (child == 0) {
    require_untouched();
    _exit(0);
  }
  int status = 0;
  Require(waitpid(child, &status, 0) == child && status == 0,
          "the child ends well");
  require_untouched();
  writer.reset();
  producer.reset();
  require_untouched();
  return 0;
}

// Standard streams that are closed stay so: what the program prints later must
// not end up in a ring.
int WithoutStandardStreams() {
  for (const int fd : {0, 1, 2}) close(fd);
  auto producer = CreateProducer("closed");
  // What the service has sent lies there until it has been put in its place. A
  // descriptor that stays would let the test time out.
  for (const int fd : {0, 1, 2}) {
    while (fcntl(fd, F_GETFD) >= 0) std::this_thread::yield();
  }
  Trace(producer->ThreadWriter("main"), 0, 0);
  return producer->Flush(kLong).ok() ? 0 : kUnexpected;
}

// --- fork ---

enum class ChildEnd { kExit, kUnderscoreExit };

// Everything that the parent left the child must be harmless and at once.
void UseEverything(Producer& producer, TraceWriter& writer) {
  for (uint64_t i = 0; i < 1000; ++i) Trace(writer, 77, i);
  for (uint64_t i = 0; i < 10; ++i) {
    Trace(producer.ThreadWriter("main"), 77, i);
    Trace(producer.ThreadWriter("own"), 77, i);
    Trace(producer.ThreadWriter("never named before"), 77, i);
    Trace(*producer.CreateWriter("main"), 77, i);
  }
  Require(!producer.Flush(kLong).ok(), "a child has nothing to flush");
  Require(!producer.WaitForConsumer(kLong), "a child has no consumer");
  Require(!producer.consumer_attached(), "a child has no consumer");
  Require(producer.poll_fd() == -1, "a child has nothing to poll");
  Require(producer.stats().rings.empty(), "a child has no statistics");
  producer.ProcessReady();
  producer.ThreadTrack("name");
  producer.RemoveTrack(producer.AddTrack("track"));
}

// With a producer of the child's own.
void TraceInChild() {
  auto producer = CreateProducer("child");
  for (uint64_t i = 0; i < 100; ++i) {
    Trace(producer->ThreadWriter("main"), 78, i);
  }
  Require(producer->Flush(kLong).ok(), "the child's own flush succeeds");
  std::thread([&] { Trace(producer->ThreadWriter("main"), 79, 0); }).join();
}

int WaitFor(pid_t child) {
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "the child can be waited for");
  return status;
}

// Forks inside an open packet, an open batch and a nested message, while other
// threads trace, come and go.
int Fork(ChildEnd end) {
  static_producer = CreateProducer("parent").release();
  Producer& producer = *static_producer;
  constexpr uint64_t kThreads = tracering::test::kSanitized ? 0 : 3;
  constexpr int kForks = 5;
  std::mutex mutex;
  std::condition_variable changed;
  int work = 0;
  bool stop = false;
  std::vector<std::thread> threads;
  for (uint64_t number = 1; number <= kThreads; ++number) {
    threads.emplace_back([&, number] {
      for (uint64_t index = 0;;) {
        {
          std::unique_lock<std::mutex> lock(mutex);
          changed.wait(lock, [&] { return stop || work > 0; });
          if (stop) return;
          --work;
        }
        // A new thread, and so a new writer.
        std::thread([&] {
          TraceWriter& writer = producer.ThreadWriter("main");
          producer.ThreadTrack();
          for (int i = 0; i < 100; ++i) Trace(writer, number, index++);
        }).join();
      }
    });
  }
  const auto put_to_work = [&](int amount, bool then_stop) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      work = amount;
      stop = then_stop;
    }
    changed.notify_all();
  };
  TraceWriter& writer = producer.ThreadWriter("own");
  OwnedTraceWriter owned = producer.CreateWriter("main");
  for (uint64_t round = 0; round < kForks; ++round) {
    pid_t child = -1;
    {
      const tracering::WriterBatch batch = writer.Batch();
      Trace(writer, 0, 2 * round);
      tracering::Packet other = owned->NewPacket();
      other.AppendVarint(tracering::trace_packet::kTimestamp, round);
      namespace annotation = tracering::debug_annotation;
      tracering::Packet packet = writer.NewPacket();
      packet.AppendVarint(tracering::trace_packet::kTimestamp, round + 1);
      tracering::Message event =
          packet.BeginMessage(tracering::trace_packet::kTrackEvent);
      event.AppendVarint(tracering::track_event::kType,
                         tracering::track_event::kTypeInstant);
      {
        tracering::Message field =
            event.BeginMessage(tracering::track_event::kDebugAnnotations);
        put_to_work(50, false);
        child = fork();
        Require(child >= 0, "fork works");
        field.AppendString(annotation::kName, "writer");
        field.AppendVarint(annotation::kUintValue, child == 0 ? 77 : 0);
      }
      {
        tracering::Message field =
            event.BeginMessage(tracering::track_event::kDebugAnnotations);
        field.AppendString(annotation::kName, "index");
        field.AppendVarint(annotation::kUintValue, 2 * round + 1);
      }
      if (child == 0) event.AppendString(15, std::string(1 << 20, 'c'));
    }
    if (child == 0) {
      UseEverything(producer, writer);
      TraceInChild();
      if (end == ChildEnd::kUnderscoreExit) _exit(0);
      owned.reset();
      exit(0);
    }
    Require(WaitFor(child) == 0, "the child ends well");
  }
  put_to_work(0, true);
  for (std::thread& thread : threads) thread.join();
  owned.reset();
  Report(producer);
  return 0;
}

// Waits with a writer and a track of its own.
void* HoldWriter(void* argument) {
  auto* const steps = static_cast<std::atomic<int>*>(argument);
  Trace(static_producer->ThreadWriter("main"), 1, 0);
  static_producer->ThreadTrack();
  steps->store(1);
  while (steps->load() != 2) std::this_thread::yield();
  return nullptr;
}

// What the child inherits from a thread that it has not got is no leak.
int ForkBesideWriter() {
  static_producer = CreateProducer("beside").release();
  std::atomic<int> steps{0};
  // A std::thread would be a leak in the child itself.
  pthread_t thread{};
  Require(pthread_create(&thread, nullptr, HoldWriter, &steps) == 0,
          "a thread can be started");
  while (steps.load() != 1) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) exit(0);
  Require(WaitFor(child) == 0, "the child ends well");
  steps.store(2);
  pthread_join(thread, nullptr);
  Report(*static_producer);
  return 0;
}

// The child never calls anything of ours, and outlives its parent: it ends with
// the test.
int ForkAndDie() {
  auto producer = CreateProducer("dies");
  Trace(producer->ThreadWriter("main"), 0, 0);
  if (fork() == 0) tracering::test::handshake::AwaitRelease();
  _exit(0);
}

// A callback of ours forks, and the child goes on where the callback was
// called.
int ForkInCallback(bool own_thread) {
  std::atomic<pid_t> child{-1};
  ProducerOptions options;
  options.name = "callback";
  options.own_thread = own_thread;
  options.on_session_start = [&] { child.store(fork()); };
  auto producer = Producer::Create(options);
  Require(producer.ok(), "a producer can be created");
  const bool attached = (*producer)->WaitForConsumer(kLong);
  // The callback may come after the wait.
  while (child.load() == -1) std::this_thread::yield();
  if (child.load() == 0) {
    Require(!attached, "a child has no consumer");
    UseEverything(**producer, (*producer)->ThreadWriter("main"));
    exit(0);
  }
  Require(attached, "a consumer attaches");
  Require(WaitFor(child.load()) == 0, "the child ends well");
  Trace((*producer)->ThreadWriter("main"), 0, 0);
  Report(**producer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int()>> ways = {
      {"tls_destructors", TlsDestructors},
      {"key_destructors", KeyDestructors},
      {"static_destructors", StaticDestructors},
      {"exit_inside_packet", ExitInsidePacket},
      {"after_shutdown", AfterShutdown},
      {"leaked_producer", LeakedProducer},
      {"close_descriptors", CloseDescriptors},
      {"no_standard_streams", WithoutStandardStreams},
      {"fork_exit", [] { return Fork(ChildEnd::kExit); }},
      {"fork_underscore_exit", [] { return Fork(ChildEnd::kUnderscoreExit); }},
      {"fork_beside_writer", ForkBesideWriter},
      {"fork_and_die", ForkAndDie},
      {"fork_in_callback", [] { return ForkInCallback(false); }},
      {"fork_in_thread", [] { return ForkInCallback(true); }},
  };
  const auto way = ways.find(argc == 2 ? argv[1] : "");
  Require(way != ways.end(), "argv[1] is a known way");
  return way->second();
}
