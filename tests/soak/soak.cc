// A service and processes that trace into it at random for a given time; they
// are killed, frozen, told to end and started again, and the service is
// restarted in good order. Ends with the account of every packet, and with
// status 1 if one is missing, doubled, out of order, or counted twice.
//
//   soak [--seconds N] [--producers N] [--seed N]
//
// A process that is killed may leave one packet in each thread that nobody can
// know of: those are the only ones that the account may differ by. Knows the
// public headers only.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "examples/command_line.h"
#include "tests/soak/soak_counts.h"
#include "tests/support/accounting.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_file_checker.h"
#include "tracering/consumer.h"

namespace tracering::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr uint64_t kMaxPauseMs = 200;
constexpr seconds kFlushTimeout{30};

struct Arguments {
  uint64_t seconds = 60;
  uint64_t producers = 4;
  uint64_t seed = 1;
};

// Everything that happened and what became of it.
struct Totals {
  uint64_t complete = 0;  // as the processes had written down
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t killed_threads = 0;
  uint64_t lives = 0;
  uint64_t kills = 0;
  uint64_t freezes = 0;
  uint64_t restarts = 0;
};

class Soak {
 public:
  explicit Soak(const Arguments& arguments)
      : arguments_(arguments), random_(arguments.seed) {}

  void Run();
  // Prints the account. False if it does not balance.
  bool Report() const;

 private:
  struct Life {
    ChildProcess process;
    SoakCounts* counts;
    bool frozen = false;
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  void StartConsumer();
  void StopAndCheck();
  void RestartConsumer();
  void AwaitEverybody(const char* when);
  void StartLife();
  void Freeze(Life& life, bool frozen);
  void EndLife(std::list<Life>::iterator life, int signal);
  void Step();
  void Complain(std::string text) { complaints_.push_back(std::move(text)); }

