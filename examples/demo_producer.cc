// The traced half of the bundled demo: either a real workload (threads that
// count the lines and words of every file below a directory) or a load of
// numbered packets.
//
// Also an example of tracing a program: everything about it is in the macros
// TRACERING_*, demo_session.h and main(); the rest is an ordinary program that
// does not wait for anybody.
#include <pthread.h>

#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "examples/command_line.h"
#include "examples/demo_session.h"
#include "tracering/data_loss.h"
#include "tracering/producer.h"
#include "tracering/track_event.h"

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kMaxPayload = 16 << 20;

constexpr std::string_view kUsage =
    "usage: demo_producer --dir DIR [options]\n"
    "       demo_producer --load N [options]\n"
    "\n"
    "Works, and traces what it does.\n"
    "\n"
    "  --dir DIR               read every regular file below DIR and count\n"
    "                          its bytes, lines and words: a slice for each\n"
    "                          file, and in it for each part of the work\n"
    "  --load N                write N numbered packets from each thread, as\n"
    "                          fast as possible\n"
    "  --threads N             how many threads work; default: 2\n"
    "  --payload BYTES         text in each packet of --load; default: 64\n"
    "  --policy drop|stall     what a thread does when the ring is full: drop\n"
    "                          the packet, or wait up to a second for the\n"
    "                          consumer; default: drop\n"
    "  --wait-ms N             how long to wait for a consumer before the\n"
    "                          work begins; default: 5000. Without one the\n"
    "                          ring keeps the first packets\n"
    "  --socket PATH           where the consumer listens; default:\n"
    "                          $TRACERING_SOCKET, else\n"
    "                          $XDG_RUNTIME_DIR/tracering.sock, else\n"
    "                          /tmp/tracering-UID.sock\n"
    "  --help                  this text\n"
    "\n"
    "The last line on standard output is for machines:\n"
    "  attempted=N lost=N\n"
    "for all packets of all threads.\n";

struct Arguments {
  std::string directory;
  uint64_t load = 0;
  uint64_t threads = 2;
  uint64_t payload = 64;
  uint64_t wait_ms = 5000;
  std::string socket_path;
  tracering::WriterOptions writer_options;
};

tracering::BufferExhaustedPolicy ParsePolicy(CommandLine& line) {
  const std::string text = line.Value();
  if (text == "drop") return tracering::BufferExhaustedPolicy::kDrop;
  if (text == "stall") return tracering::BufferExhaustedPolicy::kStall;
  line.Fail("--policy '" + text + "' must be 'drop' or 'stall'");
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  CommandLine line("demo_producer", argc, argv);
  bool has_load = false;
  while (line.Next()) {
    if (line.name() == "--dir") {
      arguments.directory = line.Value();
      std::error_code error;
      if (!fs::is_directory(arguments.directory, error)) {
        line.Fail("--dir '" + arguments.directory + "' must be a directory");
      }
    } else if (line.name() == "--load") {
      arguments.load = line.Number(1, uint64_t{1} << 40);
      has_load = true;
    } else if (line.name() == "--threads") {
      arguments.threads = line.Number(1, kMaxThreads);
    } else if (line.name() == "--payload") {
      arguments.payload = line.Number(0, kMaxPayload);
    } else if (line.name() == "--policy") {
      arguments.writer_options.policy = ParsePolicy(line);
    } else if (line.name() == "--wait-ms") {
      arguments.wait_ms = line.Number(0, 3'600'000);
    } else if (line.name() == "--socket") {
      arguments.socket_path = line.Value();
    } else if (line.name() == "--help") {
      line.NoValue();
      std::cout << kUsage;
      std::exit(EXIT_SUCCESS);
    } else {
      line.FailUnknown();
    }
  }
  if (has_load == !arguments.directory.empty()) {
    line.Fail("either --dir DIR or --load N is needed, and not both");
  }
  return arguments;
}

