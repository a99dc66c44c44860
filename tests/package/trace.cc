// A program that traces its work; also the producer of the README.
#include <chrono>

#include "tracering/track_event.h"

int main() {
  tracering::TracingOptions options;
  options.producer.name = "my_app";
  options.categories = {{"*"}};  // until a service says which ones
  if (!tracering::StartTracing(options).ok()) return 1;  // needs no service

  for (int i = 0; i < 10; ++i) {
    TRACERING_SCOPE("app", "work", "number", i);  // to the end of the scope
    TRACERING_INSTANT("app", "half way");
    TRACERING_COUNTER("app", "done", i);
  }

  tracering::TracingProducer()->WaitForConsumer(std::chrono::seconds(10));
  return tracering::FlushTracing(std::chrono::seconds(1)).ok() ? 0 : 1;
}
