// Everything that track_event.h has, with TRACERING_DISABLE: it compiles
// without a warning, evaluates nothing, links without the libraries, and leaves
// no symbol of theirs in the object file. Ends with status 0.
#define TRACERING_DISABLE
#include <chrono>
#include <cstdlib>
#include <string>

#include "tracering/track_event.h"

namespace {

int evaluated = 0;

int Count() { return ++evaluated; }
std::string Name() { return std::to_string(Count()); }

struct Point {
  int x;
};
[[maybe_unused]] void WriteTraceValue(tracering::ValueWriter& out,
                                      const Point& point) {
  out.WriteDict(
      [&point](tracering::DictWriter& dict) { dict.Add("x", point.x); });
}

}  // namespace

int main() {
  tracering::TracingOptions options;
  options.producer.name = "nothing";
  options.producer.ring_file = "/dev/shm/nothing-%p";
  options.producer.buffers = {1, 2};
  options.categories = {{"*", "-category"}};
  options.categories = {{"*"}};
  options.buffer = "main";
  options.clock = tracering::TraceClock::kTsc;
  const bool started = tracering::StartTracing(options).ok();
  tracering::SetEnabledCategories({"*"});
  tracering::SetThreadName("main");
  const tracering::Counter counter("counter", tracering::CounterUnit::kCount);
  const tracering::Category category("category");
  tracering::AsyncTrack track("track");
  // Used by traces only, and no warning.
  const Point point{Count()};
  const int used = Count();
  const int before = evaluated;

  TRACERING_SCOPE("category", Name(), "value", Count(), "used", used);
  TRACERING_BEGIN("category", "begin", "point", point);
  TRACERING_END("category", "value", Count());
  TRACERING_INSTANT("category", "instant", "value", Count(),
                    tracering::Flow::Local(static_cast<uint64_t>(Count())));
  TRACERING_INSTANT("category", "lazy", [&](tracering::EventWriter& event) {
    event.Add("value", Count());
    event.AddArray("array",
                   [](tracering::ArrayWriter& array) { array.Append(1); });
  });
  TRACERING_COUNTER("category", counter, Count());
  TRACERING_COUNTER("category", "counter", Count());
  TRACERING_ASYNC_BEGIN("category", track, Name(), "value", Count());
  TRACERING_ASYNC_INSTANT("category", track, Name());
  TRACERING_ASYNC_END(track, "value", Count());
  if (TRACERING_ENABLED("category")) Count();
  {
    tracering::ScopedSlice slice(category, "slice");
    slice.End("value", 1);
  }
  tracering::TraceInstant(category, "instant", "lazy", [] { return Count(); });
  tracering::TraceCounter(category, counter, 1);

  const auto producer = tracering::TracingProducer();
  if (producer || producer != nullptr || producer.get() != nullptr) Count();
  if (!(tracering::TracingProducer() == nullptr)) Count();
  const bool waited =
      tracering::TracingProducer()->WaitForConsumer(std::chrono::hours(1));
  const bool triggered = producer->Trigger("trigger").ok();
  const bool flushed = tracering::FlushTracing(std::chrono::seconds(1)).ok();
  tracering::StopTracing();
  return started && !waited && triggered && flushed && evaluated == before
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}