std::vector<std::string> ListFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(
      directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && !entry->is_symlink(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  if (error) {
    std::cerr << "demo_producer: reading '" << directory
              << "': " << error.message() << '\n';
  }
  return files;
}

struct Counts {
  uint64_t bytes = 0;
  uint64_t lines = 0;
  uint64_t words = 0;
};

// Shares the files of a directory among threads, and traces each one as a slice
// with its name and its size, in it one for each part of the work, and the sum
// of bytes as a counter. The arrows of a flow lead from the list of files to
// each thread's first one, and from its last one to the sum.
class FileCounter {
 public:
  explicit FileCounter(std::vector<std::string> files)
      : files_(std::move(files)) {
    TRACERING_ASYNC_INSTANT("demo", track_, "files listed", "files",
                            files_.size());
    TRACERING_INSTANT("demo", "start", "files", files_.size(),
                      tracering::Flow::Local(this));
  }

  // Called on each of the threads.
  void Work() {
    std::vector<char> block(size_t{64} << 10);
    for (bool first = true;; first = false) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= files_.size()) break;
      CountFile(files_[index], first, block);
    }
    TRACERING_INSTANT("demo", "thread is done", tracering::Flow::Local(this));
  }

  // Once all threads are done.
  Counts Sum() {
    const Counts sum = {bytes_, lines_, words_};
    TRACERING_INSTANT("demo", "sum", [&](tracering::EventWriter& event) {
      event.AddDict("counts", [&sum](tracering::DictWriter& counts) {
        counts.Add("bytes", sum.bytes);
        counts.Add("lines", sum.lines);
        counts.Add("words", sum.words);
      });
      event.Add(tracering::TerminatingFlow::Local(this));
    });
    TRACERING_ASYNC_INSTANT("demo", track_, "files counted");
    return sum;
  }

 private:
  void CountFile(const std::string& file, bool first,
                 std::vector<char>& block) {
    TRACERING_BEGIN("demo", "count file", "file", file,
                    [&](tracering::EventWriter& event) {
                      if (first) event.Add(tracering::Flow::Local(this));
                    });
    const Counts counts = Count(file, block);
    TRACERING_END("demo", "bytes", counts.bytes, "lines", counts.lines, "words",
                  counts.words);
    lines_ += counts.lines;
    words_ += counts.words;
    const uint64_t bytes_so_far = bytes_ += counts.bytes;
    TRACERING_COUNTER("demo", bytes_counter_, bytes_so_far);
  }

  static Counts Count(const std::string& file, std::vector<char>& block) {
    Counts counts;
    std::ifstream in(file, std::ios::binary);
    bool in_word = false;
    while (in) {
      {
        TRACERING_SCOPE("demo", "read");
        in.read(block.data(), static_cast<std::streamsize>(block.size()));
      }
      const auto size = static_cast<size_t>(in.gcount());
      TRACERING_SCOPE("demo", "count words", "bytes", size);
      counts.bytes += size;
      for (size_t i = 0; i < size; ++i) {
        const auto c = static_cast<unsigned char>(block[i]);
        if (c == '\n') ++counts.lines;
        const bool space = std::isspace(c) != 0;
        if (!space && !in_word) ++counts.words;
        in_word = !space;
      }
    }
    return counts;
  }

  const std::vector<std::string> files_;
  const tracering::Counter bytes_counter_{"bytes so far",
                                          tracering::CounterUnit::kSizeBytes};
  tracering::AsyncTrack track_{"directory"};
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> lines_{0};
  std::atomic<uint64_t> words_{0};
};

// Packets 0 to count - 1 of writer `writer_number`.
void SendNumbered(uint64_t writer_number, uint64_t count,
                  std::string_view payload) {
  for (uint64_t index = 0; index < count; ++index) {
    TRACERING_INSTANT("demo", "load", "writer", writer_number, "index", index,
                      "payload", payload);
  }
}

// Runs `body` on that many named threads, and waits for them.
void RunThreads(uint64_t count, const std::string& name,
                const std::function<void(uint64_t)>& body) {
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&body, &name, i] {
      const std::string numbered = name + ' ' + std::to_string(i);
      // What debuggers show; the thread's track takes its name from it.
      pthread_setname_np(pthread_self(), numbered.c_str());
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CountFiles(const Arguments& arguments) {
  FileCounter counter(ListFiles(arguments.directory));
  RunThreads(arguments.threads, "reader",
             [&counter](uint64_t) { counter.Work(); });
  const Counts totals = counter.Sum();
  std::cout << "bytes=" << totals.bytes << " lines=" << totals.lines
            << " words=" << totals.words << '\n';
}

void SendLoad(const Arguments& arguments) {
  const std::string payload(arguments.payload, 'x');
  RunThreads(arguments.threads, "load", [&](uint64_t writer_number) {
    SendNumbered(writer_number, arguments.load, payload);
  });
}

void PrintAccount(tracering::Producer& producer) {
  const tracering::Producer::Stats stats =
      FinalStats("demo_producer", producer);
  for (const tracering::Producer::RingStats& ring : stats.rings) {
    if (ring.metadata) continue;
    for (size_t i = 0; i < tracering::kNumWriterLossCauses; ++i) {
      if (ring.lost_by_cause[i] == 0) continue;
      const auto cause = static_cast<tracering::LossCause>(i);
      std::cerr << "lost " << ring.lost_by_cause[i] << ": "
                << tracering::LossCauseName(cause) << '\n';
    }
    if (ring.lost_by_reader != 0) {
      std::cerr << "lost " << ring.lost_by_reader << ": by the consumer\n";
    }
    if (ring.lost_unfinished != 0) {
      std::cerr << "lost " << ring.lost_unfinished << ": of which the consumer "
                << "has the first part\n";
    }
  }
  std::cout << "attempted=" << stats.attempted << " lost=" << stats.lost
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  tracering::TracingOptions options;
  options.producer.name = "demo_producer";
  options.producer.socket_path = arguments.socket_path;
  options.producer.writer_options = arguments.writer_options;
  const std::shared_ptr<tracering::Producer> producer =
      StartDemoTracing(options, arguments.wait_ms);
  if (arguments.directory.empty()) {
    SendLoad(arguments);
  } else {
    CountFiles(arguments);
  }
  PrintAccount(*producer);
  tracering::StopTracing();
  return EXIT_SUCCESS;
}
