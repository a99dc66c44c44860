// Tracing from C, C11 or later: what producer.h is for C++, and the way to it
// for languages that can call C.
//
//   tracering_options* options = tracering_options_create();
//   tracering_options_set_name(options, "render_server");
//   char error[256];
//   tracering_producer* producer;
//   if (tracering_producer_create(options, &producer, error, sizeof(error)) !=
//       TRACERING_OK) {
//     fprintf(stderr, "not traced: %s\n", error);  // and go on
//   }
//   tracering_options_destroy(options);
//   tracering_writer* writer = tracering_thread_writer(producer, "main");
//
// packet.h has what a writer writes, track_event.h the tracing of a whole
// program. examples/c_producer.c is a program that uses all three.
//
// The rules of all of it:
//  - The interface is stable: what is opaque stays so, functions and constants
//    are only added, and a struct that may grow begins with its `size`.
//  - No C++ exception comes out. What needs memory and finds none says so, or
//    traces into nothing.
//  - Null handles are welcome everywhere and have no effect, so that a program
//    whose tracing could not be started need not be full of conditions.
//    Functions that have something to return say what it is then.
//  - Texts end with a NUL and are copied. Null is the empty text.
//  - Any thread may call anything, unless stated; handles of options belong to
//    one thread at a time. Not for signal handlers, unless stated.
//  - A child made by fork() without exec finds every handle harmless, and may
//    create its own.
//  - pthread_cancel may take effect in tracering_flush and
//    tracering_wait_for_consumer, which leave all in order.
//  - It is implemented in C++: link with its standard library, which CMake and
//    `pkg-config` see to.
#ifndef TRACERING_C_PRODUCER_H_
#define TRACERING_C_PRODUCER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracering/c/packet.h"
#include "tracering/c/status.h"
#include "tracering/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Options ---
//
// Values are copied and checked when they are used, by
// tracering_producer_create and tracering_start_tracing, whose errors name the
// value and the rule. What is not set has its default.

typedef struct tracering_options tracering_options;

// Null if there is no memory.
TRACERING_EXPORT tracering_options* tracering_options_create(void);
TRACERING_EXPORT void tracering_options_destroy(tracering_options* options);

// How the process appears in traces, at most 255 bytes. Default, and for the
// empty text: the name of the program.
TRACERING_EXPORT void tracering_options_set_name(tracering_options* options,
                                                 const char* name);
// Of the service's socket, at most 107 bytes. Default, and for the empty text:
// $TRACERING_SOCKET, else $XDG_RUNTIME_DIR/tracering.sock, else
// /tmp/tracering-<uid>.sock.
TRACERING_EXPORT void tracering_options_set_socket_path(
    tracering_options* options, const char* path);
// Bytes of chunks in the ring that buffers share: chunk_size times a power of
// two, at least 2 chunks and at most 1 GiB. Default: 1 MiB.
TRACERING_EXPORT void tracering_options_set_ring_size(
    tracering_options* options, size_t bytes);
// A power of two from 256 bytes to 32 KiB. Default: 4096.
TRACERING_EXPORT void tracering_options_set_chunk_size(
    tracering_options* options, size_t bytes);
// Keeps the rings in files, which outlive the process, and which no service
// reads; ProducerOptions::ring_file of tracering/producer.h says more.
TRACERING_EXPORT void tracering_options_set_ring_file(
    tracering_options* options, const char* path);

enum {
  TRACERING_STARTUP_BUFFER = 0,  // trace from the first moment (default)
  TRACERING_STARTUP_OFF = 1      // trace while a consumer is attached
};
TRACERING_EXPORT void tracering_options_set_startup(tracering_options* options,
                                                    int32_t startup);

// What writers do when their ring has no room: drop the packet at once, or wait
// for the consumer, for at most `stall_timeout_ns` (0 or more) a packet.
enum {
  TRACERING_POLICY_DROP = 0,  // default
  TRACERING_POLICY_STALL = 1
};
// Of all writers of which nothing else is said.
TRACERING_EXPORT void tracering_options_set_policy(tracering_options* options,
                                                   int32_t policy,
                                                   int64_t stall_timeout_ns);

// Declares a target buffer, which is needed to set something about it: writers
// may have any. A name has 1 to 255 bytes, is unique, and not "metadata".
TRACERING_EXPORT void tracering_options_add_buffer(tracering_options* options,
                                                   const char* name);
