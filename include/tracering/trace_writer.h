// One thread's way into a ring.
//
// A writer belongs to one thread at a time and is not reentrant: a packet that
// is begun while another is open (say in a signal handler) goes nowhere and is
// counted as lost. Writers outlive their Producer safely: once it is gone, or
// in a forked child, everything here is a no-op.
#ifndef TRACERING_TRACE_WRITER_H_
#define TRACERING_TRACE_WRITER_H_

#include <array>
#include <chrono>
#include <cstdint>

#include "tracering/data_loss.h"
#include "tracering/export.h"
#include "tracering/ids.h"
#include "tracering/packet.h"

namespace tracering {

// What a writer does when its ring has no room.
enum class BufferExhaustedPolicy {
  kDrop,   // drop the packet at once, count it
  kStall,  // wait for the consumer, up to WriterOptions::stall_timeout a packet
};

struct WriterOptions {
  BufferExhaustedPolicy policy = BufferExhaustedPolicy::kDrop;
  // One deadline per packet, however often it has to wait. After it the packet
  // is dropped, and later ones are dropped at once until one succeeds. Without
  // a consumer, and on a draining thread, kStall drops at once. 0 or more.
  std::chrono::nanoseconds stall_timeout = std::chrono::seconds(1);
};

// attempted == published + lost, except for packets of an open batch. No-ops
// (after shutdown, in a forked child, before a kOff producer is attached) and
// discarded packets of which nothing was published are not attempts. A writer
// that must give up a chunk which holds nothing yet, because its only packet
// was discarded, publishes one empty packet in it: a chunk without any cannot
// be handed back.
struct WriterStats {
  uint64_t attempted = 0;
  uint64_t published = 0;
  uint64_t lost = 0;  // the sum of the next line
  std::array<uint64_t, kNumWriterLossCauses> lost_by_cause{};
  uint64_t discarded = 0;
};

class WriterBatch;

class TRACERING_EXPORT TraceWriter {
 public:
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Begins a packet: opens a fragment in place. Two uncontended CAS and the
  // copies are all that a packet costs while its chunk has room; no lock, no
  // allocation, no syscall. Under kStall it may wait, as may appends.
  [[nodiscard]] Packet NewPacket() { return Packet(this); }

  // A scope in which packets are finalised without being published: one CAS
  // publishes them all at its end, or when the chunk fills. Nested scopes
  // publish at the outermost end. Until then a flush does not see them, and
  // SIGKILL loses them.
  [[nodiscard]] WriterBatch Batch();

  // May be called from any thread; exact when the writer is quiet.
  WriterStats stats() const;

  // 0 if no id was free: such a writer discards and counts.
  WriterId id() const;
  BufferId target_buffer() const;

 protected:
  // Only internal::TraceWriterImpl derives from it.
  TraceWriter() = default;
  ~TraceWriter() = default;
};

// See TraceWriter::Batch.
class TRACERING_EXPORT WriterBatch {
 public:
  ~WriterBatch();
  WriterBatch(const WriterBatch&) = delete;
  WriterBatch& operator=(const WriterBatch&) = delete;

 private:
  friend class TraceWriter;
  explicit WriterBatch(TraceWriter* writer);

  TraceWriter* writer_;
};

}  // namespace tracering

#endif  // TRACERING_TRACE_WRITER_H_
