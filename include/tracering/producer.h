// The way into tracing for an instrumented program: rings in shared memory,
// writers for its threads, and a connection to the tracing service that comes
// and goes by itself.
//
//   tracering::ProducerOptions options;
//   options.name = "render_server";
//   auto producer = tracering::Producer::Create(options);
//   tracering::TraceWriter& writer = (*producer)->ThreadWriter("main");
//   {
//     tracering::Packet packet = writer.NewPacket();
//     ...
//   }
//
// The program comes first: nothing here aborts, waits for the service longer
// than it is told to, or trusts a word or a message of the other side. Tracing
// works before any service exists, and goes on when one dies and another
// comes. In a child made by fork() without exec every object of the parent is
// harmless: writers trace into nothing, and methods return at once. The child
// may create a producer of its own.
#ifndef TRACERING_PRODUCER_H_
#define TRACERING_PRODUCER_H_

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracering/counter_unit.h"
#include "tracering/data_loss.h"
#include "tracering/export.h"
#include "tracering/trace_writer.h"

namespace tracering {

namespace internal {
class ManagedWriter;
}  // namespace internal

// A target buffer of the service that this program writes to. Buffers need not
// be declared: ThreadWriter and CreateWriter take any name. Declaring one sets
// its options.
struct BufferOptions {
  // 1 to 255 bytes, unique, and not "metadata", which is built in.
  std::string name;
  // A ring for this buffer alone, so that noise in others costs it nothing.
  // Otherwise it shares the ring of all buffers that have none of their own.
  bool own_ring = false;
  // Bytes of the own ring; rules as for ProducerOptions::ring_size, which is
  // also what 0 stands for. Only with own_ring.
  size_t ring_size = 0;
  // For writers of this buffer, instead of ProducerOptions::writer_options.
  std::optional<WriterOptions> writer_options;
};

enum class StartupMode {
  kBuffer,  // trace into the rings from the first moment, deliver on attach
  kOff,     // trace only while a consumer is attached; no-ops otherwise
};

struct ProducerOptions {
  // How the process appears in traces; at most 255 bytes. Empty: the name of
  // the program.
  std::string name;
  // The service's socket, at most 107 bytes. Empty: $TRACERING_SOCKET, else
  // $XDG_RUNTIME_DIR/tracering.sock, else /tmp/tracering-<uid>.sock.
  std::string socket_path;
  // Bytes of chunks in the shared ring: chunk_size times a power of two, at
  // least 2 chunks and at most 1 GiB. Allocated by Create, in full.
  size_t ring_size = size_t{1} << 20;
  // A power of two from 256 bytes to 32 KiB.
  size_t chunk_size = 4096;
  // At most 62 of them with a ring of their own, at most 1023 in all.
  std::vector<BufferOptions> buffers;
  // Keeps the rings in files, which outlive this process however it ends, and
  // are read with RingInspector or `tracering ring`: the shared ring in this
  // one, those of buffers in FILE.1 and so on as declared, descriptors in
  // FILE.descriptors. "%p" stands for the process id; a file that is there is
  // replaced. Such a producer has no service: rings that a service reads are
  // sealed memory, which a file cannot be. A ring that is full refuses the
  // newest packets, so the files hold the first ones. For the last ones see
  // examples/flight_recorder.cc.
  // Not to be cut by anybody, which would be a SIGBUS for this process. On a
  // file system in memory (/dev/shm) unless they are to survive the machine: a
  // write may have to wait for a disk. Not with StartupMode::kOff.
  std::string ring_file;
  StartupMode startup = StartupMode::kBuffer;
  // For thread writers, and for CreateWriter where nothing else is said.
  WriterOptions writer_options;
  // Users besides our own and root whose service may read our rings. A service
  // of anybody else is sent nothing.
  std::vector<uid_t> allowed_service_uids;
  // A background thread (named "tracering", all signals blocked) connects and
  // reconnects. Without it nothing happens unless the program calls
  // ProcessReady whenever poll_fd() is readable.
  bool own_thread = true;
  // Called after each attach, when the rings are being read and descriptors
  // are on their way: for data that each session needs once. On the background
  // thread, or in ProcessReady. May trace, Flush and add tracks; a call that
  // takes long delays reconnection and nothing else.
  std::function<void()> on_session_start;
  // Called with the patterns of categories that the consumer enables: at each
  // attach, before on_session_start, and whenever it changes its mind; and with
  // nothing when it is gone. Where and with what leave as on_session_start.
  // A layer of events above this one switches by it.
  std::function<void(const std::optional<std::vector<std::string>>& patterns)>
      on_categories;
};

// Releases a writer that Producer::CreateWriter made: publishes what is left
// and gives its id back. On the thread that the writer belongs to, or when that
// thread is done with it; no packet or batch of it may be open.
class WriterReleaser {
 public:
  WriterReleaser() = default;
  TRACERING_EXPORT void operator()(TraceWriter* writer) const;

