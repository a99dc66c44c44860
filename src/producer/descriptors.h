// What the process, its threads and its tracks are called, and who has been
// told.
//
// Threads come and go, consumers come and go, and the ring for descriptors is
// small: so descriptors are kept here and written when there is somebody to
// read them and room for them, again for each session. A descriptor counts as
// delivered once the reader has passed the chunk that it was written to. Where
// many come and go, live ones are written again now and then: the consumer has
// no room for all, and lets go of those that it was told of long ago.
//
// Thread-safe, by one lock that nothing holds while it waits. In a forked child
// nobody may call anything here: the lock may be held for ever.
#ifndef TRACERING_SRC_PRODUCER_DESCRIPTORS_H_
#define TRACERING_SRC_PRODUCER_DESCRIPTORS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "src/common/abi/position.h"
#include "src/common/ring/ring.h"
#include "src/producer/producer_ring.h"
#include "tracering/producer.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

// What a program names at run time is cut to that many bytes.
inline constexpr size_t kMaxNameBytes = 1024;

class Descriptors {
 public:
  // How many of which are kept.
  struct Limits {
    size_t live = 4096;
    size_t undelivered = 4096;  // retired before any consumer had them
    size_t delivered = 1024;    // retired, for consumers to come
  };

  // With a descriptor of the calling process.
  explicit Descriptors(std::string_view process_name)
      : Descriptors(process_name, Limits()) {}
  Descriptors(std::string_view process_name, const Limits& limits);

  uint64_t process_track() const { return process_track_; }

  // A track for the calling thread; retired by its end.
  uint64_t AddThread(std::string_view name);
  void RenameThread(uint64_t uuid, std::string_view name);
  // `parent` 0 stands for the process.
  uint64_t AddTrack(std::string_view name, uint64_t parent);
  // `unit_name` in place of `unit`, unless it is empty.
  uint64_t AddCounterTrack(std::string_view name, CounterUnit unit,
                           std::string_view unit_name, uint64_t parent);

  // A live thread or track is no longer; others are left alone.
  void RetireThread(uint64_t uuid) { Retire(uuid, true); }
  void RetireTrack(uint64_t uuid) { Retire(uuid, false); }

  // A consumer has attached, who needs to be told everything.
  void BeginSession();

  // Writes what has to be written, as long as `ring` has room, and returns
  // whether something is left. `writer` is the only one of `ring`, and nobody
  // uses it in another way.
  bool WritePending(TraceWriter& writer, const ProducerRing& ring);

  Producer::DescriptorStats stats() const;

 private:
  enum class Kind { kProcess, kThread, kTrack, kCounter };

  struct Entry {
    Kind kind = Kind::kTrack;
    std::string name;
    uint64_t parent = 0;
    pid_t thread_id = 0;
    CounterUnit unit = CounterUnit::kUnspecified;
    std::string unit_name;
    bool live = true;
    bool pending = false;    // in pending_
    bool delivered = false;  // to some consumer, under its present name
    uint64_t retired_at = 0;
  };
  // By the order in which they were retired.
  using Retired = std::map<uint64_t, uint64_t>;

  struct InFlight {
    uint64_t uuid;
    abi::Position end;  // write_pos after it was written
  };

  // With mutex_ held.
  uint64_t Add(Entry entry);
  void MakePending(uint64_t uuid, Entry* entry);
  void TellAllAgain(bool retired_ones);
  void Retire(uint64_t uuid, bool is_thread);
  void ConfirmDelivered(const Ring& ring);
  void Trim(Retired* retired, size_t limit, bool count_as_dropped);
  void Write(TraceWriter& writer, uint64_t uuid, const Entry& entry) const;

  const Limits limits_;
  const pid_t pid_;
  const uint64_t start_ticks_;
  const uint64_t seed_;
  const uint64_t process_track_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<uint64_t, Entry> entries_;
  std::deque<uint64_t> pending_;
  std::deque<InFlight> in_flight_;
  Retired undelivered_;
  Retired delivered_;
  uint64_t num_retired_ever_ = 0;
  size_t num_live_ = 0;
  size_t num_new_since_told_again_ = 0;
  uint64_t num_written_ = 0;
  uint64_t num_retried_ = 0;
  uint64_t num_dropped_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_DESCRIPTORS_H_
