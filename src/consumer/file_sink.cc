// Files by descriptor, and what SIGXFSZ may not do; see file_sink.h.
#include "src/consumer/file_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/common/os/unique_fd.h"

namespace tracering::internal {
namespace {

// Keeps a write beyond RLIMIT_FSIZE from killing the process, without changing
// what the user of this library does about SIGXFSZ: the signal goes to the
// thread that writes, so it is blocked on this thread and, if it came, taken
// away before it is unblocked.
class FileSizeSignalGuard {
 public:
  FileSizeSignalGuard() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &old_mask_);
  }
  ~FileSizeSignalGuard() {
    const int saved = errno;
    constexpr timespec kNoWait = {0, 0};
    if (!was_pending_) {
      while (sigtimedwait(&signal_, nullptr, &kNoWait) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
    errno = saved;
  }
  FileSizeSignalGuard(const FileSizeSignalGuard&) = delete;
  FileSizeSignalGuard& operator=(const FileSizeSignalGuard&) = delete;

 private:
  sigset_t signal_;
  sigset_t old_mask_;
  bool was_pending_;
};

class FdFileSink final : public FileSink {
 public:
  FdFileSink(os::UniqueFd fd, std::string temporary, std::string final_path)
      : fd_(std::move(fd)),
        path_(std::move(temporary)),
        final_path_(std::move(final_path)) {}

  ssize_t Write(const void* bytes, size_t size) override {
    FileSizeSignalGuard guard;
    const ssize_t written = write(fd_.get(), bytes, size);
    return written >= 0 ? written : -errno;
  }
  int Truncate(uint64_t size) override {
    const auto offset = static_cast<off_t>(size);
    if (ftruncate(fd_.get(), offset) != 0) return errno;
    return lseek(fd_.get(), offset, SEEK_SET) < 0 ? errno : 0;
  }
  int Sync() override { return fsync(fd_.get()) != 0 ? errno : 0; }
  int Publish() override {
    if (published_) return 0;
    if (rename(path_.c_str(), final_path_.c_str()) != 0) return errno;
    published_ = true;
    path_ = final_path_;
    return 0;
  }
  void Remove() override {
    if (!published_) unlink(path_.c_str());
  }
  const std::string& path() const override { return path_; }

 private:
  const os::UniqueFd fd_;
  std::string path_;
  const std::string final_path_;
  bool published_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileSink>> CreateFileSink(
    const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError("trace file: the path is empty");
  }
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("trace file {}: exists and is not a regular file", path));
  }
  std::string temporary = path + ".partial-XXXXXX";
  os::UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno, fmt::format("cannot create trace file {}", temporary));
  }
  return std::unique_ptr<FileSink>(
      new FdFileSink(std::move(fd), std::move(temporary), path));
}

}  // namespace tracering::internal
