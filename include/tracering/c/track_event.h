// Track events from C: what the threads of a program do, in time.
//
//   tracering_start_tracing(options, error, sizeof(error));  // once
//   tracering_category* app = tracering_category_get("app");
//
//   tracering_slice_begin(app, "frame");
//   tracering_packet* packet = tracering_instant_open(app, "input");
//   tracering_arg_int(packet, "key", key);
//   tracering_packet_end(packet);
//   tracering_slice_end(app);
//
// Each kind of event has two functions. The plain one writes it. The one that
// ends in _open returns it as a packet that is still open, for arguments, and
// tracering_packet_end writes it; null if the category is disabled or the event
// goes nowhere, so that costly arguments need not be made:
//
//   if (packet != NULL) tracering_arg_string(packet, "state", Describe(state));
//
// A disabled event costs one call, a load and a branch. An event takes no lock
// and allocates nothing, except the first one of a thread, of a counter and of
// a track. Within an open event the thread's other events are lost and counted.
//
// Any thread, also before tracing is started and after it has stopped, and in a
// forked child: events then go nowhere. Not for signal handlers. The rules of
// producer.h hold here too.
#ifndef TRACERING_C_TRACK_EVENT_H_
#define TRACERING_C_TRACK_EVENT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracering/c/packet.h"
#include "tracering/c/producer.h"
#include "tracering/c/status.h"
#include "tracering/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Tracing of the whole process ---

// Options beside those of producer.h, for tracering_start_tracing only.

// The target buffer of all events. Default: "main".
TRACERING_EXPORT void tracering_options_set_event_buffer(
    tracering_options* options, const char* name);
// Which categories are enabled before a consumer says so: patterns with commas
// in between, as for tracering_set_enabled_categories. Default: what that
// function was given before, else $TRACERING_CATEGORIES, else none.
TRACERING_EXPORT void tracering_options_set_categories(
    tracering_options* options, const char* patterns);

enum {
  TRACERING_CLOCK_BOOTTIME = 0,  // default
  // The time stamp counter, calibrated to CLOCK_BOOTTIME: quicker to read.
  TRACERING_CLOCK_TSC = 1
};
TRACERING_EXPORT void tracering_options_set_clock(tracering_options* options,
                                                  int32_t clock);

// Makes a producer for the process and begins to trace. Does not wait for a
// service. TRACERING_FAILED_PRECONDITION if it has been started already;
// otherwise the errors of tracering_producer_create.
TRACERING_EXPORT tracering_status tracering_start_tracing(
    const tracering_options* options, char* error, size_t error_size);

// Events go nowhere from now on; says goodbye to the service. It can be started
// again. Nothing needs to be stopped at the end of a program.
TRACERING_EXPORT void tracering_stop_tracing(void);

// tracering_flush of the process's producer. TRACERING_FAILED_PRECONDITION if
// tracing has not been started.
TRACERING_EXPORT tracering_status tracering_flush_tracing(int64_t timeout_ns,
                                                          char* error,
                                                          size_t error_size);

// The process's producer, for all else that it can do; null if tracing has not
// been started. To be handed to tracering_producer_destroy, which only lets go
// of it here; until then the goodbye of tracering_stop_tracing waits.
TRACERING_EXPORT tracering_producer* tracering_tracing_producer(void);

// Enables the categories that the patterns select and disables all others,
// until a consumer says otherwise, and again when it has gone. Patterns are
// globs over the whole name (`*`, `?`), with commas in between; with a `-` in
// front one takes out what it matches; the last one that matches decides. False
// without memory, with nothing changed.
TRACERING_EXPORT bool tracering_set_enabled_categories(const char* patterns);

// How the calling thread appears in traces, also before tracing is started.
TRACERING_EXPORT void tracering_set_thread_name(const char* name);

typedef struct tracering_tracing_stats {
  size_t size;  // as in tracering_writer_stats
  // Slices that were not begun, as too many were open on their thread.
  uint64_t slices_too_deep;
  int32_t clock;  // the one in use
} tracering_tracing_stats;
// False, with nothing written, if it is null or its size too small to be
// anything.
TRACERING_EXPORT bool tracering_get_tracing_stats(
    tracering_tracing_stats* stats);

// --- Categories ---

// Kept for ever, so that it may be looked up once, into a static.
typedef struct tracering_category tracering_category;

// The category of that name, cut at 1024 bytes. Takes a lock the first time.
// Never null: without memory, and beyond 4096 names of categories and counters,
// one that is off.
TRACERING_EXPORT tracering_category* tracering_category_get(const char* name);
// For what has to be prepared. False for null.
TRACERING_EXPORT bool tracering_category_enabled(tracering_category* category);

// --- Events of the calling thread ---

