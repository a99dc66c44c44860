// A C11 program that is traced in the way that argv[1] names. Compiled as
// strictly as a user might. The service is where $TRACERING_SOCKET says.
//
// Prints "attempted=N lost=N" where packets are numbered. Anything unexpected
// ends it with status 9.
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracering/c/packet.h"
#include "tracering/c/producer.h"
#include "tracering/c/status.h"
#include "tracering/c/track_event.h"

static const int64_t kLongNs = INT64_C(30000000000);

static void Require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "not so: %s\n", what);
  _exit(9);
}

static void RequireOk(tracering_status status, const char* error) {
  if (status == TRACERING_OK) return;
  fprintf(stderr, "%s: %s\n", tracering_status_name(status), error);
  _exit(9);
}

static tracering_producer* CreateProducer(const char* name, size_t ring_size,
                                          int32_t policy) {
  char error[256];
  tracering_producer* producer;
  tracering_options* const options = tracering_options_create();
  tracering_options_set_name(options, name);
  tracering_options_set_ring_size(options, ring_size);
  tracering_options_set_policy(options, policy, kLongNs);
  RequireOk(tracering_producer_create(options, &producer, error, sizeof(error)),
            error);
  tracering_options_destroy(options);
  Require(tracering_wait_for_consumer(producer, kLongNs),
          "a consumer attaches");
  return producer;
}

static void Flush(tracering_producer* producer) {
  char error[256];
  RequireOk(tracering_flush(producer, kLongNs, error, sizeof(error)), error);
}

// --- Numbered packets ---

static void AppendNote(tracering_packet* packet, const char* name,
                       uint64_t value) {
  tracering_message_begin(packet, 4);  // debug_annotations
  tracering_append_string(packet, 10, name);
  tracering_append_varint(packet, 3, value);
  tracering_message_end(packet);
}

// With messages that are open still.
static tracering_packet* BeginNumbered(tracering_writer* writer,
                                       uint64_t number, uint64_t index) {
  tracering_packet* const packet = tracering_packet_begin(writer);
  tracering_append_varint(packet, 8, tracering_now());  // timestamp
  tracering_message_begin(packet, 11);                  // track_event
  tracering_append_varint(packet, 9, 3);                // type: instant
  AppendNote(packet, "writer", number);
  AppendNote(packet, "index", index);
  return packet;
}

static void WriteNumbered(tracering_writer* writer, uint64_t number,
                          uint64_t index) {
  tracering_packet_end(BeginNumbered(writer, number, index));
}

static void PrintTotals(uint64_t attempted, uint64_t lost) {
  printf("attempted=%llu lost=%llu\n", (unsigned long long)attempted,
         (unsigned long long)lost);
}

// Also checks that the parts are what the whole is.
static void PrintTotalsOf(tracering_producer* producer) {
  tracering_producer_stats stats = {.size = sizeof(stats)};
  Require(tracering_producer_get_stats(producer, &stats), "there are stats");
  uint64_t attempted = 0;
  uint64_t lost = 0;
  for (size_t i = 0; i < stats.num_rings; ++i) {
    tracering_ring_stats ring = {.size = sizeof(ring)};
    Require(tracering_ring_get_stats(producer, i, &ring), "a ring has stats");
    if (ring.metadata) continue;
    attempted += ring.attempted;
    lost += ring.lost;
  }
  Require(attempted == stats.attempted && lost == stats.lost,
          "rings add up to the totals");
  PrintTotals(stats.attempted, stats.lost);
}

// --- Load: threads that write as fast as they can into a small ring ---

enum { kThreads = 4, kPackets = 5000 };

struct Load {
  tracering_producer* producer;
  uint64_t number;
  tracering_writer_stats stats;
};

static void* RunLoad(void* argument) {
  struct Load* const load = argument;
  tracering_writer* const writer =
      tracering_thread_writer(load->producer, "main");
  for (uint64_t i = 0; i < kPackets; ++i) {
    const bool in_batch = i % 7 == 0;
    if (in_batch) tracering_batch_begin(writer);
    WriteNumbered(writer, load->number, i);
    if (in_batch) tracering_batch_end(writer);
  }
  load->stats.size = sizeof(load->stats);
  Require(tracering_writer_get_stats(writer, &load->stats),
          "a writer has stats");
  Require(load->stats.attempted == kPackets, "all packets are attempted");
  Require(load->stats.attempted == load->stats.published + load->stats.lost,
          "published and lost packets are all");
  return NULL;
}

