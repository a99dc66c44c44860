// Looking into a ring that is nobody's any more, or somebody else's: what state
// it is in, chunk by chunk, and what can be saved of it.
//
//   auto ring = tracering::RingInspector::Open("/proc/4711/fd/5");
//   std::puts(ring->contents().problems.empty() ? "sound" : "broken");
//   tracering::SalvageRings({&*ring}, "salvaged.pftrace");
//
// A ring outlives its process where somebody else holds its memory file, or
// where it is a file (ProducerOptions::ring_file). A ring that is full refuses
// the newest packets: what it holds is what came first since its last reader.
//
// Trust: the ring may hold anything. It is copied once, never written to, and
// what is looked at is the copy. A ring in use is caught in a moment that need
// not have been one: the copy is not made at once.
#ifndef TRACERING_RING_INSPECTOR_H_
#define TRACERING_RING_INSPECTOR_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tracering/consumer.h"
#include "tracering/consumer_stats.h"
#include "tracering/export.h"
#include "tracering/ids.h"

namespace tracering {

enum class ChunkState : uint32_t {
  kFree = 0,              // for the reservation that its wrap count names
  kAcquired = 1,          // a writer holds it
  kComplete = 2,          // a writer has let go of it
  kRewriteRequested = 3,  // a reader took what there was from its writer
  kAcknowledged = 4,      // and the writer has let go of it since
  kReserved = 5,          // that and above: no state
};

// "acquired" and the like.
TRACERING_EXPORT std::string_view ChunkStateName(ChunkState state);

struct InspectedChunk {
  uint32_t index = 0;
  uint32_t word = 0;  // the state word as it stands
  ChunkState state = ChunkState::kFree;
  // Reserved, and no reader has resolved it: what it holds was never taken.
  bool outstanding = false;
  uint32_t position = 0;    // of that reservation
  uint32_t wrap_count = 0;  // of a free chunk
  // Of the states 1 to 3.
  WriterId writer;
  BufferId buffer;
  uint32_t num_fragments = 0;  // published
  uint32_t payload_size = 0;   // their bytes
  bool continues_from_previous = false;
  bool continues_on_next = false;
  bool data_loss = false;
  // Why it cannot be what it claims to be. Empty where it can.
  std::string_view problem;
};

struct InspectedRing {
  uint32_t abi_version = 0;
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
  pid_t producer_pid = 0;
  // Cursors count positions; they and their difference wrap at 2^32.
  uint32_t read_pos = 0;
  uint32_t write_pos = 0;
  uint32_t outstanding() const { return write_pos - read_pos; }
  uint32_t reader_epoch = 0;  // readers that ever attached
  bool reader_left = false;   // the last of them in good order
  uint64_t reader_loss = 0;   // packets that readers found to be lost
  bool reader_armed = false;  // it sleeps, or went while it did
  uint32_t wakeup_threshold = 0;
  uint32_t writers_waiting = 0;
  // As writers noted them. Without a reader they note them late, or never.
  LossCounts writer_loss;

  std::vector<InspectedChunk> chunks;
  // What no sound ring has: cursors too far apart, states that are none. The
  // first hundred.
  std::vector<std::string> problems;
};

class RingInspector {
 public:
  // Reads the ring in the file `path`: that of a ring_file, or /proc/PID/fd/N
  // of a process that has it open; of at most 1 GiB, as Producer makes them.
  // Errors name the path and what is missing.
  TRACERING_EXPORT static absl::StatusOr<RingInspector> Open(
      const std::string& path);

  // The same for bytes in memory. Those behind the ring's end are ignored.
  TRACERING_EXPORT static absl::StatusOr<RingInspector> FromImage(
      std::string image);

  const InspectedRing& contents() const { return contents_; }
  // The ring as it was copied, of exactly its size.
  const std::string& image() const { return image_; }

 private:
  explicit RingInspector(std::string image);

  std::string image_;
  InspectedRing contents_;
};

// Saves the packets that were published in `rings` (of one or of several
// processes; each once) and that no reader has taken. Descriptors count among
// them. What stands before a word that breaks the rules is saved, what stands
// behind it counts as lost.
TRACERING_EXPORT absl::StatusOr<TraceFileInfo> SalvageRings(
    const std::vector<const RingInspector*>& rings, const std::string& path,
    const SaveOptions& options = SaveOptions());

}  // namespace tracering

#endif  // TRACERING_RING_INSPECTOR_H_
