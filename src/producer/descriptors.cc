// Keeping and writing descriptors; see descriptors.h.
#include "src/producer/descriptors.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/common/os/pidfd.h"
#include "src/common/os/process.h"
#include "src/producer/mix.h"
#include "tracering/packet.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

// The longest descriptor spans two chunks.
constexpr uint32_t kChunksPerDescriptor = 2;
// Live ones are written again after so many new ones, or a quarter of their own
// number: well before the consumer's buffer has gone round.
constexpr size_t kMinNewBeforeToldAgain = 256;
constexpr size_t kLivePerNewBeforeToldAgain = 4;

// Counts tracks of all producers of this process, so that none share a uuid.
std::atomic<uint64_t> num_tracks{0};

uint64_t Uuid(uint64_t seed, uint64_t number) {
  const uint64_t uuid = Mix(seed + number);
  return uuid != 0 ? uuid : 1;
}

uint64_t StartTicks(pid_t pid) {
  // Unknown without /proc. Uuids then rest on the pid alone.
  return os::ProcessStartTime(pid).value_or(0);
}

uint64_t TicksToNs(uint64_t ticks) {
  const auto per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return ticks / per_second * 1'000'000'000 +
         ticks % per_second * 1'000'000'000 / per_second;
}

}  // namespace

Descriptors::Descriptors(std::string_view process_name, const Limits& limits)
    : limits_(limits),
      pid_(getpid()),
      start_ticks_(StartTicks(pid_)),
      seed_(Mix((static_cast<uint64_t>(pid_) << 32) ^ Mix(start_ticks_))),
      process_track_(Uuid(seed_, 0)) {
  Entry process;
  process.kind = Kind::kProcess;
  process.name = std::string(process_name.substr(0, kMaxNameBytes));
  MakePending(process_track_, &process);
  entries_.emplace(process_track_, std::move(process));
  num_live_ = 1;
}

uint64_t Descriptors::AddThread(std::string_view name) {
  Entry entry;
  entry.kind = Kind::kThread;
  entry.name = std::string(name.substr(0, kMaxNameBytes));
  entry.thread_id = os::CurrentThreadId();
  std::lock_guard<std::mutex> lock(mutex_);
  return Add(std::move(entry));
}

void Descriptors::RenameThread(uint64_t uuid, std::string_view name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(uuid);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.name = std::string(name.substr(0, kMaxNameBytes));
  entry.delivered = false;
  MakePending(uuid, &entry);
}

uint64_t Descriptors::AddTrack(std::string_view name, uint64_t parent) {
  Entry entry;
  entry.kind = Kind::kTrack;
  entry.name = std::string(name.substr(0, kMaxNameBytes));
  entry.parent = parent != 0 ? parent : process_track_;
  std::lock_guard<std::mutex> lock(mutex_);
  return Add(std::move(entry));
}

uint64_t Descriptors::AddCounterTrack(std::string_view name, CounterUnit unit,
                                      std::string_view unit_name,
                                      uint64_t parent) {
  Entry entry;
  entry.kind = Kind::kCounter;
  entry.name = std::string(name.substr(0, kMaxNameBytes));
  entry.parent = parent != 0 ? parent : process_track_;
  entry.unit = unit;
  entry.unit_name = std::string(unit_name.substr(0, kMaxNameBytes));
  std::lock_guard<std::mutex> lock(mutex_);
  return Add(std::move(entry));
}

uint64_t Descriptors::Add(Entry entry) {
  const uint64_t number = 1 + num_tracks.fetch_add(1);
  const uint64_t uuid = Uuid(seed_, number);
  if (num_live_ >= limits_.live) {
    // The track works, without a name.
    ++num_dropped_;
    return uuid;
  }
  ++num_live_;
  MakePending(uuid, &entry);
  entries_.emplace(uuid, std::move(entry));
  return uuid;
}

void Descriptors::MakePending(uint64_t uuid, Entry* entry) {
  if (entry->pending) return;
  entry->pending = true;
  pending_.push_back(uuid);
}

void Descriptors::Retire(uint64_t uuid, bool is_thread) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(uuid);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (!entry.live || entry.kind == Kind::kProcess ||
      (entry.kind == Kind::kThread) != is_thread) {
    return;
  }
  entry.live = false;
  --num_live_;
  entry.retired_at = num_retired_ever_++;
  (entry.delivered ? delivered_ : undelivered_).emplace(entry.retired_at, uuid);
  Trim(&delivered_, limits_.delivered, /*count_as_dropped=*/false);
  Trim(&undelivered_, limits_.undelivered, /*count_as_dropped=*/true);
}

void Descriptors::Trim(Retired* retired, size_t limit, bool count_as_dropped) {
  while (retired->size() > limit) {
    entries_.erase(retired->begin()->second);
    retired->erase(retired->begin());
    if (count_as_dropped) ++num_dropped_;
  }
}

void Descriptors::BeginSession() {
  std::lock_guard<std::mutex> lock(mutex_);
  // What the last consumer had not passed is written again with the rest.
  in_flight_.clear();
  TellAllAgain(/*retired_ones=*/true);
}