static void RunThreads(int32_t policy) {
  tracering_producer* const producer =
      CreateProducer("c_program", 16 * 4096, policy);
  pthread_t threads[kThreads];
  struct Load loads[kThreads];
  uint64_t lost = 0;
  for (int i = 0; i < kThreads; ++i) {
    loads[i].producer = producer;
    loads[i].number = (uint64_t)i + 1;
    Require(pthread_create(&threads[i], NULL, RunLoad, &loads[i]) == 0,
            "there is a thread");
  }
  for (int i = 0; i < kThreads; ++i) {
    Require(pthread_join(threads[i], NULL) == 0, "a thread ends");
    lost += loads[i].stats.lost;
  }
  Flush(producer);
  Require(policy == TRACERING_POLICY_DROP || lost == 0,
          "who waits loses nothing");
  PrintTotalsOf(producer);
  tracering_producer_destroy(producer);
}

// --- Everything wrong that can be done to a writer ---

static tracering_writer* interrupted_writer;

static void BeginInHandler(int signal_number) {
  (void)signal_number;
  tracering_packet* const packet = tracering_packet_begin(interrupted_writer);
  tracering_append_varint(packet, 8, 1);
  tracering_packet_end(packet);
}

static void Misuse(void) {
  tracering_producer* const producer =
      CreateProducer("c_program", 1 << 20, TRACERING_POLICY_DROP);
  tracering_own_writer* const own =
      tracering_own_writer_create(producer, "main");
  tracering_writer* const writer = tracering_own_writer_get(own);
  // Never begun, and ended too often.
  tracering_batch_end(writer);
  tracering_packet* packet = BeginNumbered(writer, 1, 0);
  for (int i = 0; i < 5; ++i) tracering_message_end(packet);
  tracering_packet_end(packet);
  tracering_packet_end(packet);
  // After the end.
  tracering_append_varint(packet, 8, 1);
  tracering_append_string(packet, 900, "late");
  tracering_message_begin(packet, 11);
  tracering_message_end(packet);
  tracering_arg_int(packet, "late", 1);
  tracering_packet_discard(packet);
  // Within another packet: lost, also in a signal handler.
  packet = BeginNumbered(writer, 1, 1);
  Require(tracering_packet_begin(writer) == NULL, "one packet at a time");
  interrupted_writer = writer;
  struct sigaction action = {.sa_handler = BeginInHandler};
  Require(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0,
          "a signal is handled");
  tracering_packet_end(packet);
  // Fields that cannot be, arguments of what is no event: discarded.
  const uint32_t wrong[] = {0, UINT32_C(1) << 29, UINT32_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    packet = BeginNumbered(writer, 1, 2);
    tracering_message_begin(packet, wrong[i]);
    tracering_append_varint(packet, 9, 1);
    tracering_packet_end(packet);
  }
  packet = BeginNumbered(writer, 1, 2);
  tracering_arg_string(packet, "of", "no event");
  tracering_packet_end(packet);
  // Null, and texts that are none.
  packet = BeginNumbered(writer, 1, 2);
  tracering_append_string(packet, 23, NULL);
  tracering_append_bytes(packet, 22, NULL, 1000);
  tracering_packet_end(packet);
  tracering_writer_stats stats = {.size = sizeof(stats)};
  Require(tracering_writer_get_stats(writer, &stats), "there are stats");
  Require(stats.attempted == 5 && stats.lost == 2 && stats.discarded == 4,
          "misuse is counted");
  Require(strcmp(tracering_loss_cause_name(4), "writer abort") == 0 &&
              stats.lost_by_cause[4] == 2,
          "nested packets are lost as aborted");
  // Open when its writer goes: given up, and lost.
  packet = BeginNumbered(writer, 1, 3);
  tracering_own_writer_destroy(own);
  Flush(producer);
  PrintTotalsOf(producer);
  tracering_producer_destroy(producer);
}

