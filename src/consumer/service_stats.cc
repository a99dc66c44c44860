// An observer's end of the control socket: asks page by page. See
// tracering/service_stats.h for how far the other side is trusted.
#include "tracering/service_stats.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/common/control/codec.h"
#include "src/common/control/messages.h"
#include "src/common/os/clock.h"
#include "src/common/os/unique_fd.h"
#include "src/common/os/unix_socket.h"
#include "src/common/os/untrusted_fds.h"

namespace tracering {
namespace {

constexpr size_t kMaxProducers = 1 << 16;

PacketCounts ToCounts(const std::optional<control::PacketInfo>& info) {
  PacketCounts counts;
  if (!info.has_value()) return counts;
  counts.delivered = info->delivered;
  counts.delivered_bytes = info->delivered_bytes;
  // A newer service may know more causes.
  const size_t known = std::min(info->lost.size(), kNumLossCauses);
  std::copy_n(info->lost.begin(), known, counts.lost.by_cause.begin());
  return counts;
}

ProducerStats ToStats(control::ProducerInfo info) {
  ProducerStats stats;
  stats.id = info.id;
  stats.name = std::move(info.name);
  stats.pid = static_cast<pid_t>(info.pid);
  stats.uid = info.uid;
  stats.packets = ToCounts(info.packets);
  for (const control::RingLoad& load : info.rings) {
    RingStats& ring = stats.rings.emplace_back();
    ring.num_chunks = load.num_chunks;
    ring.outstanding = load.outstanding;
    ring.stopped = load.stopped;
  }
  return stats;
}

class Observer {
 public:
  Observer(std::string path, int64_t deadline_ns)
      : path_(std::move(path)),
        deadline_ns_(deadline_ns),
        buffer_(control::kMaxMessageSize) {}

  absl::Status Connect() {
    absl::StatusOr<os::UniqueFd> socket = os::Connect(path_);
    if (!socket.ok()) return socket.status();
    socket_ = *std::move(socket);
    return absl::OkStatus();
  }

  absl::StatusOr<control::ServiceStats> Ask(uint64_t after_producer) {
    std::string bytes;
    const control::CodecOutcome outcome = control::EncodeProducerMessage(
        control::StatsRequest{after_producer}, &bytes);
    if (outcome != control::CodecOutcome::kOk) {
      return absl::InternalError(control::CodecRule(outcome));
    }
    const os::SendResult sent = os::SendMessage(socket_.get(), bytes);
    // It has hung up, but may have said before why.
    if (sent.outcome == os::SendOutcome::kClosed) return Hear();
    if (sent.outcome != os::SendOutcome::kSent) {
      return absl::UnavailableError(fmt::format(
          "asking the service at '{}': {}", path_, std::strerror(sent.error)));
    }
    return Hear();
  }

 private:
  absl::StatusOr<control::ServiceStats> Hear() {
    for (;;) {
      if (absl::Status status = Wait(); !status.ok()) return status;
      os::ReceivedMessage received = os::ReceiveMessage(
          socket_.get(), buffer_.data(), buffer_.size(), os::kMaxFdsPerMessage);
      os::CloseUntrusted(std::move(received.fds));
      if (received.outcome == os::ReceiveOutcome::kWouldBlock) continue;
      if (received.outcome == os::ReceiveOutcome::kClosed) {
        return absl::UnavailableError(
            fmt::format("the service at '{}' hung up", path_));
      }
      control::ConsumerMessage message;
      if (received.outcome != os::ReceiveOutcome::kMessage ||
          control::DecodeConsumerMessage(
              std::string_view(buffer_.data(), received.size), &message) !=
              control::CodecOutcome::kOk) {
        return absl::DataLossError(
            fmt::format("the service at '{}' answers nonsense", path_));
      }
      if (const auto* reject = std::get_if<control::Reject>(&message)) {
        return absl::PermissionDeniedError(fmt::format(
            "the service at '{}' refuses: {}", path_, reject->reason));
      }
      if (auto* stats = std::get_if<control::ServiceStats>(&message)) {
        return std::move(*stats);
      }
    }
  }

  absl::Status Wait() {
    for (;;) {
      const int64_t left = deadline_ns_ - os::MonotonicNs();
      // An older service ignores a question that it does not know.
      absl::Status late = absl::DeadlineExceededError(fmt::format(
          "the service at '{}' does not answer; it may hang, or be of an older "
          "version",
          path_));
      if (left <= 0) return late;
      pollfd poll_fd{socket_.get(), POLLIN, 0};
      const int ready =
          poll(&poll_fd, 1, static_cast<int>(left / 1'000'000) + 1);
      if (ready > 0) return absl::OkStatus();
      if (ready < 0 && errno != EINTR) {
        return absl::ErrnoToStatus(errno, "poll");
      }
    }
  }

  const std::string path_;
  const int64_t deadline_ns_;
  os::UniqueFd socket_;
  std::vector<char> buffer_;
};

}  // namespace

absl::StatusOr<ConsumerStats> QueryServiceStats(
    const std::string& socket_path, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  timeout = std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
  Observer observer(socket_path,
                    os::MonotonicNs() + timeout.count() * 1'000'000);
  if (absl::Status status = observer.Connect(); !status.ok()) return status;
  ConsumerStats stats;
  uint64_t last_id = 0;
  for (bool more = true; more;) {
    absl::StatusOr<control::ServiceStats> page = observer.Ask(last_id);
    if (!page.ok()) return page.status();
    const bool is_first = last_id == 0;
    if (is_first) {
      stats.packets = ToCounts(page->gone);
      stats.producers_seen = page->producers_seen;
      stats.producers_refused = page->producers_refused;
      stats.rings_stopped = page->rings_stopped;
    }
    more = page->more;
    for (control::ProducerInfo& producer : page->producers) {
      if (producer.id <= last_id || stats.producers.size() == kMaxProducers) {
        return absl::DataLossError(
            fmt::format("the service at '{}' answers nonsense", socket_path));
      }
      last_id = producer.id;
      stats.producers.push_back(ToStats(std::move(producer)));
      stats.packets += stats.producers.back().packets;
    }
    // A page that says nothing new would be asked for again and again.
    more = more && !page->producers.empty();
  }
  stats.producers_connected = stats.producers.size();
  return stats;
}

}  // namespace tracering
