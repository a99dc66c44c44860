// tracering record: a service for the time of a recording.
//
// The signals that end it, or ask for a snapshot, are blocked in all threads
// and taken one by one in the main thread's loop.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/record_options.h"
#include "tools/record_report.h"
#include "tools/status_line.h"
#include "tools/subcommands.h"
#include "tracering/consumer.h"

namespace tracering::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{100};
constexpr seconds kFlushTimeout{5};
constexpr seconds kTimeToEnd{5};  // for a command that was told to

constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// A directory for the socket of one recording, so that it meets no other
// service.
class SocketDirectory {
 public:
  SocketDirectory() {
    const char* const runtime = getenv("XDG_RUNTIME_DIR");
    std::string path = runtime != nullptr && *runtime == '/' ? runtime : "/tmp";
    path += "/tracering-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~SocketDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;

  // Empty if there is none; errno tells why.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "out.pftrace" and 2 to "out-2.pftrace".
std::string SnapshotPath(const std::string& output, int number) {
  const std::filesystem::path path(output);
  const std::string name = fmt::format("{}-{}{}", path.stem().string(), number,
                                       path.extension().string());
  return (path.parent_path() / name).string();
}

class Recording {
 public:
  explicit Recording(const RecordOptions& options) : options_(options) {}

  int Run();

 private:
  enum class End { kSignal, kDuration, kCommand, kStream };

  bool Start();
  bool StartCommand();
  // Waits until it is time to save.
  End Record();
  bool StreamHasFailed();
  void TakeSnapshot();
  // On any thread of the consumer.
  void OnTrigger(const TriggerEvent& event);
  // Takes the snapshots whose time has come.
  void HandleTriggers(steady_clock::time_point now);
  void EndCommand(int signal);
  bool Save();
  // One of our signals, if it comes before `timeout`, else 0.
  int WaitForSignal(milliseconds timeout, siginfo_t* info = nullptr);
  bool CommandHasEnded() {
    return command_.has_value() && command_->HasEnded();
  }
  void Say(const std::string& text) {
    if (!options_.quiet) status_.Print("tracering: " + text);
  }
  void Complain(const absl::Status& status) {
    status_.Clear();
    tools::Complain("record", status);
  }

  const RecordOptions& options_;
  StatusLine status_;
  sigset_t signals_;
  sigset_t old_signals_;
  std::optional<SocketDirectory> directory_;
  std::string socket_path_;
  std::mutex mutex_;
  std::vector<steady_clock::time_point> due_;  // snapshots; under mutex_
  std::unique_ptr<Consumer> consumer_;         // calls back to what is above
  std::optional<Command> command_;
  int failure_ = kExitFailure;
  bool told_of_stream_ = false;
  int snapshots_ = 0;
  int forwarded_ = 0;  // the signal that ended it, if the command needs it
};

int Recording::Run() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
    sigaddset(&signals_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &old_signals_);
  // Whoever read our messages may go; the recording is worth more.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  // Ignored, as it may have been since before us, it would have the kernel
  // forget how the command ended.
  signal(SIGCHLD, SIG_DFL);
  if (!Start() || !StartCommand()) return failure_;
  const End end = Record();
  EndCommand(end == End::kSignal ? forwarded_ : SIGTERM);
  const bool saved = Save();
  const bool counts = command_.has_value() && end != End::kDuration;
  const int status = counts ? command_->exit_status() : EXIT_SUCCESS;
  return status != EXIT_SUCCESS || saved ? status : kExitFailure;
}

bool Recording::Start() {
  ConsumerOptions options;
  socket_path_ = options_.socket_path;
  if (socket_path_.empty() && options_.command.empty()) {
    socket_path_ = DefaultSocketPath();
  } else if (socket_path_.empty()) {
    directory_.emplace();
    if (directory_->path().empty()) {
      Complain(absl::ErrnoToStatus(errno,
                                   "cannot create a directory for the "
                                   "socket"));
      return false;
    }
    socket_path_ = directory_->path() + "/socket";
  }
  options.socket_path = socket_path_;
  if (!options_.buffers.empty()) options.buffers = options_.buffers;
  if (!options_.categories.empty()) {
    options.enabled_categories = options_.categories;
  }
  options.log = [this](std::string_view line) { Say(Printable(line)); };
  options.on_trigger = [this](const TriggerEvent& event) { OnTrigger(event); };
  absl::StatusOr<std::unique_ptr<Consumer>> consumer =
      Consumer::Create(std::move(options));
  absl::Status status = consumer.status();
  if (status.ok()) {
    consumer_ = *std::move(consumer);
    status = consumer_->Start();
  }
  if (status.ok() && options_.stream.has_value()) {
    status = consumer_->StreamTo(options_.output, *options_.stream);
  }
  if (status.ok()) return true;
  if (absl::IsInvalidArgument(status)) failure_ = kExitUsage;
  Complain(status);
  return false;
}

bool Recording::StartCommand() {
  if (options_.command.empty()) {
    Say(fmt::format("recording; programs connect to {}; Ctrl-C saves",
                    Printable(socket_path_)));
    return true;
  }
  command_ = Command::Start(options_.command,
                            {{"TRACERING_SOCKET", socket_path_}}, old_signals_);
  if (command_.has_value()) return true;
  failure_ = errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  Complain(absl::ErrnoToStatus(
      errno, fmt::format("cannot run '{}'", Printable(options_.command[0]))));
  return false;
}

int Recording::WaitForSignal(milliseconds timeout, siginfo_t* info) {
  timespec time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_nsec = timeout.count() % 1000 * 1'000'000;
  const int signal = sigtimedwait(&signals_, info, &time);
  return signal > 0 ? signal : 0;
}

Recording::End Recording::Record() {
  Progress progress;
  const auto start = steady_clock::now();
  auto next_line = start;
  for (;;) {
    siginfo_t info{};
    const int signal = WaitForSignal(kTick, &info);
    if (signal == SIGUSR1) {
      TakeSnapshot();
    } else if (signal != 0 && signal != SIGCHLD) {
      // The terminal sends it to the command as well.
      forwarded_ = info.si_code == SI_KERNEL ? 0 : signal;
      return End::kSignal;
    }
    const auto now = steady_clock::now();
    HandleTriggers(now);
    if (CommandHasEnded()) return End::kCommand;
    if (options_.duration.has_value() && now - start >= *options_.duration) {
      return End::kDuration;
    }
    if (StreamHasFailed() && !command_.has_value()) return End::kStream;
    if (now >= next_line && status_.on_terminal() && !options_.quiet) {
      status_.Show(progress.Describe(consumer_->stats()));
      next_line = now + 2 * kTick;
    }
  }
}

// Tells it the first time: a program that runs goes on, maybe for long.
bool Recording::StreamHasFailed() {
  if (!options_.stream.has_value()) return false;
  const absl::Status status = consumer_->stream_status();
  if (status.ok()) return false;
  if (!std::exchange(told_of_stream_, true)) Complain(status);
  return true;
}

void Recording::TakeSnapshot() {
  if (options_.stream.has_value()) {
    return Say(fmt::format("all is in {} already: no snapshot",
                           Printable(options_.output)));
  }
  consumer_->Flush(kFlushTimeout);
  SaveOptions save;
  save.compress = options_.compress;
  const absl::StatusOr<TraceFileInfo> info =
      consumer_->WriteTrace(SnapshotPath(options_.output, ++snapshots_), save);
  if (!info.ok()) return Complain(info.status());
  Say("snapshot " + DescribeFile(*info));
}

void Recording::OnTrigger(const TriggerEvent& event) {
  const std::string who = fmt::format("'{}' (pid {}) pulled the trigger '{}'",
                                      Printable(event.producer_name), event.pid,
                                      Printable(event.name));
  for (const SnapshotTrigger& trigger : options_.triggers) {
    if (trigger.name != event.name) continue;
    Say(fmt::format("{}: snapshot in {}", who, ReadableTime(trigger.grace)));
    std::lock_guard<std::mutex> guard(mutex_);
    due_.push_back(steady_clock::now() + trigger.grace);
    return;
  }
  Say(who + ", which is not asked for");
}

void Recording::HandleTriggers(steady_clock::time_point now) {
  bool is_time = false;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    // One snapshot holds what all that is due asked for.
    const auto later = std::remove_if(due_.begin(), due_.end(),
                                      [now](auto time) { return time <= now; });
    is_time = later != due_.end();
    due_.erase(later, due_.end());
  }
  if (is_time) TakeSnapshot();
}

