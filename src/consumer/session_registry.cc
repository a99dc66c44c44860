// Attach, detach and counting; see session_registry.h for the trust rules.
#include "src/consumer/session_registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/common/os/untrusted_fds.h"
#include "src/consumer/event_tag.h"

namespace tracering::internal {
namespace {

// Slices of a closing session that may pass without resolving a position,
// because a writer keeps winning its races, before the rest is given up.
constexpr uint64_t kClosingRetries = 1000;

std::pair<dev_t, ino_t> KeyOf(const os::FileIdentity& identity) {
  return {identity.dev, identity.ino};
}

// What a page of stats holds: well below a message. A name of 255 bytes, and
// the numbers at their largest.
constexpr size_t kMaxPageBytes = 32 * 1024;
constexpr size_t kPageBytesPerProducer = 600;
constexpr size_t kPageBytesPerRing = 24;

control::PacketInfo ToPacketInfo(const PacketCounts& packets) {
  control::PacketInfo info;
  info.delivered = packets.delivered;
  info.delivered_bytes = packets.delivered_bytes;
  const auto& lost = packets.lost.by_cause;
  size_t size = lost.size();
  while (size != 0 && lost[size - 1] == 0) --size;
  info.lost.assign(lost.begin(),
                   lost.begin() + static_cast<std::ptrdiff_t>(size));
  return info;
}

std::string Escaped(std::string_view bytes) {
  return absl::CEscape({bytes.data(), bytes.size()});
}

}  // namespace

SessionRegistry::SessionRegistry(const ConsumerLimits& limits,
                                 uint32_t wakeup_threshold, BufferSet* buffers,
                                 RingScheduler* scheduler, os::Epoll* epoll,
                                 EventLog* log)
    : limits_(limits),
      wakeup_threshold_(wakeup_threshold),
      buffers_(buffers),
      scheduler_(scheduler),
      epoll_(epoll),
      log_(log),
      gone_losses_(buffers->size() + 1) {}

std::string SessionRegistry::Describe(const ProducerSession& session) {
  return fmt::format("producer {} '{}' (pid {})", session.id,
                     Escaped(session.name), session.owner.pid);
}

absl::StatusOr<ProducerSession*> SessionRegistry::Open() {
  if (sessions_.size() >= limits_.producers) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} producers are connected, which is the limit", sessions_.size()));
  }
  const uint64_t id = ++last_id_;
  auto session =
      std::make_unique<ProducerSession>(id, limits_.partial_bytes_per_producer);
  return sessions_.emplace(id, std::move(session)).first->second.get();
}

void SessionRegistry::Abandon(ProducerSession* session) { Remove(session); }

