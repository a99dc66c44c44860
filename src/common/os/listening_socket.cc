// Taking over a socket path, and giving it up: who may remove what. The calls
// around a connection are in unix_socket.cc; see unix_socket.h for trust.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "src/common/os/socket_address.h"
#include "src/common/os/unix_socket.h"

namespace tracering::os {
namespace {

constexpr auto kLockRetry = std::chrono::milliseconds(1);
constexpr int kLockAttempts = 1000;
constexpr int kBacklog = 128;

absl::Status PathError(const char* verb, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} '{}'", verb, path));
}

// Does `path` lead to `identity` itself, not through a link?
bool LeadsTo(const char* path, const FileIdentity& identity) {
  struct stat file {};
  return lstat(path, &file) == 0 &&
         FileIdentity{file.st_dev, file.st_ino} == identity;
}

// Holds path + ".lock" and unlinks it in the end. Unlinking is safe because
// a holder makes sure that what it locked is still what the path leads to.
class PathLock {
 public:
  static absl::StatusOr<PathLock> Acquire(const std::string& path,
                                          int attempts) {
    const std::string lock_path = path + ".lock";
    for (int attempt = 1;; ++attempt) {
      UniqueFd fd(open(lock_path.c_str(),
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                       0600));
      if (!fd.valid()) {
        return PathError("open lock file", lock_path);
      }
      if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        absl::StatusOr<FileIdentity> identity = IdentifyFile(fd.get());
        if (!identity.ok()) return identity.status();
        if (LeadsTo(lock_path.c_str(), *identity)) {
          return PathLock(std::move(fd), lock_path);
        }
      } else if (errno != EWOULDBLOCK && errno != EINTR) {
        return PathError("lock", lock_path);
      }
      if (attempt >= attempts) {
        return absl::UnavailableError(
            fmt::format("another process holds lock file '{}'", lock_path));
      }
      std::this_thread::sleep_for(kLockRetry);
    }
  }

  PathLock(PathLock&&) = default;
  PathLock& operator=(PathLock&&) = delete;
  ~PathLock() {
    if (fd_.valid()) unlink(lock_path_.c_str());
  }

 private:
  PathLock(UniqueFd fd, std::string lock_path)
      : fd_(std::move(fd)), lock_path_(std::move(lock_path)) {}

  UniqueFd fd_;
  std::string lock_path_;
};

// Makes room for a socket at `path`: removes one that nobody listens on, and
// nothing else.
absl::Status RemoveStaleSocket(const std::string& path,
                               const sockaddr_un& address) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return PathError("look at", path);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return absl::AlreadyExistsError(fmt::format(
        "cannot listen on '{}': it exists and is not a socket", path));
  }
  absl::StatusOr<UniqueFd> probe = CreateSocket();
  if (!probe.ok()) return probe.status();
  if (connect(probe->get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return absl::AlreadyExistsError(
        fmt::format("another service listens on '{}' already", path));
  }
  switch (errno) {
    case ECONNREFUSED:
      break;
    case ENOENT:
      return absl::OkStatus();
    case EAGAIN:      // its queue is full
    case EPROTOTYPE:  // it is of another socket type
      return absl::AlreadyExistsError(
          fmt::format("another service listens on '{}' already", path));
    default:
      return absl::ErrnoToStatus(
          errno, fmt::format("cannot tell whether '{}' is in use", path));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return PathError("remove stale socket", path);
  }
  return absl::OkStatus();
}

// Lets peers connect to the socket `fd` that has just been bound to `path`.
absl::StatusOr<FileIdentity> Open(int fd, const std::string& path,
                                  mode_t mode) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) return PathError("look at", path);
  // Nobody can connect before listen, so the umask opens no gap.
  if (chmod(path.c_str(), mode) != 0) return PathError("set the mode of", path);
  if (listen(fd, kBacklog) != 0) return PathError("listen on", path);
  return FileIdentity{file.st_dev, file.st_ino};
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Create(const std::string& path,
                                                        mode_t mode) {
  absl::StatusOr<sockaddr_un> address = MakeSocketAddress(path);
  if (!address.ok()) return address.status();
  absl::StatusOr<UniqueFd> fd = CreateSocket();
  if (!fd.ok()) return fd.status();
  absl::StatusOr<PathLock> lock = PathLock::Acquire(path, kLockAttempts);
  if (!lock.ok()) return lock.status();
  if (absl::Status status = RemoveStaleSocket(path, *address); !status.ok()) {
    return status;
  }

  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&*address),
           sizeof(*address)) != 0) {
    return PathError("bind", path);
  }
  absl::StatusOr<FileIdentity> identity = Open(fd->get(), path, mode);
  if (!identity.ok()) {
    unlink(path.c_str());
    return identity.status();
  }
  return ListeningSocket(*std::move(fd), path, *identity);
}

ListeningSocket::ListeningSocket(UniqueFd fd, std::string path,
                                 FileIdentity identity)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      identity_(identity),
      owner_pid_(getpid()) {}

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  if (this != &other) {
    UnlinkIfOurs();
    fd_ = std::move(other.fd_);
    path_ = std::move(other.path_);
    identity_ = other.identity_;
    owner_pid_ = other.owner_pid_;
  }
  return *this;
}

void ListeningSocket::UnlinkIfOurs() noexcept {
  if (!fd_.valid() || owner_pid_ != getpid()) return;
  // The lock keeps another service from replacing the socket between the look
  // and the unlink. Whoever holds it now is about to find ours; a socket left
  // behind is replaced by the next service anyway.
  absl::StatusOr<PathLock> lock = PathLock::Acquire(path_, 1);
  if (lock.ok() && LeadsTo(path_.c_str(), identity_)) unlink(path_.c_str());
}

}  // namespace tracering::os