 private:
  friend class Producer;
  explicit WriterReleaser(internal::ManagedWriter* managed)
      : managed_(managed) {}

  internal::ManagedWriter* managed_ = nullptr;
};
using OwnedTraceWriter = std::unique_ptr<TraceWriter, WriterReleaser>;

class TRACERING_EXPORT Producer {
 public:
  // Packets of one ring since Create, by all writers, released ones included:
  // attempted == delivered + lost() once the writers are quiet and a flush
  // has succeeded.
  struct RingStats {
    std::string name;  // its only buffer; "shared" for the ring of the others
    uint32_t num_chunks = 0;
    uint32_t chunk_size = 0;
    uint32_t outstanding_chunks = 0;  // reserved and not yet taken
    // A word stood in the ring that may not stand there. Writers drop.
    bool poisoned = false;
    // Carries descriptors: left out of the totals.
    bool metadata = false;
    uint64_t attempted = 0;  // see WriterStats
    uint64_t discarded = 0;
    // Packets of which nothing was published, by the writer's LossCause.
    std::array<uint64_t, kNumWriterLossCauses> lost_by_cause{};
    // Packets that the consumer found to be lost, for whatever cause.
    uint64_t lost_by_reader = 0;
    // Packets of which the consumer has the first part, and cannot know yet
    // that the rest will never come.
    uint64_t lost_unfinished = 0;
    uint32_t writers = 0;          // that exist now
    uint64_t surplus_writers = 0;  // ever created without an id left for them

    uint64_t lost() const {
      uint64_t sum = lost_by_reader + lost_unfinished;
      for (const uint64_t count : lost_by_cause) sum += count;
      return sum;
    }
  };

  // Process, thread and track descriptors.
  struct DescriptorStats {
    uint64_t live = 0;  // that every new session gets
    uint64_t retired =
        0;  // removed, or of threads that ended; kept for a while
    uint64_t written = 0;  // packets, repetitions for new sessions included
    uint64_t retried = 0;  // packets that had to be written again
    // Lost for good: beyond the limit of live ones, or retired and pushed out
    // by others before any consumer had them.
    uint64_t dropped = 0;
  };

  struct Stats {
    uint64_t attempted = 0;  // sums over the rings, the metadata ring left out
    uint64_t lost = 0;
    // The shared ring, then own rings as declared, then the metadata ring.
    std::vector<RingStats> rings;
    DescriptorStats descriptors;
    uint64_t sessions = 0;  // how often a consumer has attached
    // Names that the present or last consumer said that it does not have.
    std::vector<std::string> unknown_buffers;
    // Requests for writers under names that were empty, too long or too many.
    // Such writers trace into nothing.
    uint64_t refused_buffer_names = 0;
    // Why there is no consumer, or why the last attempt to connect failed.
    std::string connection_error;
  };

  // Allocates the rings and starts the background thread; does not wait for a
  // service. Errors name the value and the rule that it breaks, or the resource
  // that is missing. Several producers in one process do not disturb each
  // other.
  static absl::StatusOr<std::unique_ptr<Producer>> Create(
      ProducerOptions options);

  // Releases the calling thread's writers: publishes what they hold back, and
  // gives up a packet that is open. Says goodbye to the service, which takes
  // what is left in the rings, and waits for the background thread, for at
  // most a second (only on_session_start can make it last). Writers of other
  // threads become no-ops, also inside a packet.
  // No other thread may be in a method of this object, nor this one in
  // ProcessReady.
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  // Everything below may be called from any thread; nothing below is
  // async-signal-safe.