// The same with a ring for this buffer alone, of so many bytes (0: as the
// shared one), by the same rules.
TRACERING_EXPORT void tracering_options_add_buffer_with_ring(
    tracering_options* options, const char* name, size_t ring_size);
// Of the writers of a buffer that has been added.
TRACERING_EXPORT void tracering_options_set_buffer_policy(
    tracering_options* options, const char* name, int32_t policy,
    int64_t stall_timeout_ns);

// Another user whose service may read our rings; ours and root's always may.
TRACERING_EXPORT void tracering_options_allow_service_uid(
    tracering_options* options, uint32_t uid);
// Whether a background thread keeps the connection (default), or the program
// calls tracering_process_ready.
TRACERING_EXPORT void tracering_options_set_own_thread(
    tracering_options* options, bool own_thread);
// Called with `user` after each attach of a consumer, on the background thread
// or in tracering_process_ready: for data that each session needs once.
TRACERING_EXPORT void tracering_options_on_session_start(
    tracering_options* options, void (*callback)(void* user), void* user);

// --- Producers ---

typedef struct tracering_producer tracering_producer;

// Allocates the rings and starts the background thread; does not wait for a
// service. *producer is null where it fails. TRACERING_INVALID_ARGUMENT: an
// option, or a null; TRACERING_RESOURCE_EXHAUSTED: memory; and what the kernel
// refuses.
TRACERING_EXPORT tracering_status tracering_producer_create(
    const tracering_options* options, tracering_producer** producer,
    char* error, size_t error_size);

// Publishes what the calling thread's writers hold, says goodbye to the service
// and waits for the background thread, for at most a second. Writers of other
// threads trace into nothing from now on. No other thread may be in a function
// that has been given the producer.
TRACERING_EXPORT void tracering_producer_destroy(tracering_producer* producer);

// The calling thread's writer for a buffer (1 to 255 bytes), found without lock
// or allocation but for the first time. Valid until the thread ends, also after
// the producer; then it publishes what it holds. Null for a null producer only:
// where no writer can be had, it is one that traces into nothing or counts.
TRACERING_EXPORT tracering_writer* tracering_thread_writer(
    tracering_producer* producer, const char* buffer);

// A writer for a thread, one at a time, that the caller chooses.
typedef struct tracering_own_writer tracering_own_writer;

// With the policy of its buffer. Null without memory, and for a null producer.
TRACERING_EXPORT tracering_own_writer* tracering_own_writer_create(
    tracering_producer* producer, const char* buffer);
// With a policy of its own. Null also if that is none.
TRACERING_EXPORT tracering_own_writer* tracering_own_writer_create_with_policy(
    tracering_producer* producer, const char* buffer, int32_t policy,
    int64_t stall_timeout_ns);
// Valid until it is destroyed. Null for null.
TRACERING_EXPORT tracering_writer* tracering_own_writer_get(
    tracering_own_writer* writer);
// Publishes what it holds, and gives up a packet that is open. On the thread
// that it belongs to, or when that is done with it; also after the producer.
TRACERING_EXPORT void tracering_own_writer_destroy(
    tracering_own_writer* writer);

// --- The consumer ---

// Waits until it has taken all that was published before the call, the calling
// thread's open batches included, for at most `timeout_ns` (0 and less: only
// looks). TRACERING_DEADLINE_EXCEEDED; TRACERING_UNAVAILABLE: there is no
// consumer, or it left; TRACERING_FAILED_PRECONDITION: a forked child.
TRACERING_EXPORT tracering_status tracering_flush(tracering_producer* producer,
                                                  int64_t timeout_ns,
                                                  char* error,
                                                  size_t error_size);

// Tells the service that something happened, by 1 to 255 bytes, which may make
// it save a snapshot. Does not wait; costs a system call.
// TRACERING_UNAVAILABLE: nobody hears it; TRACERING_FAILED_PRECONDITION: a
// forked child.
TRACERING_EXPORT tracering_status
tracering_trigger(tracering_producer* producer, const char* name, char* error,
                  size_t error_size);

// Whether a consumer has attached the rings. False for null.
TRACERING_EXPORT bool tracering_consumer_attached(
    const tracering_producer* producer);
// Waits for that, at most `timeout_ns`; without an own thread it does what
// tracering_process_ready does meanwhile.
TRACERING_EXPORT bool tracering_wait_for_consumer(tracering_producer* producer,
                                                  int64_t timeout_ns);