// --- A child that is forked while a packet is open ---

static int InChild(tracering_producer* producer, tracering_writer* writer,
                   tracering_packet* packet, tracering_category* category) {
  char error[256];
  // All that is the parent's is harmless.
  tracering_append_string(packet, 23, "from the child");
  tracering_packet_end(packet);
  Require(tracering_packet_begin(writer) == NULL, "it goes nowhere");
  Require(tracering_flush(producer, 0, error, sizeof(error)) ==
                  TRACERING_FAILED_PRECONDITION &&
              strstr(error, "forked child") != NULL,
          "a flush says why it does nothing");
  tracering_slice_begin(category, "nowhere");
  tracering_slice_end(category);
  Require(!tracering_consumer_attached(producer), "there is no consumer");
  Require(tracering_process_track(producer) != 0, "there is a track");
  tracering_stop_tracing();
  tracering_producer_destroy(producer);
  tracering_producer* const mine =
      CreateProducer("c_program child", 1 << 20, TRACERING_POLICY_DROP);
  for (uint64_t i = 0; i < 100; ++i) {
    WriteNumbered(tracering_thread_writer(mine, "main"), 2, i);
  }
  Flush(mine);
  tracering_producer_destroy(mine);
  return 0;
}

static void Fork(void) {
  tracering_producer* const producer =
      CreateProducer("c_program", 1 << 20, TRACERING_POLICY_DROP);
  tracering_writer* const writer = tracering_thread_writer(producer, "main");
  tracering_category* const category = tracering_category_get("app");
  WriteNumbered(writer, 1, 0);
  tracering_packet* const packet = BeginNumbered(writer, 1, 1);
  const pid_t child = fork();
  Require(child >= 0, "there is a child");
  if (child == 0) _exit(InChild(producer, writer, packet, category));
  int status = 0;
  Require(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0,
          "the child finds all in order");
  tracering_packet_end(packet);
  WriteNumbered(writer, 1, 2);
  Flush(producer);
  tracering_producer_destroy(producer);
  PrintTotals(103, 0);
}

// --- Track events of every kind ---

static void StartTracing(void) {
  char error[256];
  tracering_options* const options = tracering_options_create();
  tracering_options_set_name(options, "c_program");
  tracering_options_set_clock(options, TRACERING_CLOCK_BOOTTIME);
  RequireOk(tracering_start_tracing(options, error, sizeof(error)), error);
  Require(tracering_start_tracing(options, error, sizeof(error)) ==
              TRACERING_FAILED_PRECONDITION,
          "tracing starts once");
  tracering_options_destroy(options);
}

static void TraceSlices(void) {
  tracering_category* const app = tracering_category_get("app");
  tracering_category* const off = tracering_category_get("off");
  Require(tracering_category_enabled(app), "a category is enabled");
  Require(!tracering_category_enabled(off), "a category is disabled");
  Require(app == tracering_category_get("app"), "categories are kept");
  tracering_slice_end(app);  // without a begin
  tracering_slice_begin(app, "outer");
  tracering_packet_end(tracering_slice_begin_open(app, "inner"));
  tracering_instant(app, "tick");
  tracering_instant(off, "never");
  Require(tracering_instant_open(off, "never") == NULL, "it need not be made");
  tracering_packet* packet = tracering_slice_end_open(app);
  tracering_arg_int(packet, "result", 42);
  tracering_packet_end(packet);
  tracering_slice_end(app);
}

