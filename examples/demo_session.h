// What the producing demo programs have in common: the way to a service, and
// the account at the end.
//
// Public headers only. For main; tracing itself is for any thread.
#ifndef TRACERING_EXAMPLES_DEMO_SESSION_H_
#define TRACERING_EXAMPLES_DEMO_SESSION_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "examples/command_line.h"
#include "tracering/producer.h"
#include "tracering/tracing.h"

// The target buffer of all that the demo programs trace.
inline constexpr const char* kDemoBuffer = "main";

// Ends the program if there can be no producer.
inline void ExitUnlessOk(const std::string& program,
                         const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << program << ": " << status.message() << '\n';
  std::exit(status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage
                                                                : kExitFailure);
}

// Starts tracing as the program options.producer.name, and waits so long for a
// consumer; goes on without one if none comes.
inline std::shared_ptr<tracering::Producer> StartDemoTracing(
    tracering::TracingOptions options, uint64_t wait_ms) {
  const std::string program = options.producer.name;
  options.buffer = kDemoBuffer;
  // Also before a consumer comes, which may ask for less.
  options.categories = {{"*"}};
  ExitUnlessOk(program, tracering::StartTracing(std::move(options)));
  std::shared_ptr<tracering::Producer> producer = tracering::TracingProducer();
  if (!producer->WaitForConsumer(std::chrono::milliseconds(wait_ms))) {
    std::cerr << program
              << ": no consumer yet: " << producer->stats().connection_error
              << '\n';
  }
  return producer;
}

// Waits until all is taken, or says on standard error why it is not. What is
// still in the ring when nobody takes it goes with this process: without any
// session all packets are lost.
inline tracering::Producer::Stats FinalStats(const char* program,
                                             tracering::Producer& producer) {
  const absl::Status flushed = producer.Flush(std::chrono::seconds(10));
  tracering::Producer::Stats stats = producer.stats();
  if (!flushed.ok()) {
    std::cerr << program << ": not everything was taken: " << flushed.message()
              << '\n';
  }
  if (stats.sessions == 0) stats.lost = stats.attempted;
  return stats;
}

#endif  // TRACERING_EXAMPLES_DEMO_SESSION_H_
