// What the producing demo programs have in common: the way to a service, a
// track event, and the account at the end.
//
// Public headers only. Each thread has its own writer; the rest is for main.
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
#include "absl/status/statusor.h"
#include "examples/command_line.h"
#include "tracering/clock.h"
#include "tracering/packet.h"
#include "tracering/producer.h"
#include "tracering/trace_fields.h"
#include "tracering/trace_writer.h"

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

// Goes on without a consumer if none comes in time.
inline void AwaitConsumer(const std::string& program,
                          tracering::Producer& producer, uint64_t wait_ms) {
  if (producer.WaitForConsumer(std::chrono::milliseconds(wait_ms))) return;
  std::cerr << program
            << ": no consumer yet: " << producer.stats().connection_error
            << '\n';
}

// Named by options.name in complaints.
inline std::unique_ptr<tracering::Producer> ConnectProducer(
    const tracering::ProducerOptions& options, uint64_t wait_ms) {
  absl::StatusOr<std::unique_ptr<tracering::Producer>> producer =
      tracering::Producer::Create(options);
  ExitUnlessOk(options.name, producer.status());
  AwaitConsumer(options.name, **producer, wait_ms);
  return *std::move(producer);
}

// A packet with one track event; `append` adds to what every event has.
template <typename Append>
void TraceEvent(tracering::TraceWriter& writer, uint64_t type, uint64_t track,
                Append append) {
  tracering::Packet packet = writer.NewPacket();
  packet.AppendVarint(tracering::trace_packet::kTimestamp, tracering::NowNs());
  tracering::Message event =
      packet.BeginMessage(tracering::trace_packet::kTrackEvent);
  event.AppendVarint(tracering::track_event::kType, type);
  event.AppendVarint(tracering::track_event::kTrackUuid, track);
  append(event);
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
