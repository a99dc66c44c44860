// The tracing service as a library: takes packets out of the rings of many
// processes, keeps them in named buffers, and saves them as trace files.
//
//   tracering::ConsumerOptions options;
//   options.buffers = {{"main", 32 << 20, tracering::FillPolicy::kRing}};
//   auto consumer = tracering::Consumer::Create(options);
//   (*consumer)->Start();
//   ...
//   (*consumer)->Flush(std::chrono::seconds(1));
//   (*consumer)->WriteTrace("out.pftrace");
//
// Trust: producers may write anything to their rings, descriptors and socket
// at any time; that costs them their own data and nothing else.
#ifndef TRACERING_CONSUMER_H_
#define TRACERING_CONSUMER_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracering/buffer_config.h"
#include "tracering/consumer_stats.h"
#include "tracering/export.h"
#include "tracering/ids.h"

namespace tracering {

// What producers can make the consumer spend. Each is at least 1.
struct ConsumerLimits {
  // Connected at the same time. Each takes three descriptors; the last 32 that
  // the process may open are left to the program. Others wait meanwhile.
  size_t producers = 4096;
  size_t rings_per_producer = 64;
  size_t ring_bytes_per_producer = size_t{4} << 30;  // mapped shared memory
  size_t buffers_per_producer = 1024;                // names it may ask for
  // Packets whose parts have not all arrived.
  size_t partial_packet_bytes = 16 << 20;
  size_t partial_bytes_per_producer = 64 << 20;
  // Nested messages in a packet, when it is read back.
  size_t nesting_depth = 1024;
  // Of the built-in buffer for descriptors.
  size_t metadata_buffer_size = 1 << 20;
};

// A producer says that something happened (Producer::Trigger).
struct TriggerEvent {
  std::string name;
  uint64_t producer = 0;  // ProducerStats::id
  std::string producer_name;
  pid_t pid = 0;  // 0 if it cannot be trusted
};

struct ConsumerOptions {
  // Where producers connect. Empty: no socket, rings are attached by hand.
  // DefaultSocketPath() is where producers look unless they are told.
  std::string socket_path;
  std::vector<BufferConfig> buffers = {{"main", 32 << 20, FillPolicy::kRing}};
  // The longest that published data stays in a ring. 1 ms to 1 hour.
  std::chrono::milliseconds drain_period{100};
  // Outstanding chunks at which a writer wakes the consumer: 1 for each chunk
  // at once, 0 for half the ring.
  uint32_t wakeup_threshold = 0;
  // Users besides our own whose processes may connect. Anything in here opens
  // the socket's mode to 0666; others are still turned away.
  std::vector<uid_t> allowed_uids;
  // Which categories of track events producers write; see
  // Consumer::SetEnabledCategories.
  std::vector<std::string> enabled_categories = {"*"};
  ConsumerLimits limits;
  // Called with one line (no line feed) at a time about what went wrong or
  // came and went: on any thread that is in a method of the consumer, without
  // locks, never two at the same time. It may call the consumer's methods
  // except Stop and the destructor. None: silence.
  std::function<void(std::string_view)> log;
  // Called for each trigger, under the same rules as `log`, and not at the same
  // time. What takes long, such as saving a snapshot, is for another thread.
  // Producers that pull many triggers at once: some of them are left out.
  std::function<void(const TriggerEvent&)> on_trigger;
};

// $TRACERING_SOCKET, else $XDG_RUNTIME_DIR/tracering.sock, else
// /tmp/tracering-<uid>.sock. Thread-safe unless somebody changes the
// environment.
TRACERING_EXPORT std::string DefaultSocketPath();

// A ring to read that did not come through the socket.
struct AttachRingOptions {
  // The ring's memory: sealed and allocated as Producer makes it, of exactly
  // the size that the geometry says. The caller's, not needed afterwards.
  int memfd = -1;
  uint32_t num_chunks = 0;
  uint32_t chunk_size = 0;
  // What the ring's BufferIds mean. Packets for other ids are lost as
  // kUnknownBuffer.
  std::vector<std::pair<BufferId, std::string>> buffers;
  // The eventfd that the ring's writers signal, duplicated. Without one the
  // ring is drained every drain_period and at each flush.
  int event_fd = -1;
  // Carries descriptors: left out of the totals.
  bool metadata = false;
  // Stamped into each packet, on the caller's word. A pid of 0 is left out.
  std::string name;
  pid_t pid = 0;
  uid_t uid = 0;
};

// Names an attached ring; the ProducerStats::id that it is listed under.
struct RingHandle {
  uint64_t id = 0;
};

struct SaveOptions {
  // Deflate the packets, which takes some time and makes the file a fraction of
  // its size. Trace viewers read it like any other. UNIMPLEMENTED where the
  // library was built without zlib.
  bool compress = false;
};

struct StreamOptions {
  // Packets are in the file, for whoever kills this process, so long after they
  // came. 1 ms to 1 hour.
  std::chrono::milliseconds period{1000};
  bool compress = false;  // see SaveOptions
  // Rotation: a file ends before it exceeds so many bytes (1 MiB or more), and
  // another one begins, which can be opened without it. 0: one file. A file
  // exceeds it for a packet, or for descriptors, that take more than half.
  uint64_t max_file_bytes = 0;
  // With rotation, how many files are kept, 1 to 1000: the newest as `path`,
  // the one before it as `path`.1 and so on. What is there under these names
  // when the stream begins is counted among them.
  uint32_t max_files = 1;
};

enum class FlushOutcome {
  kComplete,     // all that was published when the flush began is in a buffer
  kDeadline,     // some was not taken in time
  kRingStopped,  // a ring had broken the protocol; its other rings complete
};

struct ProducerFlushResult {
  uint64_t id = 0;  // ProducerStats::id
  std::string name;
  pid_t pid = 0;
  FlushOutcome outcome = FlushOutcome::kComplete;
  // Writers that were found inside a packet or a batch. What they had
  // published was taken; the rest follows once they go on. A process that is
  // stopped or hangs shows here, and delays nobody. Counted among the last
  // 4096 chunks of a ring that were taken from their writers.
  uint64_t open_writers = 0;
};

struct FlushResult {
  // False if a producer's outcome is kDeadline: more time would bring more.
  bool complete = true;
  std::vector<ProducerFlushResult> producers;
};

// All methods may be called from any thread, at any time between Create and
// the destructor, also before Start and after Stop. A thread that drives the
// consumer (its own one, and the last to call ProcessReady) is a draining
// thread: stalling writers on it drop instead of waiting for themselves.
//
// To move packets, call either Start or, from an event loop of your own,
// ProcessReady whenever poll_fd is readable. Flush drains by itself.
class TRACERING_EXPORT Consumer {
 public:
  // Checks the options, allocates the buffers and listens on the socket. A
  // stale socket is replaced. Errors name the value and the rule, or the path
  // and that another service listens there.
  static absl::StatusOr<std::unique_ptr<Consumer>> Create(
      ConsumerOptions options);