// A slice, from here to the next tracering_slice_end of the same category on
// the same thread. Slices nest. An end whose begin was not written is left out;
// one whose begin was written is not, whatever has been switched meanwhile.
TRACERING_EXPORT void tracering_slice_begin(tracering_category* category,
                                            const char* name);
TRACERING_EXPORT tracering_packet* tracering_slice_begin_open(
    tracering_category* category, const char* name);
TRACERING_EXPORT void tracering_slice_end(tracering_category* category);
TRACERING_EXPORT tracering_packet* tracering_slice_end_open(
    tracering_category* category);

// Something that takes no time.
TRACERING_EXPORT void tracering_instant(tracering_category* category,
                                        const char* name);
TRACERING_EXPORT tracering_packet* tracering_instant_open(
    tracering_category* category, const char* name);

// --- Events on tracks of their own ---

// Work that goes from thread to thread. Any thread may use it, until it is
// destroyed.
typedef struct tracering_event_track tracering_event_track;

// Below the track `parent`, which outlives it (null: the process). Null without
// memory.
TRACERING_EXPORT tracering_event_track* tracering_event_track_create(
    const char* name, tracering_event_track* parent);
// Ends slices that are open.
TRACERING_EXPORT void tracering_event_track_destroy(
    tracering_event_track* track);

TRACERING_EXPORT void tracering_track_slice_begin(tracering_category* category,
                                                  tracering_event_track* track,
                                                  const char* name);
TRACERING_EXPORT tracering_packet* tracering_track_slice_begin_open(
    tracering_category* category, tracering_event_track* track,
    const char* name);
TRACERING_EXPORT void tracering_track_slice_end(tracering_event_track* track);
TRACERING_EXPORT tracering_packet* tracering_track_slice_end_open(
    tracering_event_track* track);
TRACERING_EXPORT void tracering_track_instant(tracering_category* category,
                                              tracering_event_track* track,
                                              const char* name);
TRACERING_EXPORT tracering_packet* tracering_track_instant_open(
    tracering_category* category, tracering_event_track* track,
    const char* name);

// --- Counters ---

// Kept for ever, as a category is.
typedef struct tracering_counter tracering_counter;

// The counter of that name and unit (TRACERING_UNIT_...; none of them is
// unspecified). Null, which counts into nothing, without memory and beyond 4096
// names of categories and counters. Texts are cut at 1024 bytes.
TRACERING_EXPORT tracering_counter* tracering_counter_get(const char* name,
                                                          int32_t unit);
// With a unit in words, such as "requests".
TRACERING_EXPORT tracering_counter* tracering_counter_get_in(
    const char* name, const char* unit_name);

TRACERING_EXPORT void tracering_count_int(tracering_category* category,
                                          tracering_counter* counter,
                                          int64_t value);
TRACERING_EXPORT void tracering_count_double(tracering_category* category,
                                             tracering_counter* counter,
                                             double value);

// --- Arguments of an open event ---
//
// Given to a packet that is no event, or where they may not stand, they discard
// it. `name` is that of the argument, or of the entry in a dictionary; in an
// array it is not looked at.

TRACERING_EXPORT void tracering_arg_bool(tracering_packet* event,
                                         const char* name, bool value);
TRACERING_EXPORT void tracering_arg_int(tracering_packet* event,
                                        const char* name, int64_t value);
TRACERING_EXPORT void tracering_arg_uint(tracering_packet* event,
                                         const char* name, uint64_t value);
TRACERING_EXPORT void tracering_arg_double(tracering_packet* event,
                                           const char* name, double value);
// A null value appears as "(null)".
TRACERING_EXPORT void tracering_arg_string(tracering_packet* event,
                                           const char* name, const char* value);
TRACERING_EXPORT void tracering_arg_pointer(tracering_packet* event,
                                            const char* name,
                                            const void* value);
// Arguments that follow are its entries, or its items, until the
// tracering_message_end for it. They nest 64 deep.
TRACERING_EXPORT void tracering_arg_dict_begin(tracering_packet* event,
                                               const char* name);
TRACERING_EXPORT void tracering_arg_array_begin(tracering_packet* event,
                                                const char* name);

// Connects events, over threads and processes, to one arrow: those of the same
// flow, in the order of time. Not within a dictionary or an array.
TRACERING_EXPORT void tracering_arg_flow(tracering_packet* event,
                                         uint64_t flow);
// The last event of a flow.
TRACERING_EXPORT void tracering_arg_terminating_flow(tracering_packet* event,
                                                     uint64_t flow);
// A flow for what `id` distinguishes within this process. Where all processes
// mean the same by a number, that number is a flow as it is.
TRACERING_EXPORT uint64_t tracering_local_flow(uint64_t id);

#ifdef __cplusplus
}
#endif

#endif  // TRACERING_C_TRACK_EVENT_H_
