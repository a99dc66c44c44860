// The program of docs/guide-consumer.md: a tracing service of one's own, with
// what the guide tells of: buffers, snapshots, triggers, streams, statistics,
// an event loop.
//
// The guide quotes it piece by piece; a lint rule holds the two together.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/command_line.h"
#include "tracering/consumer.h"

namespace {

constexpr std::string_view kUsage =
    "usage: trace_service --output FILE [options]\n"
    "\n"
    "Records until SIGINT or SIGTERM. SIGUSR1, and the trigger 'slow_order' "
    "of\n"
    "a program, save a snapshot in FILE.snapshot.\n"
    "\n"
    "  --socket PATH    where programs connect\n"
    "  --stream         write to FILE while recording, ten files of 100 MiB\n"
    "  --event-loop     drain in the main thread's loop, not in a thread\n"
    "  --help           this text\n";

struct Arguments {
  std::string output;
  std::string socket_path = tracering::DefaultSocketPath();
  bool stream = false;
  bool event_loop = false;
};

// Said by some thread of the consumer, heard by the main loop.
std::atomic<bool> snapshot_is_due{false};

absl::StatusOr<std::unique_ptr<tracering::Consumer>> CreateConsumer(
    const std::string& socket_path) {
  tracering::ConsumerOptions options;
  options.socket_path = socket_path;
  options.buffers = {
      // The last 64 MiB of events, and the first 4 MiB of the audit log.
      {"main", 64 << 20, tracering::FillPolicy::kRing},
      {"audit", 4 << 20, tracering::FillPolicy::kDiscard}};
  options.enabled_categories = {"*", "-*.verbose"};
  options.log = [](std::string_view line) { std::cerr << line << std::endl; };
  options.on_trigger = [](const tracering::TriggerEvent& event) {
    if (event.name == "slow_order") snapshot_is_due = true;
  };
  return tracering::Consumer::Create(options);
}

absl::Status StartStream(tracering::Consumer& consumer,
                         const std::string& path) {
  tracering::StreamOptions options;
  options.period = std::chrono::milliseconds(500);
  options.max_file_bytes = 100 << 20;
  options.max_files = 10;  // path, path.1, ... path.9
  return consumer.StreamTo(path, options);
}

void SaveSnapshot(tracering::Consumer& consumer, const std::string& path) {
  consumer.Flush(std::chrono::seconds(1));
  const absl::StatusOr<tracering::TraceFileInfo> file =
      consumer.WriteTrace(path);
  if (!file.ok()) std::cerr << file.status().message() << std::endl;
}

// Takes what is left, also of programs that hang.
void FlushAll(tracering::Consumer& consumer) {
  const tracering::FlushResult result = consumer.Flush(std::chrono::seconds(2));
  for (const tracering::ProducerFlushResult& producer : result.producers) {
    if (producer.outcome == tracering::FlushOutcome::kDeadline) {
      std::cerr << producer.name << " (pid " << producer.pid
                << ") writes faster than it is drained" << std::endl;
    } else if (producer.open_writers != 0) {
      std::cerr << producer.name << " (pid " << producer.pid << ") stands in "
                << producer.open_writers << " packets" << std::endl;
    }
  }
}

void PrintFile(const tracering::TraceFileInfo& file) {
  std::cout << file.path << ": " << file.packets << " packets";
  for (size_t i = 0; i < tracering::kNumLossCauses; ++i) {
    const auto cause = static_cast<tracering::LossCause>(i);
    if (file.lost[cause] == 0) continue;
    std::cout << ", lost " << file.lost[cause] << " ("
              << tracering::LossCauseName(cause) << ')';
  }
  std::cout << std::endl;
}

// Signals as something to poll, for this thread and those that it starts.
int OpenSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// Until a signal ends it. With `event_loop` this thread drains as well.
void Serve(tracering::Consumer& consumer, int signals, bool event_loop,
           const std::string& snapshot_path) {
  pollfd fds[] = {{signals, POLLIN, 0},
                  {event_loop ? consumer.poll_fd() : -1, POLLIN, 0}};
  for (;;) {
    poll(fds, 2, 100);
    if (fds[1].revents != 0) consumer.ProcessReady();
    if (fds[0].revents != 0) {
      signalfd_siginfo signal{};
      if (read(signals, &signal, sizeof(signal)) != sizeof(signal)) return;
      if (signal.ssi_signo != SIGUSR1) return;
      snapshot_is_due = true;
    }
    if (snapshot_is_due.exchange(false)) SaveSnapshot(consumer, snapshot_path);
  }
}

absl::Status Record(const Arguments& arguments) {
  const int signals = OpenSignals();
  absl::StatusOr<std::unique_ptr<tracering::Consumer>> consumer =
      CreateConsumer(arguments.socket_path);
  if (!consumer.ok()) return consumer.status();
  absl::Status status;
  if (!arguments.event_loop) status = (*consumer)->Start();
  if (status.ok() && arguments.stream) {
    status = StartStream(**consumer, arguments.output);
  }
  if (!status.ok()) return status;

  Serve(**consumer, signals, arguments.event_loop,
        arguments.output + ".snapshot");

  FlushAll(**consumer);
  (*consumer)->Stop();
  const absl::StatusOr<tracering::TraceFileInfo> file =
      arguments.stream ? (*consumer)->StopStreaming()
                       : (*consumer)->WriteTrace(arguments.output);
  close(signals);
  if (!file.ok()) return file.status();
  PrintFile(*file);
  return absl::OkStatus();
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  CommandLine line("trace_service", argc, argv);
  while (line.Next()) {
    if (line.name() == "--output") {
      arguments.output = line.Value();
    } else if (line.name() == "--socket") {
      arguments.socket_path = line.Value();
    } else if (line.name() == "--stream") {
      line.NoValue();
      arguments.stream = true;
    } else if (line.name() == "--event-loop") {
      line.NoValue();
      arguments.event_loop = true;
    } else if (line.name() == "--help") {
      std::cout << kUsage;
      std::exit(EXIT_SUCCESS);
    } else {
      line.FailUnknown();
    }
  }
  if (arguments.output.empty()) {
    line.Fail("--output FILE is needed: where the trace goes");
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Record(ParseArguments(argc, argv));
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "trace_service: " << status.message() << std::endl;
  return kExitFailure;
}