  // Stop() and everything after it. Call it from no callback and no other
  // thread that is still in a method.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Drains on a thread of its own until Stop. FAILED_PRECONDITION if it was
  // started or stopped already.
  absl::Status Start();

  // Takes what producers have published so far, lets go of them and of the
  // socket, and ends the own thread. The buffers stay for WriteTrace,
  // StopStreaming and stats. A packet that is half written counts as lost.
  // Final; again: no effect.
  void Stop();

  // For event loops: readable (level-triggered) while ProcessReady has work,
  // in poll, select or epoll. Valid until the destructor; do not read it.
  int poll_fd() const;

  // Does a bounded amount of the work that is due, never blocks. If more is
  // left, poll_fd stays readable. Not to be combined with Start.
  void ProcessReady();

  // Takes all that producers had published when it was called, on the calling
  // thread, for at most `timeout` (0 or more; 0 takes what one pass can).
  FlushResult Flush(std::chrono::nanoseconds timeout);

  // Switches track events in all producers, connected now or later, to those
  // whose category the patterns select. A pattern is a glob over the whole
  // name: `*` stands for any bytes, `?` for one; with a `-` in front it takes
  // out what it matches. The last pattern that matches a category decides, and
  // one that none matches is off. At most 1024 patterns of 1 to 255 bytes, and
  // 32 KiB in all; INVALID_ARGUMENT names what breaks that. Returns once the
  // message is on its way: producers follow as soon as they read it.
  absl::Status SetEnabledCategories(std::vector<std::string> patterns);

  // Saves the buffers as they are; recording goes on and nothing is consumed.
  // Includes what has been drained only: call Flush first. The file appears at
  // `path` when it is whole; on an error its whole packets are kept under the
  // name that the error tells.
  absl::StatusOr<TraceFileInfo> WriteTrace(const std::string& path);
  absl::StatusOr<TraceFileInfo> WriteTrace(const std::string& path,
                                           const SaveOptions& options);

  // From now on moves packets from the buffers to the file `path`, at least
  // every period and before a buffer is full, which the disk and a busy machine
  // may delay: a buffer must hold what comes meanwhile. Ends with
  // StopStreaming. FAILED_PRECONDITION while there is another stream.
  absl::Status StreamTo(const std::string& path, const StreamOptions& options);
  // One file, not compressed.
  absl::Status StreamTo(const std::string& path,
                        std::chrono::milliseconds period);

  // OK while a stream is being written. The first error since StreamTo, which
  // ends the stream but not the recording; FAILED_PRECONDITION if there is no
  // stream.
  absl::Status stream_status() const;

  // Writes the rest and closes the file, or returns what stream_status() says.
  absl::StatusOr<TraceFileInfo> StopStreaming();

  // Reads a ring that did not come through the socket. The same checks as for
  // a ring from a peer; errors name the rule that was broken. A ring that is
  // attached already (the same memory file) is detached first.
  absl::StatusOr<RingHandle> AttachRing(const AttachRingOptions& options);

  // Takes what was published so far and lets go of the ring. A packet that is
  // half written counts as lost. NOT_FOUND if it is not attached (any more).
  absl::Status DetachRing(RingHandle handle);

  // Counts as of now, writers' losses included. Costs O(producers + rings).
  ConsumerStats stats() const;

 private:
  class Impl;
  explicit Consumer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tracering

#endif  // TRACERING_CONSUMER_H_