// For event loops: readable while tracering_process_ready has work. Not to be
// read. -1 with an own thread, in a forked child, and for null.
TRACERING_EXPORT int tracering_poll_fd(const tracering_producer* producer);
// Does what is due for the connection, without blocking.
TRACERING_EXPORT void tracering_process_ready(tracering_producer* producer);

// --- Tracks: what events are shown on, by a uuid that is never 0 ---
// Names are cut at 1024 bytes; at most 4096 tracks at a time. All of them
// return 0 for null, and without memory.

TRACERING_EXPORT uint64_t
tracering_process_track(const tracering_producer* producer);
// The calling thread's, named as the kernel names the thread.
TRACERING_EXPORT uint64_t tracering_thread_track(tracering_producer* producer);
// The same under another name from now on.
TRACERING_EXPORT uint64_t
tracering_thread_track_named(tracering_producer* producer, const char* name);
// Below the track `parent` (0: the process).
TRACERING_EXPORT uint64_t tracering_add_track(tracering_producer* producer,
                                              const char* name,
                                              uint64_t parent);

enum {
  TRACERING_UNIT_UNSPECIFIED = 0,
  TRACERING_UNIT_TIME_NS = 1,
  TRACERING_UNIT_COUNT = 2,
  TRACERING_UNIT_SIZE_BYTES = 3
};
// A track of counter events. A unit that is none is unspecified.
TRACERING_EXPORT uint64_t
tracering_add_counter_track(tracering_producer* producer, const char* name,
                            int32_t unit, uint64_t parent);
// With a unit in words, such as "requests".
TRACERING_EXPORT uint64_t
tracering_add_counter_track_in(tracering_producer* producer, const char* name,
                               const char* unit_name, uint64_t parent);
// Later sessions need not know the track.
TRACERING_EXPORT void tracering_remove_track(tracering_producer* producer,
                                             uint64_t uuid);

// --- Statistics ---
// attempted == delivered + lost once the writers are quiet and a flush has
// succeeded. Functions return false, with nothing written, where an argument is
// null or a size too small to be anything, where there is no such item, and
// without memory. Each costs O(rings + writers). All zero in a forked child.

typedef struct tracering_producer_stats {
  size_t size;  // as in tracering_writer_stats
  uint64_t attempted;
  uint64_t lost;
  uint64_t num_rings;
  uint64_t sessions;  // how often a consumer has attached
  // Requests for writers under names that were empty, too long or too many.
  uint64_t refused_buffer_names;
  // Buffers that the present or last consumer does not have.
  uint64_t num_unknown_buffers;
  // Descriptors of processes, threads and tracks: that every session gets, and
  // that are lost for good.
  uint64_t live_descriptors;
  uint64_t dropped_descriptors;
} tracering_producer_stats;

typedef struct tracering_ring_stats {
  size_t size;     // as in tracering_writer_stats
  char name[256];  // its only buffer; "shared" for the ring of the others
  uint32_t num_chunks;
  uint32_t chunk_size;
  uint32_t outstanding_chunks;  // reserved and not yet taken
  uint32_t writers;             // that exist now
  uint32_t poisoned;            // 1: a word that may not stand there; else 0
  uint32_t metadata;  // 1: carries descriptors, not in the totals; else 0
  uint64_t attempted;
  uint64_t lost;  // the sum of the next three
  // Packets of which nothing was published, by cause.
  uint64_t lost_by_cause[TRACERING_NUM_WRITER_LOSS_CAUSES];
  uint64_t lost_by_reader;   // that the consumer found to be lost
  uint64_t lost_unfinished;  // of which it cannot know yet
  uint64_t discarded;
  uint64_t surplus_writers;  // ever created without an id left for them
} tracering_ring_stats;

TRACERING_EXPORT bool tracering_producer_get_stats(
    const tracering_producer* producer, tracering_producer_stats* stats);
// `index` from 0 to num_rings - 1: the shared ring, own ones as declared, that
// of descriptors.
TRACERING_EXPORT bool tracering_ring_get_stats(
    const tracering_producer* producer, size_t index,
    tracering_ring_stats* stats);
// The name of a buffer that the consumer does not have, `index` from 0 to
// num_unknown_buffers - 1, cut to fit.
TRACERING_EXPORT bool tracering_get_unknown_buffer(
    const tracering_producer* producer, size_t index, char* name, size_t size);
// Why there is no consumer, or why the last attempt to connect failed, cut to
// fit; may be empty.
TRACERING_EXPORT bool tracering_get_connection_error(
    const tracering_producer* producer, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // TRACERING_C_PRODUCER_H_