ProducerSession* SessionRegistry::Find(uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

absl::Status SessionRegistry::GrantBuffers(ProducerSession* session,
                                           const BufferRequests& requests,
                                           std::vector<std::string>* unknown) {
  RingOwner& owner = session->owner;
  // What this message adds; no target for a name that we do not know.
  std::unordered_map<uint16_t, std::optional<uint32_t>> added;
  std::vector<std::string> refused_names;
  for (const auto& [id, name] : requests) {
    const std::optional<uint32_t> target = buffers_->Find(name);
    bool same = true;
    if (const auto granted = owner.targets.find(id.value());
        granted != owner.targets.end()) {
      same = target == granted->second;
    } else if (owner.unknown_buffers.count(id.value()) != 0) {
      same = !target.has_value();
    } else {
      same = added.emplace(id.value(), target).first->second == target;
    }
    if (!same) {
      return absl::InvalidArgumentError(
          fmt::format("buffer id {} was given another name before '{}'",
                      id.value(), Escaped(name)));
    }
    if (!target.has_value()) refused_names.push_back(name);
  }
  const size_t total =
      owner.targets.size() + owner.unknown_buffers.size() + added.size();
  if (total > limits_.buffers_per_producer) {
    return absl::ResourceExhaustedError(
        fmt::format("{} buffers are named; the limit for one producer is {}",
                    total, limits_.buffers_per_producer));
  }
  // Once for each producer: others may have a thousand names.
  if (owner.unknown_buffers.empty() && !refused_names.empty()) {
    log_->Add(fmt::format(
        "{} writes to buffer '{}', which does not exist: its packets are lost",
        Describe(*session), Escaped(refused_names.front())));
  }
  for (const auto& [id, target] : added) {
    if (target.has_value()) {
      owner.targets.emplace(id, *target);
    } else {
      owner.unknown_buffers.insert(id);
    }
  }
  unknown->insert(unknown->end(), refused_names.begin(), refused_names.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AttachedRing::Options>> SessionRegistry::CheckRings(
    const ProducerSession& session,
    const std::vector<RingRequest>& requests) const {
  const size_t num_rings = session.rings.size() + requests.size();
  if (num_rings > limits_.rings_per_producer) {
    return absl::ResourceExhaustedError(
        fmt::format("{} rings; the limit for one producer is {}", num_rings,
                    limits_.rings_per_producer));
  }
  size_t bytes = session.ring_bytes;
  for (const RingRequest& request : requests) {
    const abi::GeometryError error =
        abi::CheckGeometry(request.num_chunks, request.chunk_size);
    if (error != abi::GeometryError::kNone) {
      return absl::InvalidArgumentError(
          fmt::format("ring of {} chunks of {} bytes: {}", request.num_chunks,
                      request.chunk_size, abi::GeometryRule(error)));
    }
    // Cannot overflow: at most 2^45 each, and few.
    bytes += abi::Geometry(request.num_chunks, request.chunk_size).RingSize();
    if (bytes > limits_.ring_bytes_per_producer) {
      return absl::ResourceExhaustedError(fmt::format(
          "rings of {} bytes or more; the limit for one producer is {}", bytes,
          limits_.ring_bytes_per_producer));
    }
  }

  std::vector<AttachedRing::Options> checked;
  for (const RingRequest& request : requests) {
    AttachedRing::Options options;
    options.geometry = abi::Geometry(request.num_chunks, request.chunk_size);
    const size_t size = options.geometry.RingSize();
    if (absl::Status status = os::CheckSealedMemory(request.memfd, size);
        !status.ok()) {
      return status;
    }
    absl::StatusOr<os::FileIdentity> identity = os::IdentifyFile(request.memfd);
    if (!identity.ok()) return identity.status();
    options.identity = *identity;
    const auto has_it = [&](const AttachedRing::Options& other) {
      return other.identity == *identity;
    };
    const auto owner = by_identity_.find(KeyOf(*identity));
    if (std::any_of(checked.begin(), checked.end(), has_it) ||
        (owner != by_identity_.end() && owner->second == session.id)) {
      return absl::InvalidArgumentError(
          "the same memory is given for two rings");
    }
    absl::StatusOr<os::SharedMapping> mapping =
        os::SharedMapping::Map(request.memfd, size);
    if (!mapping.ok()) return mapping.status();
    options.mapping = *std::move(mapping);
    options.metadata = request.metadata;
    options.wakeup_threshold = wakeup_threshold_;
    options.partial_packet_limit = limits_.partial_packet_bytes;
    checked.push_back(std::move(options));
  }
  return checked;
}

absl::Status SessionRegistry::AttachRings(
    ProducerSession* session, const std::vector<RingRequest>& requests) {
  absl::StatusOr<std::vector<AttachedRing::Options>> checked =
      CheckRings(*session, requests);
  if (!checked.ok()) return checked.status();
  for (const AttachedRing::Options& options : *checked) {
    const auto owner = by_identity_.find(KeyOf(options.identity));
    if (owner == by_identity_.end()) continue;
    ProducerSession* displaced = Find(owner->second);
    log_->Add(fmt::format("{} is replaced: its ring was handed over again",
                          Describe(*displaced)));
    Remove(displaced);
  }
  for (AttachedRing::Options& options : *checked) {
    session->ring_bytes += options.mapping.size();
    by_identity_[KeyOf(options.identity)] = session->id;
    session->rings.push_back(std::make_unique<AttachedRing>(
        std::move(options), &session->owner, buffers_));
    scheduler_->Add(session->rings.back().get());
  }
  return absl::OkStatus();
}

void SessionRegistry::MarkAttached(ProducerSession* session) {
  session->phase = SessionPhase::kAttached;
  ++producers_seen_;
  log_->Add(fmt::format("{} attached with {} rings", Describe(*session),
                        session->rings.size()));
}

absl::Status SessionRegistry::WatchEventFd(ProducerSession* session,
                                           os::UniqueFd event_fd) {
  // Edge-triggered and never read: the peer may read or fill it as it likes.
  if (absl::Status status =
          epoll_->Add(event_fd.get(), EPOLLIN | EPOLLET,
                      EventTag(EventKind::kWritersSignal, session->id));
      !status.ok()) {
    return status;
  }
  session->event_fd = std::move(event_fd);
  return absl::OkStatus();
}

void SessionRegistry::OnWritersSignalled(uint64_t id) {
  ProducerSession* session = Find(id);
  if (session == nullptr) return;
  for (const auto& ring : session->rings) scheduler_->Wake(ring.get());
}

void SessionRegistry::BeginClose(ProducerSession* session,
                                 std::string_view reason) {
  if (session->phase == SessionPhase::kClosing) return;
  // Observers come and go all the time.
  if (!session->is_observer) {
    log_->Add(fmt::format("{} {}", Describe(*session), reason));
  }
  session->phase = SessionPhase::kClosing;
  session->closing_slices_left = kClosingRetries;
  StopWatching(session);
  for (const auto& ring : session->rings) {
    const uint64_t end = ring->CaptureEnd();
    session->closing_slices_left += end - ring->resolved();
    session->closing_ends.push_back(end);
    scheduler_->Wake(ring.get());
  }
  if (IsDrained(*session)) Remove(session);
}

bool SessionRegistry::IsDrained(const ProducerSession& session) const {
  if (session.closing_slices_left == 0) return true;
  for (size_t i = 0; i < session.rings.size(); ++i) {
    const AttachedRing& ring = *session.rings[i];
    if (!ring.stopped() && ring.resolved() < session.closing_ends[i]) {
      return false;
    }
  }
  return true;
}

void SessionRegistry::OnSlice(AttachedRing* ring) {
  ProducerSession* session = Find(ring->owner().producer);
  NoteStop(*session, ring);
  if (session->phase != SessionPhase::kClosing) return;
  --session->closing_slices_left;
  if (IsDrained(*session)) Remove(session);
}

void SessionRegistry::NoteStop(const ProducerSession& session,
                               AttachedRing* ring) {
  if (!ring->TakeNewStop()) return;
  ++rings_stopped_;
  const RingStop& stop = ring->stop();
  log_->Add(fmt::format(
      "a ring of {} was stopped: {} ({:#010x} at position {:#010x})",
      Describe(session), StopReasonName(stop.reason), stop.word,
      stop.position.value()));
}

bool SessionRegistry::RunClosingSlice(uint64_t id) {
  ProducerSession* session = Find(id);
  if (session == nullptr) return false;
  for (size_t i = 0; i < session->rings.size(); ++i) {
    AttachedRing* ring = session->rings[i].get();
    if (ring->stopped() || ring->resolved() >= session->closing_ends[i]) {
      continue;
    }
    ring->DrainSlice(session->closing_ends[i]);
    OnSlice(ring);
    return Find(id) != nullptr;
  }
  // What was left may have been stopped by somebody who only looked at the
  // cursors, such as a flush.
  Remove(session);
  return false;
}

void SessionRegistry::StopWatching(ProducerSession* session) {
  // A fork of the peer may hold what stands behind these open for ever, and
  // epoll would go on reporting it after our own descriptor is closed.
  for (os::UniqueFd* fd :
       {&session->socket, &session->pidfd, &session->event_fd}) {
    if (fd->valid()) epoll_->Remove(fd->get()).IgnoreError();
  }
}

void SessionRegistry::Remove(ProducerSession* session) {
  StopWatching(session);
  for (const auto& ring : session->rings) {
    NoteStop(*session, ring.get());
    ring->Finish();
    gone_ += ring->Count();
    AddLosses(ring.get(), &gone_losses_);
    scheduler_->Remove(ring.get());
    by_identity_.erase(KeyOf(ring->identity()));
  }
  const uint64_t producer = session->owner.producer;
  const size_t num_sequences = session->owner.num_sequences;
  ++removals_;
  // Behind everything else: a producer takes a closed socket to mean that
  // nobody reads its rings any more.
  os::UniqueFd socket = std::move(session->socket);
  std::deque<EarlyMessage> unheard = std::move(session->early_messages);
  sessions_.erase(session->id);
  for (EarlyMessage& message : unheard) {
    os::CloseUntrusted(std::move(message.received.fds));
  }
  os::CloseConnection(std::move(socket));
  buffers_->RetireProducer(producer, num_sequences);
}

RingCounts SessionRegistry::Totals() {
  RingCounts totals = gone_;
  for (const auto& [id, session] : sessions_) {
    for (const auto& ring : session->rings) totals += ring->Count();
  }
  return totals;
}

void SessionRegistry::FillStats(ConsumerStats* stats) {
  RingCounts totals = gone_;
  for (const auto& [id, session] : sessions_) {
    if (session->phase == SessionPhase::kGreeting) continue;
    ProducerStats producer;
    producer.id = id;
    producer.name = session->name;
    producer.pid = session->owner.pid;
    producer.uid = static_cast<uid_t>(session->owner.uid);
    for (const auto& ring : session->rings) {
      producer.rings.push_back(ring->Stats());
      producer.packets += producer.rings.back().packets;
      producer.metadata_packets += producer.rings.back().metadata_packets;
    }
    totals.packets += producer.packets;
    totals.metadata += producer.metadata_packets;
    stats->producers.push_back(std::move(producer));
  }
  stats->packets = totals.packets;
  stats->metadata_packets = totals.metadata;
  stats->producers_connected = stats->producers.size();
  stats->producers_seen = producers_seen_;
  stats->producers_refused = producers_refused_;
  stats->rings_stopped = rings_stopped_;
}

control::ServiceStats SessionRegistry::StatsPage(uint64_t after) {
  control::ServiceStats page;
  page.gone = ToPacketInfo(gone_.packets);
  page.producers_seen = producers_seen_;
  page.producers_refused = producers_refused_;
  page.rings_stopped = rings_stopped_;
  size_t bytes = 0;
  for (auto next = sessions_.upper_bound(after); next != sessions_.end();
       ++next) {
    ProducerSession& session = *next->second;
    if (session.phase == SessionPhase::kGreeting) continue;
    bytes += kPageBytesPerProducer + kPageBytesPerRing * session.rings.size();
    page.more = bytes > kMaxPageBytes && !page.producers.empty();
    if (page.more) break;
    control::ProducerInfo& producer = page.producers.emplace_back();
    producer.id = session.id;
    producer.name = session.name;
    producer.pid = static_cast<uint32_t>(session.owner.pid);
    producer.uid = static_cast<uint32_t>(session.owner.uid);
    PacketCounts packets;
    for (const auto& ring : session.rings) {
      const RingStats stats = ring->Stats();
      packets += stats.packets;
      if (producer.rings.size() == control::kMaxRingsPerMessage) continue;
      producer.rings.push_back(
          {stats.num_chunks, stats.outstanding, stats.stopped});
    }
    producer.packets = ToPacketInfo(packets);
  }
  return page;
}

uint64_t SessionRegistry::producers_connected() const {
  return static_cast<uint64_t>(
      std::count_if(sessions_.begin(), sessions_.end(), [](const auto& entry) {
        return entry.second->phase != SessionPhase::kGreeting;
      }));
}

void SessionRegistry::AddLosses(AttachedRing* ring,
                                std::vector<TargetLosses>* losses) const {
  const auto before_buffers = [](const LossCounts& lost) {
    return lost.total() - lost[LossCause::kBufferRefused] -
           lost[LossCause::kPacketTooLarge];
  };
  const RingCounts counts = ring->Count();
  const ChunkReaderStats& chunks = ring->reader_stats();
  TargetLosses& target = (*losses)[ring->MainTarget()];
  target.packets += before_buffers(counts.packets.lost) +
                    before_buffers(counts.metadata.lost);
  target.chunks += chunks.unknown_format + chunks.malformed + chunks.empty +
                   chunks.no_writer + (ring->stopped() ? 1 : 0);
}

std::vector<SessionRegistry::TargetLosses> SessionRegistry::LossesByTarget() {
  std::vector<TargetLosses> losses = gone_losses_;
  for (const auto& [id, session] : sessions_) {
    for (const auto& ring : session->rings) AddLosses(ring.get(), &losses);
  }
  return losses;
}

}  // namespace tracering::internal