void Recording::EndCommand(int signal) {
  if (!command_.has_value() || command_->HasEnded()) return;
  if (signal != 0) command_->Signal(signal);
  Say(fmt::format("waiting for {} to end; Ctrl-C kills it",
                  Printable(options_.command[0])));
  const auto deadline = steady_clock::now() + kTimeToEnd;
  while (!command_->HasEnded()) {
    const int came = WaitForSignal(kTick);
    const bool impatient = came == SIGINT || came == SIGTERM || came == SIGHUP;
    if (impatient || steady_clock::now() >= deadline) command_->Signal(SIGKILL);
  }
}

bool Recording::Save() {
  // From here on Ctrl-C ends even a save that hangs.
  sigset_t ends = signals_;
  sigdelset(&ends, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  const FlushResult flushed = consumer_->Flush(kFlushTimeout);
  for (const ProducerFlushResult& producer : flushed.producers) {
    if (producer.outcome == FlushOutcome::kComplete) continue;
    Say(fmt::format("not all was taken from '{}' (pid {})",
                    Printable(producer.name), producer.pid));
  }
  consumer_->Stop();
  if (!due_.empty()) {
    Say(fmt::format("snapshots that were not due yet: {}; all is in {}",
                    due_.size(), Printable(options_.output)));
  }
  absl::StatusOr<TraceFileInfo> info;
  if (options_.stream.has_value()) {
    info = consumer_->StopStreaming();
  } else {
    SaveOptions save;
    save.compress = options_.compress;
    info = consumer_->WriteTrace(options_.output, save);
  }
  status_.Clear();
  if (!info.ok()) {
    if (!told_of_stream_) Complain(info.status());
    return false;
  }
  std::string text = DescribeFile(*info);
  if (options_.stream.has_value() && info->files > options_.stream->max_files) {
    fmt::format_to(std::back_inserter(text), "; the newest {} kept",
                   options_.stream->max_files);
  }
  Say(text);
  if (consumer_->stats().producers_seen == 0) {
    Say("no program connected, so the trace is empty");
  }
  return true;
}

}  // namespace

int Record(std::vector<std::string> arguments) {
  const RecordOptions options = ParseRecordOptions(std::move(arguments));
  return Recording(options).Run();
}

}  // namespace tracering::tools