void Descriptors::TellAllAgain(bool retired_ones) {
  num_new_since_told_again_ = 0;
  for (auto& [uuid, entry] : entries_) {
    if (entry.kind == Kind::kProcess && !entry.pending) {
      entry.pending = true;
      pending_.push_front(uuid);
    } else if (entry.live || retired_ones) {
      MakePending(uuid, &entry);
    }
  }
}

bool Descriptors::WritePending(TraceWriter& writer,
                               const ProducerRing& producer_ring) {
  const Ring& ring = producer_ring.ring();
  std::lock_guard<std::mutex> lock(mutex_);
  // Poisoned or closed: nothing can be written any more.
  if (producer_ring.mode() != RingMode::kOn) return false;
  ConfirmDelivered(ring);
  const uint32_t num_chunks = ring.geometry().num_chunks();
  while (!pending_.empty()) {
    const uint64_t uuid = pending_.front();
    const auto found = entries_.find(uuid);
    if (found == entries_.end()) {  // retired and pushed out meanwhile
      pending_.pop_front();
      continue;
    }
    if (abi::Distance(ring.LoadReadPosAcquire(), ring.LoadWritePosRelaxed()) +
            kChunksPerDescriptor >
        num_chunks) {
      return true;
    }
    const uint64_t lost_before = writer.stats().lost;
    Write(writer, uuid, found->second);
    if (writer.stats().lost != lost_before) {
      ++num_retried_;
      return true;
    }
    ++num_written_;
    found->second.pending = false;
    pending_.pop_front();
    in_flight_.push_back({uuid, ring.LoadWritePosRelaxed()});
    if (!found->second.delivered &&
        ++num_new_since_told_again_ >=
            std::max(kMinNewBeforeToldAgain,
                     num_live_ / kLivePerNewBeforeToldAgain)) {
      TellAllAgain(/*retired_ones=*/false);
    }
  }
  return false;
}

void Descriptors::ConfirmDelivered(const Ring& ring) {
  const abi::Position read_pos = ring.LoadReadPosAcquire();
  const uint32_t num_chunks = ring.geometry().num_chunks();
  while (!in_flight_.empty()) {
    const InFlight& front = in_flight_.front();
    const uint32_t left = abi::Distance(read_pos, front.end);
    if (left != 0 && left <= num_chunks) break;
    const auto found = entries_.find(front.uuid);
    // Under a new name it is pending again.
    if (found != entries_.end() && !found->second.pending) {
      Entry& entry = found->second;
      entry.delivered = true;
      if (!entry.live && undelivered_.erase(entry.retired_at) != 0) {
        delivered_.emplace(entry.retired_at, front.uuid);
      }
    }
    in_flight_.pop_front();
  }
  Trim(&delivered_, limits_.delivered, /*count_as_dropped=*/false);
}

void Descriptors::Write(TraceWriter& writer, uint64_t uuid,
                        const Entry& entry) const {
  Packet packet = writer.NewPacket();
  Message track = packet.BeginMessage(trace_packet::kTrackDescriptor);
  track.AppendVarint(track_descriptor::kUuid, uuid);
  if (entry.parent != 0) {
    track.AppendVarint(track_descriptor::kParentUuid, entry.parent);
  }
  switch (entry.kind) {
    case Kind::kProcess: {
      Message process = track.BeginMessage(track_descriptor::kProcess);
      process.AppendInt(process_descriptor::kPid, pid_);
      process.AppendString(process_descriptor::kProcessName, entry.name);
      if (start_ticks_ != 0) {
        process.AppendVarint(process_descriptor::kStartTimestampNs,
                             TicksToNs(start_ticks_));
      }
      break;
    }
    case Kind::kThread: {
      Message thread = track.BeginMessage(track_descriptor::kThread);
      thread.AppendInt(thread_descriptor::kPid, pid_);
      thread.AppendInt(thread_descriptor::kTid, entry.thread_id);
      thread.AppendString(thread_descriptor::kThreadName, entry.name);
      break;
    }
    case Kind::kTrack:
      track.AppendString(track_descriptor::kName, entry.name);
      break;
    case Kind::kCounter: {
      track.AppendString(track_descriptor::kName, entry.name);
      Message counter = track.BeginMessage(track_descriptor::kCounter);
      if (entry.unit != CounterUnit::kUnspecified) {
        counter.AppendVarint(counter_descriptor::kUnit,
                             static_cast<uint64_t>(entry.unit));
      }
      if (!entry.unit_name.empty()) {
        counter.AppendString(counter_descriptor::kUnitName, entry.unit_name);
      }
      break;
    }
  }
}

Producer::DescriptorStats Descriptors::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Producer::DescriptorStats stats;
  stats.live = num_live_;
  stats.retired = undelivered_.size() + delivered_.size();
  stats.written = num_written_;
  stats.retried = num_retried_;
  stats.dropped = num_dropped_;
  return stats;
}

}  // namespace tracering::internal
