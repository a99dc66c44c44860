// Track events: what the threads of a program do, in time.
//
//   TRACERING_SCOPE("render", "frame", "number", frame_number);
//
// writes a slice that lasts to the end of the scope. Each macro takes a
// category, which is a literal, a name, and then any number of arguments in
// pairs of a name and a value (event_arguments.h). All but the category may be
// made at run time. Nothing but the category's check is evaluated while it is
// disabled: one relaxed load and one branch.
//
// tracing.h starts it all. Below the macros are the functions that do the same
// for categories that are not known before run time.
//
// Any thread, also before tracing is started, after it has stopped, while
// thread-local and static objects are destroyed, and in a forked child: events
// then go nowhere. Not for signal handlers.
//
// With TRACERING_DISABLE defined the macros compile to nothing, and what else
// is declared here to empty stand-ins.
#ifndef TRACERING_TRACK_EVENT_H_
#define TRACERING_TRACK_EVENT_H_

#ifdef TRACERING_DISABLE
#include "tracering/internal/track_event_disabled.h"
#else
#include "tracering/internal/track_event_enabled.h"
#endif

// A slice from here to the end of the scope. A declaration: it needs a block of
// its own, as other declarations do.
//   TRACERING_SCOPE(category, name, arguments...)
#define TRACERING_SCOPE(...) TRACERING_INTERNAL_SCOPE(__COUNTER__, __VA_ARGS__)

// A slice from here to the next TRACERING_END of the same category on the same
// thread. Slices nest: an end is that of the innermost slice. Ends without a
// begin, since the category was disabled then, are left out, and those of
// slices that began are not, even if it is disabled by now.
//   TRACERING_BEGIN(category, name, arguments...)
//   TRACERING_END(category, arguments...)
#define TRACERING_BEGIN(...) TRACERING_INTERNAL_BEGIN(__COUNTER__, __VA_ARGS__)
#define TRACERING_END(...) TRACERING_INTERNAL_END(__COUNTER__, __VA_ARGS__)

// Something that takes no time.
//   TRACERING_INSTANT(category, name, arguments...)
#define TRACERING_INSTANT(...) \
  TRACERING_INTERNAL_INSTANT(__COUNTER__, __VA_ARGS__)

// A number that changes, integral or floating. `counter` is a literal, or a
// tracering::Counter, which can have a unit.
//   TRACERING_COUNTER(category, counter, value)
#define TRACERING_COUNTER(category, counter, value) \
  TRACERING_INTERNAL_COUNTER(__COUNTER__, category, counter, value)

// The same on a tracering::AsyncTrack, from any thread. An end without a begin
// is left out; the expression of its track is evaluated twice.
//   TRACERING_ASYNC_BEGIN(category, track, name, arguments...)
//   TRACERING_ASYNC_END(track, arguments...)
//   TRACERING_ASYNC_INSTANT(category, track, name, arguments...)
#define TRACERING_ASYNC_BEGIN(category, track, ...) \
  TRACERING_INTERNAL_ASYNC_BEGIN(__COUNTER__, category, track, __VA_ARGS__)
#define TRACERING_ASYNC_END(...) TRACERING_INTERNAL_ASYNC_END(__VA_ARGS__)
#define TRACERING_ASYNC_INSTANT(category, track, ...) \
  TRACERING_INTERNAL_ASYNC_INSTANT(__COUNTER__, category, track, __VA_ARGS__)

// Whether events of the category are written: for what has to be prepared.
//   if (TRACERING_ENABLED(category)) ...
#define TRACERING_ENABLED(category) TRACERING_INTERNAL_ENABLED(category)

#endif  // TRACERING_TRACK_EVENT_H_
