// The same in C.
#include <stddef.h>
#include <stdint.h>

#include "tracering/c/producer.h"
#include "tracering/c/track_event.h"

int main(void) {
  tracering_options* const options = tracering_options_create();
  tracering_options_set_name(options, "my_app");
  tracering_options_set_categories(options, "*");
  if (tracering_start_tracing(options, NULL, 0) != TRACERING_OK) return 1;
  tracering_options_destroy(options);

  tracering_category* const app = tracering_category_get("app");
  for (int i = 0; i < 10; ++i) {
    tracering_packet* const event = tracering_slice_begin_open(app, "work");
    tracering_arg_int(event, "number", i);
    tracering_packet_end(event);
    tracering_instant(app, "half way");
    tracering_slice_end(app);
  }

  const int64_t second_ns = INT64_C(1000000000);
  tracering_producer* const producer = tracering_tracing_producer();
  tracering_wait_for_consumer(producer, 10 * second_ns);
  const tracering_status status = tracering_flush(producer, second_ns, NULL, 0);
  tracering_producer_destroy(producer);
  return status == TRACERING_OK ? 0 : 1;
}
