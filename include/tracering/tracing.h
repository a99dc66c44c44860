// Tracing of a whole program: one call sets it up, and track_event.h does the
// rest, from any thread.
//
//   tracering::TracingOptions options;
//   options.producer.name = "render_server";
//   if (absl::Status status = tracering::StartTracing(options); !status.ok()) {
//     // the program goes on, untraced
//   }
//
// Nothing has to be called at the end: what was traced is in shared memory,
// from where the service takes it also after the process has ended.
//
// Thread-safe. In a child made by fork() tracing has not been started; the
// child may start its own.
#ifndef TRACERING_TRACING_H_
#define TRACERING_TRACING_H_

#ifdef TRACERING_DISABLE
#include "tracering/export.h"
#include "tracering/internal/track_event_disabled.h"
#else

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tracering/producer.h"

namespace tracering {

// What the timestamps of track events are read from. They are nanoseconds of
// CLOCK_BOOTTIME either way.
enum class TraceClock {
  kBoottime,
  // The processor's time stamp counter, calibrated against CLOCK_BOOTTIME ten
  // times a second by whichever thread traces next. Takes half the time to
  // read. Where the processor does not count at a constant rate it is
  // CLOCK_BOOTTIME after all. docs/track-events.md says how far the two may be
  // apart.
  kTsc,
};

struct TracingOptions {
  // The name of the process, sizes, policies, the socket: see producer.h.
  ProducerOptions producer;
  // The target buffer of all track events.
  std::string buffer = "main";
  // Which categories are enabled before a consumer says so; see
  // SetEnabledCategories. Nothing: what SetEnabledCategories was given before,
  // else the list in $TRACERING_CATEGORIES, with commas in between, else none.
  std::optional<std::vector<std::string> > categories;
  TraceClock clock = TraceClock::kBoottime;
};

// Makes a producer for the process and begins to trace. Does not wait for a
// service. FAILED_PRECONDITION if tracing has been started already;
// INVALID_ARGUMENT for a name of a buffer or a pattern that cannot be; errors
// of Producer::Create.
TRACERING_EXPORT absl::Status StartTracing(TracingOptions options = {});

// Disables all categories and lets go of the producer, which says goodbye to
// the service. Events of other threads go nowhere from now on. Slices that are
// open are not ended. Again, and without a start: no effect. It can be started
// again after that.
TRACERING_EXPORT void StopTracing();

// Waits until the service has taken what was traced before; see
// Producer::Flush. FAILED_PRECONDITION if tracing has not been started.
TRACERING_EXPORT absl::Status FlushTracing(std::chrono::nanoseconds timeout);

// The producer of the process, for everything else that it can do; null if
// tracing has not been started. Whoever still holds it when tracing stops
// delays the goodbye.
TRACERING_EXPORT std::shared_ptr<Producer> TracingProducer();

// Enables those categories that the patterns select, and disables all others,
// until somebody says something else: the program, by another call, or a
// consumer, whenever one attaches or changes its mind. When the consumer goes,
// these patterns are in force again.
//
// A pattern is a glob over the whole name: `*` stands for any bytes, `?` for
// one; with a `-` in front it takes out what it matches. The last pattern that
// matches a category decides, and one that none matches is off.
TRACERING_EXPORT void SetEnabledCategories(std::vector<std::string> patterns);

// Whether events of the category are written now. Takes a lock; to do something
// only where it is worth it, see TRACERING_ENABLED.
TRACERING_EXPORT bool CategoryEnabled(std::string_view category);

// How the calling thread appears in traces, in place of the kernel's name for
// it. Also before tracing is started.
TRACERING_EXPORT void SetThreadName(std::string_view name);

struct TracingStats {
  // The clock in use.
  TraceClock clock = TraceClock::kBoottime;
  // Slices that TRACERING_BEGIN did not write, as too many were open on their
  // thread.
  uint64_t slices_too_deep = 0;
};
TRACERING_EXPORT TracingStats tracing_stats();

}  // namespace tracering

#endif  // TRACERING_DISABLE

#endif  // TRACERING_TRACING_H_
