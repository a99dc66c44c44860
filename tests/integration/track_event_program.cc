// A program that is traced in every way that track_event.h knows, or in the one
// that argv[1] names. Compiled as strictly as a user might. The service is
// where $TRACERING_SOCKET says.
//
// Anything unexpected ends it with status 9.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/program_require.h"
#include "tracering/track_event.h"

namespace {

using tracering::test::program::kUnexpected;
using tracering::test::program::Require;
namespace handshake = tracering::test::handshake;

constexpr std::chrono::seconds kLong{30};

struct Point {
  int x;
  double y;
};
void WriteTraceValue(tracering::ValueWriter& out, const Point& point) {
  out.WriteDict([&point](tracering::DictWriter& dict) {
    dict.Add("x", point.x);
    dict.Add("y", point.y);
  });
}

enum class Colour : uint8_t { kRed = 1, kBlue = 7 };

void Start(tracering::TracingOptions options = {}) {
  options.producer.name = "track_event_program";
  Require(tracering::StartTracing(options).ok(), "tracing starts");
  Require(tracering::TracingProducer()->WaitForConsumer(kLong),
          "a consumer attaches");
}

void Flush() {
  Require(tracering::FlushTracing(kLong).ok(), "a flush succeeds");
}

void Slices() {
  TRACERING_SCOPE("app", "outer", "depth", 0);
  {
    TRACERING_SCOPE("app", "inner");
    TRACERING_INSTANT("app", "tick");
  }
  TRACERING_BEGIN("app", "begun", "why", "to be ended");
  TRACERING_END("app", "result", 42);
  const std::string name = "made at " + std::to_string(2026);
  TRACERING_INSTANT("app", name, "name", name);
  const tracering::Category category(std::string("run") + "time");
  {
    tracering::ScopedSlice slice(category, "scoped", "first", true);
    tracering::TraceInstant(category, name);
    slice.End("last", false);
  }
  tracering::BeginSlice(category, "function");
  tracering::EndSlice(category);
}

void Arguments() {
  const char* const none = nullptr;
  const std::vector<int> numbers = {1, 2, 3};
  const std::map<std::string, double> table = {{"a", 0.5}, {"b", 1.5}};
  const std::array<Point, 2> points = {Point{1, 2}, Point{3, 4}};
  const std::string long_text(300, 'x');
  int evaluated = 0;
  TRACERING_INSTANT("args", "scalars", "bool", true, "int", -5, "uint", 5u,
                    "big", UINT64_MAX, "small", int8_t{-1}, "double", 1.25,
                    "float", 0.5f, "string", std::string("s"), "view",
                    std::string_view("v"), "literal", "l", "none", none,
                    "pointer", static_cast<const void*>(&evaluated), "null",
                    nullptr, "enum", Colour::kBlue, "long", long_text);
  TRACERING_INSTANT("args", "nested", "numbers", numbers, "table", table,
                    "point", Point{7, 0.25}, "points", points);
  TRACERING_INSTANT("args", "written", [&](tracering::EventWriter& event) {
    event.Add("x", ++evaluated);
    event.AddDict("dict", [](tracering::DictWriter& dict) {
      dict.Add("one", 1);
      dict.AddArray("items", [](tracering::ArrayWriter& array) {
        array.Append("first");
        array.AppendDict(
            [](tracering::DictWriter& inner) { inner.Add("second", 2); });
      });
    });
  });
  TRACERING_INSTANT("args", "lazy", "value", [&] { return ++evaluated; });
  TRACERING_INSTANT("off", "never", "value", ++evaluated);
  TRACERING_INSTANT("off", "never",
                    [&](tracering::EventWriter&) { ++evaluated; });
  Require(evaluated == 2, "arguments of disabled events are not evaluated");
  Require(!TRACERING_ENABLED("off") && TRACERING_ENABLED("args"),
          "it is known what is enabled");
}

void Tracks() {
  const tracering::Counter requests("requests", "requests per second");
  const tracering::Counter heap("heap", tracering::CounterUnit::kSizeBytes);
  for (int i = 0; i < 3; ++i) {
    TRACERING_COUNTER("app", requests, 0.5 * i);
    TRACERING_COUNTER("app", heap, 1000 * i);
    TRACERING_COUNTER("app", "plain", i);
  }
  tracering::AsyncTrack request("request 1");
  tracering::AsyncTrack part("part of request 1", request);
  TRACERING_ASYNC_BEGIN("app", request, "handle", "id", 1,
                        tracering::Flow::Local(17));
  std::thread worker([&] {
    tracering::SetThreadName("a worker");
    TRACERING_INSTANT("app", "taken", tracering::Flow::Local(17));
    TRACERING_ASYNC_INSTANT("app", part, "half");
    TRACERING_ASYNC_BEGIN("app", part, "left to the track");
    TRACERING_ASYNC_END(request, "status", "done",
                        tracering::TerminatingFlow::Local(17));
    TRACERING_ASYNC_END(request);  // nothing is open: nothing is written
  });
  worker.join();
  TRACERING_INSTANT("app", "to everybody", tracering::Flow::Global(4711));
}

int Features() {
  Start();
  Slices();
  Arguments();
  Tracks();
  Flush();
  return 0;
}

// Waits for the test to switch, which has happened when `switched` says so.
template <typename Switched>
void AwaitSwitch(const Switched& switched) {
  handshake::Report();
  handshake::AwaitRelease();
  while (!switched()) std::this_thread::yield();
}

// Categories come and go in the middle of slices of all kinds.
int Switching() {
  Start();
  const auto on = [] { return tracering::CategoryEnabled("a"); };
  const auto off = [&on] { return !on(); };
  const tracering::Category a("a");
  tracering::AsyncTrack track("async");
  const auto instant = [] { TRACERING_INSTANT("a", "instant"); };
  const auto end = [] { TRACERING_END("a"); };
  Require(on(), "it begins enabled");
  TRACERING_SCOPE("a", "scope that is left open");
  TRACERING_BEGIN("a", "begin that is left open");
  tracering::BeginSlice(a, "function that is left open");
  TRACERING_ASYNC_BEGIN("a", track, "async that is left open");
  instant();

  AwaitSwitch(off);
  instant();
  {
    TRACERING_SCOPE("a", "never 1");
    TRACERING_BEGIN("b", "b within");
    TRACERING_BEGIN("a", "never 2");
    TRACERING_ASYNC_END(track);
    TRACERING_ASYNC_BEGIN("a", track, "never 3");

    AwaitSwitch(on);
    TRACERING_ASYNC_END(track);
    end();  // of "never 2": what is open is of another category
    TRACERING_END("b");
  }
  instant();
  AwaitSwitch(off);
  tracering::EndSlice(a);
  end();
  end();  // one too many
  Flush();
  return 0;
}

// Threads, a fork, and the end of everything.
int Lives() {
  Start();
  struct AtThreadEnd {
    ~AtThreadEnd() { TRACERING_INSTANT("app", "thread-local destructor"); }
  };
  std::thread([] {
    thread_local AtThreadEnd at_end;
    (void)at_end;
    TRACERING_INSTANT("app", "thread");
  }).join();
  {
    TRACERING_SCOPE("app", "around fork");
    const pid_t child = fork();
    Require(child >= 0, "a fork succeeds");
    if (child == 0) {
      TRACERING_INSTANT("app", "nowhere: child");
      tracering::SetThreadName("child");
      tracering::StopTracing();
      const bool gone = tracering::TracingProducer() == nullptr;
      tracering::TracingOptions options;
      options.producer.name = "child";
      const bool started = tracering::StartTracing(options).ok() &&
                           tracering::TracingProducer()->WaitForConsumer(kLong);
      TRACERING_INSTANT("app", "from the child");
      const bool flushed = tracering::FlushTracing(kLong).ok();
      _exit(gone && started && flushed ? 0 : kUnexpected);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "the child traces on its own");
  }
  TRACERING_BEGIN("app", "open at the stop");
  tracering::StopTracing();
  TRACERING_END("app");
  TRACERING_INSTANT("app", "nowhere: stopped");
  Require(!tracering::FlushTracing(kLong).ok(), "nothing to flush");
  Start();
  TRACERING_END("app");
  TRACERING_INSTANT("app", "second session");
  Require(!tracering::StartTracing().ok(), "it cannot be started twice");
  atexit([] { TRACERING_INSTANT("app", "atexit"); });
  return 0;
}

// Before there is a consumer, and after it has come.
int Early() {
  Require(tracering::StartTracing().ok(), "tracing starts");
  TRACERING_INSTANT("early.1", "before");
  TRACERING_INSTANT("app", "not enabled yet");
  handshake::Report();
  Require(tracering::TracingProducer()->WaitForConsumer(kLong),
          "a consumer attaches");
  TRACERING_INSTANT("early.1", "after");
  TRACERING_INSTANT("app", "after");
  Flush();
  return 0;
}

// More than a small buffer holds.
int Many() {
  Start();
  std::thread([] {
    tracering::SetThreadName("a worker");
    TRACERING_INSTANT("app", "oldest");
  }).join();
  for (int i = 0; i < 500; ++i) TRACERING_INSTANT("app", "filler", "i", i);
  Flush();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "features") return Features();
  if (what == "early") return Early();
  if (what == "many") return Many();
  if (what == "switching") return Switching();
  if (what == "lives") return Lives();
  fprintf(stderr, "unknown: %s\n", what.c_str());
  return kUnexpected;
}
