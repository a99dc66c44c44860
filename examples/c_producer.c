// A C11 program that traces its work: a thread pool of two that handles
// requests.
//
//   c_producer [SOCKET]
//
// Waits for a service for ten seconds at most; without one it works the same.
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "tracering/c/producer.h"
#include "tracering/c/track_event.h"

enum { kWorkers = 2, kRequests = 50 };

static const int64_t kSecondNs = INT64_C(1000000000);

// Looked up once, by main. They are never freed.
static tracering_category* category;
static tracering_counter* handled_counter;

static uint64_t Handle(uint64_t request) {
  // Arguments that cost something are made only where somebody wants them.
  tracering_packet* event = tracering_slice_begin_open(category, "handle");
  if (event != NULL) {
    char url[64];
    snprintf(url, sizeof(url), "/item/%" PRIu64, request);
    tracering_arg_string(event, "url", url);
    tracering_arg_uint(event, "request", request);
    tracering_packet_end(event);
  }
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 20000 + request * 100; ++i) sum += i % 7;
  event = tracering_slice_end_open(category);
  tracering_arg_uint(event, "sum", sum);
  tracering_packet_end(event);
  return sum;
}

static void* Work(void* argument) {
  const uint64_t first = *(const uint64_t*)argument;
  tracering_set_thread_name(first == 0 ? "even worker" : "odd worker");
  uint64_t sum = 0;
  for (uint64_t request = first; request < kRequests; request += kWorkers) {
    sum += Handle(request);
    tracering_count_int(category, handled_counter, (int64_t)request + 1);
  }
  tracering_instant(category, sum != 0 ? "all done" : "nothing to do");
  return NULL;
}

// A packet of any kind that the trace format knows, field by field.
static void WriteByHand(tracering_producer* producer) {
  enum { kTimestamp = 8, kTrackEvent = 11 };  // of a packet
  enum { kType = 9, kTrackUuid = 11, kName = 23, kTypeInstant = 3 };
  const uint64_t track = tracering_add_track(producer, "by hand", 0);
  tracering_packet* const packet =
      tracering_packet_begin(tracering_thread_writer(producer, "main"));
  tracering_append_varint(packet, kTimestamp, tracering_now());
  tracering_message_begin(packet, kTrackEvent);
  tracering_append_varint(packet, kType, kTypeInstant);
  tracering_append_varint(packet, kTrackUuid, track);
  tracering_append_string(packet, kName, "field by field");
  tracering_packet_end(packet);
}

static void PrintStats(tracering_producer* producer) {
  tracering_producer_stats stats = {.size = sizeof(stats)};
  if (tracering_producer_get_stats(producer, &stats)) {
    printf("attempted=%" PRIu64 " lost=%" PRIu64 "\n", stats.attempted,
           stats.lost);
  }
}

int main(int argc, char** argv) {
  char error[256];
  tracering_options* const options = tracering_options_create();
  tracering_options_set_name(options, "c_producer");
  tracering_options_set_categories(options, "*");  // until a service says
  if (argc > 1) tracering_options_set_socket_path(options, argv[1]);
  if (tracering_start_tracing(options, error, sizeof(error)) != TRACERING_OK) {
    fprintf(stderr, "not traced: %s\n", error);  // and it goes on
  }
  tracering_options_destroy(options);
  category = tracering_category_get("app");
  handled_counter = tracering_counter_get("handled", TRACERING_UNIT_COUNT);

  pthread_t workers[kWorkers];
  uint64_t first[kWorkers];
  for (int i = 0; i < kWorkers; ++i) {
    first[i] = (uint64_t)i;
    if (pthread_create(&workers[i], NULL, Work, &first[i]) != 0) return 1;
  }
  for (int i = 0; i < kWorkers; ++i) pthread_join(workers[i], NULL);

  tracering_producer* const producer = tracering_tracing_producer();
  WriteByHand(producer);
  if (!tracering_wait_for_consumer(producer, 10 * kSecondNs) ||
      tracering_flush(producer, kSecondNs, error, sizeof(error)) !=
          TRACERING_OK) {
    fprintf(stderr, "nobody has read the trace\n");
  }
  PrintStats(producer);
  tracering_producer_destroy(producer);
  tracering_stop_tracing();
  return 0;
}
