// A program that records itself: producer and consumer in one process. It
// traces all the time into a buffer of a few megabytes that overwrites its
// oldest packets, and saves what led up to a problem at the moment when there
// is one.
//
// What matters is in FlightRecorder; the rest is work that goes wrong now and
// then. Nothing here needs another process, and nothing is written until it is
// asked for.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "examples/command_line.h"
#include "examples/demo_session.h"
#include "tracering/consumer.h"
#include "tracering/track_event.h"

namespace {

constexpr const char* kUsage =
    "usage: flight_recorder --output FILE [options]\n"
    "\n"
    "Serves requests, traces each of them, and saves the last ones whenever\n"
    "one was slow.\n"
    "\n"
    "  --output FILE    where a trace goes, and the next one over it\n"
    "  --requests N     how many are served; default: 2000\n"
    "  --slow-one-in N  default: 500\n"
    "  --help           this text\n"
    "\n"
    "Tells how many traces were saved, and how many packets the last one "
    "has.\n";

// The service that a process is for itself.
class FlightRecorder {
 public:
  // Ends the program if there is no memory for it.
  FlightRecorder() {
    tracering::ConsumerOptions options;
    // A name of our own, where no other program looks.
    options.socket_path =
        "/tmp/flight_recorder-" + std::to_string(getpid()) + ".sock";
    options.buffers = {{kDemoBuffer, 4 << 20, tracering::FillPolicy::kRing}};
    absl::StatusOr<std::unique_ptr<tracering::Consumer>> consumer =
        tracering::Consumer::Create(options);
    absl::Status status = consumer.status();
    if (status.ok()) {
      consumer_ = *std::move(consumer);
      status = consumer_->Start();
    }
    if (!status.ok()) {
      std::cerr << "flight_recorder: " << status.message() << '\n';
      std::exit(kExitFailure);
    }
    tracering::TracingOptions tracing;
    tracing.producer.name = "flight_recorder";
    tracing.producer.socket_path = options.socket_path;
    StartDemoTracing(tracing, 5000);
  }
  // The producer goes first, so that the consumer takes all that it had.
  ~FlightRecorder() { tracering::StopTracing(); }
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // What was traced last, up to this moment. May be called from any thread; it
  // writes a file, so in a program that must not wait it is for another one.
  absl::StatusOr<tracering::TraceFileInfo> Save(const std::string& path) {
    consumer_->Flush(std::chrono::seconds(1));
    return consumer_->WriteTrace(path);
  }

 private:
  std::unique_ptr<tracering::Consumer> consumer_;
};

// One request: a slice, and in it one for each of its steps.
void Serve(uint64_t number, bool slow) {
  TRACERING_SCOPE("requests", "request", "number", number);
  for (const char* step : {"parse", "look up", "answer"}) {
    TRACERING_SCOPE("requests", step);
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(slow ? 5000 : 5);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string output;
  uint64_t requests = 2000;
  uint64_t slow_one_in = 500;
  CommandLine line("flight_recorder", argc, argv);
  while (line.Next()) {
    if (line.name() == "--output") {
      output = line.Value();
    } else if (line.name() == "--requests") {
      requests = line.Number(1, 1'000'000'000);
    } else if (line.name() == "--slow-one-in") {
      slow_one_in = line.Number(1, 1'000'000'000);
    } else if (line.name() == "--help") {
      line.NoValue();
      std::cout << kUsage;
      return EXIT_SUCCESS;
    } else {
      line.FailUnknown();
    }
  }
  if (output.empty()) line.Fail("--output FILE is needed: where a trace goes");

  FlightRecorder recorder;
  uint64_t saved = 0;
  uint64_t packets = 0;
  for (uint64_t i = 1; i <= requests; ++i) {
    const bool slow = i % slow_one_in == 0;
    Serve(i, slow);
    if (!slow) continue;
    const absl::StatusOr<tracering::TraceFileInfo> info = recorder.Save(output);
    if (!info.ok()) {
      std::cerr << "flight_recorder: " << info.status().message() << '\n';
      return kExitFailure;
    }
    ++saved;
    packets = info->packets;
  }
  std::cout << "saved=" << saved << " packets=" << packets << '\n';
  return EXIT_SUCCESS;
}