  const Arguments arguments_;
  std::mt19937_64 random_;
  const TempDir directory_;
  std::unique_ptr<Consumer> consumer_;
  std::list<Life> lives_;
  Accounting accounting_;
  Totals totals_;
  std::vector<std::string> complaints_;
};

void Soak::StartConsumer() {
  ConsumerOptions options;
  options.socket_path = directory_.Path("socket");
  options.drain_period = milliseconds(1 + Below(50));
  options.buffers = {{"main", size_t{64} << 20, FillPolicy::kRing}};
  auto consumer = Consumer::Create(options);
  Require(consumer.ok(), "a consumer");
  consumer_ = *std::move(consumer);
  Require(consumer_->Start().ok(), "a consumer that starts");
}

// A process whose ring nobody has takes its packets along where it is killed.
void Soak::AwaitEverybody(const char* when) {
  size_t attached = 0;
  if (!Eventually([&] {
        const ConsumerStats stats = consumer_->stats();
        attached = static_cast<size_t>(std::count_if(
            stats.producers.begin(), stats.producers.end(),
            [](const ProducerStats& p) { return !p.rings.empty(); }));
        return attached == lives_.size() &&
               stats.producers_connected == lives_.size();
      })) {
    Complain(fmt::format("after {}: the rings of {} of {} processes", when,
                         attached, lives_.size()));
  }
}

// What this consumer saw, to the end.
void Soak::StopAndCheck() {
  consumer_->Stop();
  if (consumer_->stats().rings_stopped != 0) Complain("a ring was stopped");
  const std::string path = directory_.Path("trace");
  const auto saved = consumer_->WriteTrace(path);
  if (!saved.ok()) return Complain(std::string(saved.status().message()));
  const TraceFile file = ReadTraceFile(path);
  for (const std::string& complaint : file.complaints) Complain(complaint);
  for (const std::string& complaint : CheckTrace(file)) Complain(complaint);
  accounting_.Add(file.packets);
  totals_.delivered += saved->packets;
  totals_.lost += saved->lost.total();
  unlink(path.c_str());
}

void Soak::RestartConsumer() {
  for (Life& life : lives_) Freeze(life, false);
  StopAndCheck();
  consumer_ = nullptr;
  ++totals_.restarts;
  StartConsumer();
  AwaitEverybody("a restart");
}

void Soak::StartLife() {
  const std::string life = std::to_string(++totals_.lives);
  const std::string counts = directory_.Path("counts" + life);
  lives_.push_back(
      {ChildProcess::Spawn(
           {TRACERING_SOAK_LOAD, std::to_string(random_()), counts, life},
           {{"TRACERING_SOCKET", directory_.Path("socket")}}),
       SoakCounts::Map(counts)});
  AwaitEverybody("a start");
}

void Soak::Freeze(Life& life, bool frozen) {
  if (life.frozen == frozen) return;
  life.frozen = frozen;
  life.process.Signal(frozen ? SIGSTOP : SIGCONT);
  if (frozen) ++totals_.freezes;
}

void Soak::EndLife(std::list<Life>::iterator life, int signal) {
  if (signal != SIGKILL) Freeze(*life, false);
  life->process.Signal(signal);
  const auto end = life->process.Wait();
  if (!end.has_value()) {
    Complain("a process did not end");
  } else if (signal == SIGKILL) {
    ++totals_.kills;
    totals_.killed_threads += kSoakThreads;
  } else if (end->code != 0) {
    Complain(fmt::format("a process ended with status {}, signal {}: {}",
                         end->code, end->signal, life->process.error_output()));
  }
  totals_.complete += life->counts->total();
  lives_.erase(life);
  AwaitEverybody("an end");
}

void Soak::Step() {
  if (lives_.size() < arguments_.producers) return StartLife();
  const auto life =
      std::next(lives_.begin(), static_cast<ptrdiff_t>(Below(lives_.size())));
  const uint64_t what = Below(100);
  if (what < 25) {
    EndLife(life, SIGKILL);
  } else if (what < 40) {
    EndLife(life, SIGTERM);
  } else if (what < 75) {
    Freeze(*life, !life->frozen);
  } else if (what < 85) {
    RestartConsumer();
  } else if (!consumer_->Flush(kFlushTimeout).complete) {
    Complain("a flush was not complete");
  }
}

void Soak::Run() {
  StartConsumer();
  const auto end = steady_clock::now() + seconds(arguments_.seconds);
  while (steady_clock::now() < end) {
    Step();
    std::this_thread::sleep_for(milliseconds(Below(kMaxPauseMs)));
  }
  while (!lives_.empty()) EndLife(lives_.begin(), SIGTERM);
  StopAndCheck();
}

bool Soak::Report() const {
  const Totals& t = totals_;
  const uint64_t known = t.delivered + t.lost;
  fmt::print(
      "{} processes, {} killed, {} times frozen, {} restarts of the service\n"
      "complete={} delivered={} lost={} cut off by death={}\n",
      t.lives, t.kills, t.freezes, t.restarts, t.complete, t.delivered, t.lost,
      static_cast<int64_t>(known - t.complete));
  bool good = known >= t.complete && known - t.complete <= t.killed_threads;
  if (!good) {
    fmt::print("the account is wrong: from 0 to {} may be cut off\n",
               t.killed_threads);
  }
  for (const auto* complaints : {&complaints_, &accounting_.complaints()}) {
    for (const std::string& complaint : *complaints) {
      fmt::print("{}\n", complaint);
      good = false;
    }
  }
  return good;
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  CommandLine line("soak", argc, argv);
  while (line.Next()) {
    if (line.name() == "--seconds") {
      arguments.seconds = line.Number(1, 1'000'000);
    } else if (line.name() == "--producers") {
      arguments.producers = line.Number(1, 1000);
    } else if (line.name() == "--seed") {
      arguments.seed = line.Number(0, UINT64_MAX);
    } else {
      line.FailUnknown();
    }
  }
  return arguments;
}

}  // namespace
}  // namespace tracering::test

int main(int argc, char** argv) {
  tracering::test::Soak soak(tracering::test::ParseArguments(argc, argv));
  soak.Run();
  return soak.Report() ? EXIT_SUCCESS : EXIT_FAILURE;
}