  // The calling thread's writer for the target buffer `buffer` (1 to 255
  // bytes), created at the first call and then found without lock or
  // allocation. The reference is valid until the thread ends, also after this
  // object is gone. When the thread ends the writer publishes what it holds,
  // and is released. In destructors of thread-local objects that run after
  // that, for a name that is not acceptable, without memory for a new writer,
  // and in a forked child this is a writer that traces into nothing. If no
  // writer id was free, the writer counts its packets as lost; a later call
  // tries again.
  TraceWriter& ThreadWriter(std::string_view buffer);

  // A writer of one's own, for a thread (one at a time) that the caller
  // chooses. Never null; traces into nothing where ThreadWriter's would.
  OwnedTraceWriter CreateWriter(std::string_view buffer);
  OwnedTraceWriter CreateWriter(std::string_view buffer,
                                const WriterOptions& options);

  // Waits until the consumer has taken all that was published before the call:
  // by any thread, and by the calling thread's own open batches, which it
  // publishes. Descriptors are written first. At most `timeout` (0 or more: 0
  // only looks and signals). DEADLINE_EXCEEDED names a ring that was not taken
  // in time; UNAVAILABLE: no consumer is attached, or it left meanwhile;
  // FAILED_PRECONDITION: this is a forked child.
  absl::Status Flush(std::chrono::nanoseconds timeout);

  // Tells the service that something happened, named by 1 to 255 bytes, which
  // may make it save a snapshot of what was traced up to now and for some time
  // to come. Does not wait, and costs a system call: not for each event.
  // UNAVAILABLE: nobody is there to hear it, or its queue is full;
  // FAILED_PRECONDITION: this is a forked child.
  absl::Status Trigger(std::string_view name);

  // Whether a consumer has attached the rings. It may be frozen.
  bool consumer_attached() const;

  // Waits until consumer_attached(), at most `timeout`. Without an own thread
  // it calls ProcessReady meanwhile.
  bool WaitForConsumer(std::chrono::nanoseconds timeout);

  // Exact for writers that are quiet. Costs O(rings + writers). Empty in a
  // forked child.
  Stats stats() const;

  // For event loops, with own_thread = false: readable (level-triggered) while
  // ProcessReady has work. Valid until the destructor; do not read it. -1 with
  // an own thread and in a forked child.
  int poll_fd() const;

  // Does what is due for the connection: a bounded number of system calls,
  // none of which blocks. No effect with an own thread, in a forked child, and
  // within on_session_start.
  void ProcessReady();

  // --- Tracks: what events are shown on ---
  //
  // A track is named by a 64-bit uuid, which events carry as
  // track_event::kTrackUuid. Uuids are a hash of this process's id and start
  // time with a number that counts up, so that they differ between processes
  // of one machine, between threads that came one after the other, and
  // between several producers of a process. Never 0.
  //
  // Descriptors of live tracks are kept (at most 4096) and written for every
  // consumer that attaches. Those of threads that ended, and of tracks that
  // were removed, are kept until one consumer has them (at most 4096), and up
  // to 1024 of them after that. Names are cut at 1024 bytes.

  // The process, by ProducerOptions::name. The parent of other tracks.
  uint64_t process_track() const;

  // The calling thread's track, named as the kernel names the thread. The
  // second call for a thread finds it without lock or allocation. Where
  // ThreadWriter would trace into nothing this is the process track.
  uint64_t ThreadTrack();
  // The same under another name, from now on. Takes a lock.
  uint64_t ThreadTrack(std::string_view name);

  // A track for events that belong to no thread, below the process or below
  // the track `parent` (0: the process).
  uint64_t AddTrack(std::string_view name, uint64_t parent = 0);

  // A track of counter events.
  uint64_t AddCounterTrack(std::string_view name,
                           CounterUnit unit = CounterUnit::kUnspecified,
                           uint64_t parent = 0);
  // With a unit in words, such as "requests".
  uint64_t AddCounterTrack(std::string_view name, std::string_view unit_name,
                           uint64_t parent = 0);

  // Later sessions need not know the track. For those that AddTrack and
  // AddCounterTrack returned; others are left alone.
  void RemoveTrack(uint64_t uuid);

 private:
  class Impl;
  explicit Producer(std::shared_ptr<Impl> impl);
  static OwnedTraceWriter Own(std::unique_ptr<internal::ManagedWriter> managed);

  std::shared_ptr<Impl> impl_;
};

}  // namespace tracering

#endif  // TRACERING_PRODUCER_H_
