// The calling thread's writers and tracks, of all producers, found without a
// lock and released when the thread ends.
//
// The end of a thread is seen by a pthread key, whose destructors run after
// those of thread-local objects: tracing from the latter still works, and a
// reference that one of them holds is still good. In the main thread, which
// ends with the process, nothing is released: what it published is in the ring.
//
// Everything here is about the calling thread; nothing locks. Not
// async-signal-safe.
#ifndef TRACERING_SRC_PRODUCER_THREAD_WRITERS_H_
#define TRACERING_SRC_PRODUCER_THREAD_WRITERS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "src/producer/descriptors.h"
#include "src/producer/managed_ring.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

// Names a producer for the life of the process; never 0, never reused.
using ProducerId = uint64_t;

class ThreadWriters {
 public:
  // Makes sure that the end of threads will be seen, and makes what tracing
  // into nothing needs. Before all else.
  static absl::Status Install();

  // Null if there is none, and for a surplus writer, which should be replaced.
  static TraceWriter* Find(ProducerId producer, std::string_view buffer);
  // A surplus writer, too.
  static TraceWriter* FindAny(ProducerId producer, std::string_view buffer);
  // Takes `writer`, which Find returns from now on; one that it replaces stays
  // valid until the thread ends. `writer` comes back if the thread's writers
  // have been released already.
  static std::unique_ptr<ManagedWriter> Add(
      ProducerId producer, std::string_view buffer,
      std::unique_ptr<ManagedWriter> writer);
  // Traces into nothing. Always there, also without memory.
  static TraceWriter& Nowhere();
  // The same, for whoever is not tied to a thread.
  static TraceWriter& SharedNowhere();

  // Whether the thread's writers have not been released.
  static bool Alive();

  // The uuid of the thread's track; 0 if there is none.
  static uint64_t FindTrack(ProducerId producer);
  // `descriptors` hears of the thread's end. False: that has come already.
  static bool AddTrack(ProducerId producer, uint64_t uuid,
                       std::shared_ptr<Descriptors> descriptors);

  // `end(object)` is called when the thread ends, before its writers are
  // released. False, and it is not: that has come already, or there is no
  // memory.
  static bool AtThreadEnd(void (*end)(void* object), void* object);

  // Publishes what open batches of the thread hold.
  static void PublishPending(ProducerId producer);
  // The producer ends: releases the thread's writers for it.
  static void Release(ProducerId producer);
  // The producer is gone: lets go of its rings where nothing is open.
  static void LetGoOfClosed();
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_THREAD_WRITERS_H_
