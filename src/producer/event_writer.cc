// The hot path of track events; see tracering/internal/event_packet.h. Read the
// generated code after a change.
//
// Of an event at a place with a literal name all but the time is encoded once:
// the track in the thread's prefix, the rest in the site. Both are copied in
// whole blocks, whatever their size, where the chunk has room for that.
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "src/common/os/errno_saver.h"
#include "src/producer/containment.h"
#include "src/producer/event_session.h"
#include "src/producer/fork_guard.h"
#include "src/producer/thread_writers.h"
#include "src/producer/trace_writer_impl.h"
#include "src/producer/tsc_clock.h"
#include "tracering/internal/event_packet.h"
#include "tracering/internal/event_site.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"
#include "tracering/tracing.h"

namespace tracering::internal {
namespace {

constexpr uint8_t kTimestampTag =
    MakeTag(trace_packet::kTimestamp, WireType::kVarint);
constexpr uint8_t kTypeTag = MakeTag(track_event::kType, WireType::kVarint);
constexpr size_t kMaxPrefix = sizeof(EventThread::prefix);
constexpr size_t kTypeSize = 2;
// Time, prefix and type.
constexpr size_t kMaxStart = 1 + kMaxVarintSize + kMaxPrefix + kTypeSize;
// Texts of this size have a length of one byte.
constexpr size_t kMaxShort = 127;

// A trivial type: readable at any time in the life of a thread.
thread_local EventThread* current_thread = nullptr;

std::atomic<uint64_t> num_too_deep{0};

void EndThread(void* thread) {
  current_thread = nullptr;
  delete static_cast<EventThread*>(thread);
}

// Null without memory, and once the thread's writers have been released.
EventThread* ThreadOrNew() {
  if (current_thread != nullptr) return current_thread;
  if (!ThreadWriters::Alive() || !ThreadWriters::Install().ok()) return nullptr;
  auto made = std::make_unique<EventThread>();
  if (!ThreadWriters::AtThreadEnd(EndThread, made.get())) return nullptr;
  current_thread = made.release();
  return current_thread;
}

// The first event of a thread in a session.
[[gnu::cold, gnu::noinline]] EventThread* Join() {
  if (current_session.load(std::memory_order_acquire) == 0) return nullptr;
  const os::ErrnoSaver errno_saver;
  return Contain(
      []() -> EventThread* {
        EventThread* const thread = ThreadOrNew();
        return thread != nullptr && EventSession::Join(thread) ? thread
                                                               : nullptr;
      },
      []() -> EventThread* { return nullptr; });
}

inline EventThread* ThisThread() {
  EventThread* const thread = current_thread;
  if (__builtin_expect(thread != nullptr &&
                           thread->session ==
                               current_session.load(std::memory_order_relaxed),
                       1)) {
    return thread;
  }
  return Join();
}

inline bool HasRoom(const FragmentRange& range, size_t bytes) {
  return static_cast<size_t>(range.end - range.cur) >= bytes;
}

// There is room for kMaxStart bytes.
inline uint8_t* PutStart(uint8_t* out, uint64_t now,
                         const EventThread& thread) {
  *out++ = kTimestampTag;
  out = WriteVarintRoomy(out, now);
  std::memcpy(out, thread.prefix, kMaxPrefix);
  return out + thread.prefix_size;
}

inline uint8_t* PutType(uint8_t* out, uint64_t type) {
  out[0] = kTypeTag;
  out[1] = static_cast<uint8_t>(type);
  return out + kTypeSize;
}

inline OpenEvent ToOpen(const EventThread& thread, const FragmentRange& range) {
  return {thread.writer, range.cur, range.end};
}

// A field of the event of which there may be no room in the chunk.
void AppendText(PacketEncoder& encoder, uint32_t field, std::string_view text) {
  encoder.AppendBytes(field, text.data(), text.size());
}

// Field by field, wherever there is room.
[[gnu::noinline]] OpenEvent OpenSlowly(const EventThread& thread,
                                       const FragmentRange& range, uint64_t now,
                                       TrackUuid track, uint64_t type,
                                       std::string_view category,
                                       std::string_view name) {
  PacketEncoder encoder(thread.writer, range.cur, range.end, 0);
  encoder.AppendVarint(trace_packet::kTimestamp, now);
  encoder.BeginMessage(trace_packet::kTrackEvent);
  encoder.AppendVarint(track_event::kTrackUuid,
                       track != 0 ? track : thread.track);
  encoder.AppendVarint(track_event::kType, type);
  if (!category.empty()) {
    AppendText(encoder, track_event::kCategories, category);
  }
  if (!name.empty()) AppendText(encoder, track_event::kName, name);
  return {encoder.writer(), encoder.cur(), encoder.end()};
}

// What an event at `site` has behind its track. 0 if it is too long.
uint32_t EncodeSite(uint8_t* out, uint64_t type, std::string_view category,
                    std::string_view name) {
  constexpr size_t kOverhead = kTypeSize + 2 * (2 + 1);
  if (kOverhead + category.size() + name.size() > EventSite::kMaxEncoded) {
    return 0;
  }
  uint8_t* const start = out;
  const auto put = [&out](uint32_t field, std::string_view text) {
    out = WriteVarint(out, MakeTag(field, WireType::kLengthDelimited));
    *out++ = static_cast<uint8_t>(text.size());
    std::memcpy(out, text.data(), text.size());
    out += text.size();
  };
  out = PutType(out, type);
  put(track_event::kCategories, category);
  put(track_event::kName, name);
  return static_cast<uint32_t>(out - start);
}

// The open event is at the end of what `range` says.
[[gnu::always_inline]] inline FragmentRange OpenLiteral(
    const EventThread& thread, EventSite& site, uint64_t type, const char* name,
    size_t name_size) {
  const uint64_t now = TscClock::Now();
  FragmentRange range = thread.writer->Open();
  const uint32_t encoded = site.encoded_size();
  if (__builtin_expect(
          encoded != 0 && HasRoom(range, kMaxStart + EventSite::kMaxEncoded),
          1)) {
    uint8_t* const out = PutStart(range.cur, now, thread);
    std::memcpy(out, site.encoded(), EventSite::kMaxEncoded);
    range.cur = out + encoded;
    return range;
  }
  const std::string_view text(name, name_size);
  site.EncodeOnce([&](uint8_t* out) {
    return EncodeSite(out, type, site.category(), text);
  });
  const OpenEvent open =
      OpenSlowly(thread, range, now, 0, type, site.category(), text);
  return {open.cur, open.end};
}

[[gnu::always_inline]] inline void Finish(TraceWriterImpl* writer, uint8_t* cur,
                                          uint8_t* end) {
  if (__builtin_expect(cur != end, 1)) {
    *cur++ = kCloseMessage;
  } else {
    cur = EndMessageSlow(writer, cur, &end);
  }
  writer->Close(cur);
}

}  // namespace

OpenEvent OpenLiteralEvent(EventSite& site, uint64_t type, const char* name,
                           size_t name_size) noexcept {
  const EventThread* const thread = ThisThread();
  if (thread == nullptr) return {};
  return ToOpen(*thread, OpenLiteral(*thread, site, type, name, name_size));
}

void WriteLiteralEvent(EventSite& site, uint64_t type, const char* name,
                       size_t name_size) noexcept {
  const EventThread* const thread = ThisThread();
  if (thread == nullptr) return;
  const FragmentRange range = OpenLiteral(*thread, site, type, name, name_size);
  Finish(thread->writer, range.cur, range.end);
}

OpenEvent OpenNamedEvent(EventSite& site, uint64_t type, TrackUuid track,
                         const char* name, size_t name_size) noexcept {
  const EventThread* const thread = ThisThread();
  if (thread == nullptr) return {};
  const uint64_t now = TscClock::Now();
  return OpenSlowly(*thread, thread->writer->Open(), now, track, type,
                    site.category(), std::string_view(name, name_size));
}

OpenEvent OpenBareEvent(uint64_t type, TrackUuid track) noexcept {
  const EventThread* const thread = ThisThread();
  if (thread == nullptr) return {};
  const uint64_t now = TscClock::Now();
  FragmentRange range = thread->writer->Open();
  if (track != 0 || !HasRoom(range, kMaxStart)) {
    return OpenSlowly(*thread, range, now, track, type, {}, {});
  }
  range.cur = PutType(PutStart(range.cur, now, *thread), type);
  return ToOpen(*thread, range);
}

void FinishEvent(TraceWriter* writer, uint8_t* cur, uint8_t* end) noexcept {
  // It goes nowhere.
  if (cur == nullptr) return;
  Finish(static_cast<TraceWriterImpl*>(writer), cur, end);
}

// --- Slices ---

OpenEvent OpenSliceEnd(uint32_t session) noexcept {
  if (session != current_session.load(std::memory_order_relaxed)) return {};
  return OpenBareEvent(track_event::kTypeSliceEnd, 0);
}

void WriteSliceEnd(uint32_t session) noexcept {
  if (session != current_session.load(std::memory_order_relaxed)) return;
  const OpenEvent open = OpenBareEvent(track_event::kTypeSliceEnd, 0);
  if (open.writer == nullptr) return;
  Finish(static_cast<TraceWriterImpl*>(open.writer), open.cur, open.end);
}

bool NoteSliceBegin(const EventSite& site) noexcept {
  EventThread* const thread = ThisThread();
  if (thread == nullptr) return false;
  if (thread->num_open == EventThread::kMaxOpenSlices) {
    ++thread->num_too_deep;
    num_too_deep.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  thread->open[thread->num_open++] = site.category_hash();
  return true;
}

bool NoteSliceEnd(const EventSite& site) noexcept {
  // A thread that has not joined has begun nothing.
  EventThread* const thread = current_thread;
  if (thread == nullptr ||
      thread->session != current_session.load(std::memory_order_relaxed)) {
    return false;
  }
  if (thread->num_too_deep != 0) {
    --thread->num_too_deep;
    return false;
  }
  if (thread->num_open == 0 ||
      thread->open[thread->num_open - 1] != site.category_hash()) {
    return false;
  }
  --thread->num_open;
  return true;
}

// --- Arguments ---

namespace {

constexpr uint8_t kAnnotationTag =
    MakeTag(track_event::kDebugAnnotations, WireType::kStartGroup);
constexpr uint8_t kNameTag =
    MakeTag(debug_annotation::kName, WireType::kLengthDelimited);
constexpr uint8_t kDoubleTag =
    MakeTag(debug_annotation::kDoubleValue, WireType::kFixed64);
constexpr uint8_t kTextTag =
    MakeTag(debug_annotation::kStringValue, WireType::kLengthDelimited);
static_assert(kAnnotationTag < 0x80 && kTextTag < 0x80);

// What surrounds a name and a text of one byte's length, or a number.
constexpr size_t kAnnotationSize = 1 + 2 + 1 + kMaxVarintSize + 1;

// memcpy of any size is a call; names are short.
[[gnu::always_inline]] inline uint8_t* CopyShort(uint8_t* out, const char* from,
                                                 size_t size) {
  if (size >= 8) {
    if (size > 16) {
      std::memcpy(out, from, size);
      return out + size;
    }
    std::memcpy(out, from, 8);
    std::memcpy(out + size - 8, from + size - 8, 8);
  } else if (size >= 4) {
    std::memcpy(out, from, 4);
    std::memcpy(out + size - 4, from + size - 4, 4);
  } else if (size != 0) {
    out[0] = static_cast<uint8_t>(from[0]);
    out[size / 2] = static_cast<uint8_t>(from[size / 2]);
    out[size - 1] = static_cast<uint8_t>(from[size - 1]);
  }
  return out + size;
}

[[gnu::always_inline]] inline uint8_t* PutName(uint8_t* out, const char* name,
                                               size_t size) {
  *out++ = kAnnotationTag;
  *out++ = kNameTag;
  *out++ = static_cast<uint8_t>(size);
  return CopyShort(out, name, size);
}

// An argument for which the chunk may have no room.
template <typename AppendValue>
[[gnu::noinline]] uint8_t* AppendSlowly(TraceWriter* writer, uint8_t* cur,
                                        uint8_t** end, std::string_view name,
                                        const AppendValue& append_value) {
  PacketEncoder encoder(writer, cur, *end, kEventDepth);
  const uint32_t depth = encoder.BeginMessage(track_event::kDebugAnnotations);
  AppendText(encoder, debug_annotation::kName, name);
  append_value(encoder);
  encoder.EndMessage(depth);
  *end = encoder.end();
  return encoder.cur();
}

}  // namespace

uint8_t* AppendNumberArgument(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                              const char* name, size_t name_size,
                              uint32_t field, uint64_t bits) noexcept {
  if (name_size > kMaxShort ||
      !HasRoom({cur, *end}, kAnnotationSize + name_size)) {
    return AppendSlowly(
        writer, cur, end, {name, name_size},
        [&](PacketEncoder& encoder) { encoder.AppendVarint(field, bits); });
  }
  cur = PutName(cur, name, name_size);
  *cur++ = static_cast<uint8_t>(MakeTag(field, WireType::kVarint));
  cur = WriteVarintRoomy(cur, bits);
  *cur++ = kCloseMessage;
  return cur;
}

uint8_t* AppendDoubleArgument(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                              const char* name, size_t name_size,
                              double value) noexcept {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (name_size > kMaxShort ||
      !HasRoom({cur, *end}, kAnnotationSize + name_size)) {
    return AppendSlowly(
        writer, cur, end, {name, name_size}, [&](PacketEncoder& encoder) {
          encoder.AppendFixed64(debug_annotation::kDoubleValue, bits);
        });
  }
  cur = PutName(cur, name, name_size);
  *cur++ = kDoubleTag;
  cur = WriteFixed(cur, bits);
  *cur++ = kCloseMessage;
  return cur;
}

uint8_t* AppendTextArgument(TraceWriter* writer, uint8_t* cur, uint8_t** end,
                            const char* name, size_t name_size,
                            const char* text, size_t text_size) noexcept {
  if (name_size > kMaxShort || text_size > kMaxShort ||
      !HasRoom({cur, *end}, kAnnotationSize + name_size + text_size)) {
    return AppendSlowly(writer, cur, end, {name, name_size},
                        [&](PacketEncoder& encoder) {
                          AppendText(encoder, debug_annotation::kStringValue,
                                     {text, text_size});
                        });
  }
  cur = PutName(cur, name, name_size);
  *cur++ = kTextTag;
  *cur++ = static_cast<uint8_t>(text_size);
  cur = CopyShort(cur, text, text_size);
  *cur++ = kCloseMessage;
  return cur;
}

}  // namespace tracering::internal

namespace tracering {

void SetThreadName(std::string_view name) {
  internal::Contain(
      [&] {
        internal::EventThread* const thread = internal::ThreadOrNew();
        if (thread == nullptr) return;
        thread->name = std::string(name);
        internal::EventSession::Rename(thread);
      },
      [] {});
}

TracingStats tracing_stats() {
  TracingStats stats;
  if (internal::TscClock::InUse()) stats.clock = TraceClock::kTsc;
  stats.slices_too_deep =
      internal::num_too_deep.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace tracering
