// How a track event's packet begins and ends, and the arguments that take one
// call each. Out of line, so that a traced place in the program stays small.
//
// Belongs to the calling thread; whoever opens an event finishes it before
// another one. Nothing here allocates, locks or enters the kernel, except the
// first event of a thread and whatever WriterOptions allow.
#ifndef TRACERING_INTERNAL_EVENT_PACKET_H_
#define TRACERING_INTERNAL_EVENT_PACKET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracering/export.h"
#include "tracering/internal/event_site.h"

namespace tracering {

class TraceWriter;

namespace internal {

// Where an event's packet goes on, within the event's message. All null for one
// that goes nowhere.
struct OpenEvent {
  TraceWriter* writer;
  uint8_t* cur;
  uint8_t* end;
};
// How many messages deep that is.
inline constexpr uint32_t kEventDepth = 1;

// What an event is shown on: a track by its uuid, or for 0 the calling thread.
using TrackUuid = uint64_t;

// An event of the calling thread, at a site where the name is always the same
// and stays where it is.
TRACERING_EXPORT OpenEvent OpenLiteralEvent(EventSite& site, uint64_t type,
                                            const char* name,
                                            size_t name_size) noexcept;
TRACERING_EXPORT void WriteLiteralEvent(EventSite& site, uint64_t type,
                                        const char* name,
                                        size_t name_size) noexcept;
// With any name, on any track.
TRACERING_EXPORT OpenEvent OpenNamedEvent(EventSite& site, uint64_t type,
                                          TrackUuid track, const char* name,
                                          size_t name_size) noexcept;
// Without a name and a category.
TRACERING_EXPORT OpenEvent OpenBareEvent(uint64_t type,
                                         TrackUuid track) noexcept;
// `cur` and `end` as they are by now.
TRACERING_EXPORT void FinishEvent(TraceWriter* writer, uint8_t* cur,
                                  uint8_t* end) noexcept;

// --- Slices of the calling thread ---

// From one StartTracing to its end; 0 outside. Slices that end with their scope
// remember in which they began.
TRACERING_EXPORT extern std::atomic<uint32_t> current_session;
// Opens the end of a slice that began in that session.
TRACERING_EXPORT OpenEvent OpenSliceEnd(uint32_t session) noexcept;
TRACERING_EXPORT void WriteSliceEnd(uint32_t session) noexcept;

// For slices that begin and end apart. Whether to write the begin, which will
// have to be ended; false if too many of them are open.
TRACERING_EXPORT bool NoteSliceBegin(const EventSite& site) noexcept;
// Whether to write the end of the innermost open slice, because it is of that
// category.
TRACERING_EXPORT bool NoteSliceEnd(const EventSite& site) noexcept;

// --- Arguments ---
// As the appends of packet_encoder.h: they return where the packet goes on.

TRACERING_EXPORT uint8_t* AppendNumberArgument(TraceWriter* writer,
                                               uint8_t* cur, uint8_t** end,
                                               const char* name,
                                               size_t name_size, uint32_t field,
                                               uint64_t bits) noexcept;
TRACERING_EXPORT uint8_t* AppendDoubleArgument(TraceWriter* writer,
                                               uint8_t* cur, uint8_t** end,
                                               const char* name,
                                               size_t name_size,
                                               double value) noexcept;
TRACERING_EXPORT uint8_t* AppendTextArgument(TraceWriter* writer, uint8_t* cur,
                                             uint8_t** end, const char* name,
                                             size_t name_size, const char* text,
                                             size_t text_size) noexcept;

// Differs between processes, and between numbers in one of them.
TRACERING_EXPORT uint64_t LocalFlowId(uint64_t id) noexcept;

}  // namespace internal
}  // namespace tracering

#endif  // TRACERING_INTERNAL_EVENT_PACKET_H_