static void TraceArguments(void) {
  tracering_category* const args = tracering_category_get("args");
  tracering_packet* packet = tracering_instant_open(args, "scalars");
  tracering_arg_bool(packet, "bool", true);
  tracering_arg_int(packet, "int", INT64_MIN);
  tracering_arg_uint(packet, "uint", UINT64_MAX);
  tracering_arg_double(packet, "double", 1.25);
  tracering_arg_string(packet, "string", "text");
  tracering_arg_string(packet, "none", NULL);
  tracering_arg_pointer(packet, "pointer", args);
  tracering_packet_end(packet);

  packet = tracering_instant_open(args, "nested");
  tracering_arg_dict_begin(packet, "dict");
  tracering_arg_int(packet, "one", 1);
  tracering_arg_array_begin(packet, "items");
  tracering_arg_string(packet, NULL, "first");
  tracering_arg_dict_begin(packet, NULL);
  tracering_arg_double(packet, "deep", 0.5);
  tracering_message_end(packet);
  tracering_arg_bool(packet, "not looked at", false);
  tracering_message_end(packet);
  tracering_arg_int(packet, "two", 2);
  tracering_message_end(packet);
  tracering_arg_int(packet, "after", 3);
  for (int i = 0; i < 3; ++i) tracering_message_end(packet);  // too many
  tracering_arg_int(packet, "last", 4);
  tracering_packet_end(packet);

  // Too deep, and a flow that may not stand there.
  packet = tracering_instant_open(args, "discarded");
  for (int i = 0; i < 100; ++i) tracering_arg_array_begin(packet, "deeper");
  tracering_packet_end(packet);
  packet = tracering_instant_open(args, "discarded");
  tracering_arg_dict_begin(packet, "dict");
  tracering_arg_flow(packet, 1);
  tracering_packet_end(packet);
}

static void* Take(void* argument) {
  tracering_category* const app = tracering_category_get("app");
  tracering_set_thread_name("a worker");
  tracering_packet* const packet = tracering_instant_open(app, "taken");
  tracering_arg_terminating_flow(packet, tracering_local_flow(17));
  tracering_packet_end(packet);
  tracering_track_slice_end(argument);
  return NULL;
}

static void TraceTracks(void) {
  tracering_category* const app = tracering_category_get("app");
  tracering_counter* const heap =
      tracering_counter_get("heap", TRACERING_UNIT_SIZE_BYTES);
  tracering_counter* const requests =
      tracering_counter_get_in("requests", "requests per second");
  for (int i = 0; i < 3; ++i) {
    tracering_count_int(app, heap, 1000 * i);
    tracering_count_double(app, requests, 0.5 * i);
  }
  tracering_event_track* const request =
      tracering_event_track_create("request 1", NULL);
  tracering_event_track* const part =
      tracering_event_track_create("part", request);
  tracering_track_slice_end(request);  // without a begin
  tracering_packet* packet =
      tracering_track_slice_begin_open(app, request, "handle");
  tracering_arg_flow(packet, tracering_local_flow(17));
  tracering_packet_end(packet);
  tracering_track_instant(app, part, "half");
  tracering_track_slice_begin(app, part, "left to the track");
  pthread_t thread;
  Require(pthread_create(&thread, NULL, Take, request) == 0 &&
              pthread_join(thread, NULL) == 0,
          "a thread ends");
  packet = tracering_track_instant_open(app, request, "after");
  tracering_packet_end(packet);
  tracering_packet_end(tracering_track_slice_end_open(request));  // none
  tracering_event_track_destroy(part);
  tracering_event_track_destroy(request);
}

static void Features(void) {
  char error[256];
  StartTracing();
  tracering_producer* const producer = tracering_tracing_producer();
  Require(tracering_wait_for_consumer(producer, kLongNs),
          "a consumer attaches");
  TraceSlices();
  TraceArguments();
  TraceTracks();
  RequireOk(tracering_trigger(producer, "done", error, sizeof(error)), error);
  RequireOk(tracering_flush_tracing(kLongNs, error, sizeof(error)), error);
  tracering_tracing_stats stats = {.size = sizeof(stats)};
  Require(tracering_get_tracing_stats(&stats) && stats.slices_too_deep == 0,
          "no slice is too deep");
  tracering_producer_destroy(producer);
  tracering_stop_tracing();
  Require(tracering_tracing_producer() == NULL, "tracing has stopped");
  tracering_instant(tracering_category_get("app"), "nowhere");
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "features") == 0) {
    Features();
  } else if (strcmp(what, "drop") == 0) {
    RunThreads(TRACERING_POLICY_DROP);
  } else if (strcmp(what, "stall") == 0) {
    RunThreads(TRACERING_POLICY_STALL);
  } else if (strcmp(what, "misuse") == 0) {
    Misuse();
  } else if (strcmp(what, "fork") == 0) {
    Fork();
  } else {
    Require(false, "argv[1] says what to do");
  }
  return 0;
}
