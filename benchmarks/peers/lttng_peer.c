// What an event costs with LTTng-UST: the events of track_event_benchmark.
// Prints "name nanoseconds" lines, the median of some runs.
//
// scripts/bench.sh --peers builds it and runs it in a session that has the
// events enabled, or, for the last line, disabled.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lttng_events.inc"

enum { kRuns = 21, kEvents = 20000 };

static double NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int Compare(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return difference < 0 ? -1 : difference > 0;
}

#define MEASURE(name, event)                        \
  do {                                              \
    double times[kRuns];                            \
    for (int run = 0; run < kRuns; ++run) {         \
      const double start = NowNs();                 \
      for (int i = 0; i < kEvents; ++i) event;      \
      times[run] = (NowNs() - start) / kEvents;     \
      struct timespec pause = {0, 50000000};        \
      nanosleep(&pause, NULL);                      \
    }                                               \
    qsort(times, kRuns, sizeof(times[0]), Compare); \
    printf("%s %.1f\n", name, times[kRuns / 2]);    \
  } while (0)

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "disabled") == 0) {
    MEASURE("disabled", lttng_ust_tracepoint(tracering_peer, integer, i));
    return 0;
  }
  MEASURE("int", lttng_ust_tracepoint(tracering_peer, integer, i));
  MEASURE("int+string16",
          lttng_ust_tracepoint(tracering_peer, integer_and_string, i,
                               "0123456789abcdef"));
  return 0;
}
