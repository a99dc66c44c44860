// The process-wide tracing session: its producer, and what a thread needs of it
// to write events.
//
// Cold path. Process-wide and never destroyed; any thread. In a forked child
// there is no session until it starts its own: that of the parent is left
// alone, locks included.
#ifndef TRACERING_SRC_PRODUCER_EVENT_SESSION_H_
#define TRACERING_SRC_PRODUCER_EVENT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/internal/event_packet.h"
#include "tracering/producer.h"
#include "tracering/tracing.h"

namespace tracering::internal {

// What a thread keeps for its events. Belongs to the thread, and to the signal
// handlers that interrupt it: those may find anything half done but the writer
// and the track.
struct EventThread {
  static constexpr uint32_t kNoSession = UINT32_MAX;
  static constexpr uint32_t kMaxOpenSlices = 128;

  // Of the session below.
  TraceWriterImpl* writer = nullptr;
  uint32_t session = kNoSession;
  // The start of the event's message and its track, encoded, in the first
  // prefix_size bytes.
  uint32_t prefix_size = 0;
  uint8_t prefix[16] = {};
  uint64_t track = 0;

  // Slices that TRACERING_BEGIN began, by the hash of their category. Those
  // beyond what there is room for are only counted.
  uint32_t num_open = 0;
  uint32_t num_too_deep = 0;
  uint32_t open[kMaxOpenSlices];

  // Empty: as the kernel says.
  std::string name;
};

class EventSession {
 public:
  static absl::Status Start(TracingOptions options);
  static void Stop();

  // Null if there is none.
  static std::shared_ptr<Producer> GetProducer();

  // Makes `thread`, which is the calling one, part of the present session.
  // False, with nothing changed, if there is none. May throw for lack of
  // memory.
  static bool Join(EventThread* thread);
  // The calling thread has another name.
  static void Rename(EventThread* thread);

  // Calls `use` with the producer and the number of the session, unless there
  // is none. Nothing in it may wait or call the program.
  static void WithProducer(const std::function<void(Producer&, uint32_t)>& use);
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_EVENT_SESSION_H_
