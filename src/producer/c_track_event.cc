// Track events from C; see c_packet.h and tracering/c/track_event.h. An event
// that is open is its writer's packet, within the message of the event.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "src/producer/c_handles.h"
#include "src/producer/c_packet.h"
#include "src/producer/category_patterns.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/c/track_event.h"
#include "tracering/event_tracks.h"
#include "tracering/internal/event_packet.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/internal/track_event_enabled.h"
#include "tracering/trace_fields.h"
#include "tracering/tracing.h"

struct tracering_event_track {
  tracering_event_track(const char* name, tracering_event_track* parent)
      : track(
            parent != nullptr
                ? std::make_unique<tracering::AsyncTrack>(name, *parent->track)
                : std::make_unique<tracering::AsyncTrack>(name)) {}

  const std::unique_ptr<tracering::AsyncTrack> track;
};

namespace tracering::internal {
namespace {

constexpr uint32_t kMaxArgumentDepth = 64;

CategorySites* SitesOf(tracering_category* category) {
  return reinterpret_cast<CategorySites*>(category);
}

CounterTrack* CounterTrackOf(tracering_counter* counter) {
  return reinterpret_cast<CounterTrack*>(counter);
}

// Null if events of the category go nowhere.
EventSite* EnabledSite(tracering_category* category) {
  if (category == nullptr) return nullptr;
  EventSite& site = SitesOf(category)->events;
  return site.enabled() ? &site : nullptr;
}

tracering_packet* Keep(const OpenEvent& open) {
  if (open.cur == nullptr) return nullptr;
  tracering_packet& packet =
      static_cast<TraceWriterImpl*>(open.writer)->c_packet();
  packet.Open(open.writer, open.cur, open.end, kEventDepth);
  packet.arrays = 0;
  return &packet;
}

void Finish(const OpenEvent& open) {
  FinishEvent(open.writer, open.cur, open.end);
}

// The events. None is open where it goes nowhere.

OpenEvent OpenNamed(EventSite& site, uint64_t type, TrackUuid track,
                    const char* name) {
  const std::string_view text = TextOf(name);
  return OpenNamedEvent(site, type, track, text.data(), text.size());
}

OpenEvent BeginOnThread(tracering_category* category, const char* name) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr || !NoteSliceBegin(*site)) return {};
  return OpenNamed(*site, track_event::kTypeSliceBegin, 0, name);
}

OpenEvent EndOnThread(tracering_category* category) {
  if (category == nullptr) return {};
  EventSite& site = SitesOf(category)->ends;
  if (!site.may_end() || !NoteSliceEnd(site)) return {};
  return OpenBareEvent(track_event::kTypeSliceEnd, 0);
}

OpenEvent InstantOnThread(tracering_category* category, const char* name) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr) return {};
  return OpenNamed(*site, track_event::kTypeInstant, 0, name);
}

OpenEvent BeginOnTrack(tracering_category* category, tracering_event_track* on,
                       const char* name) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr || on == nullptr || !on->track->NoteBegin()) return {};
  return OpenNamed(*site, track_event::kTypeSliceBegin, on->track->uuid(),
                   name);
}

OpenEvent EndOnTrack(tracering_event_track* on) {
  if (on == nullptr || !on->track->NoteEnd()) return {};
  return OpenBareEvent(track_event::kTypeSliceEnd, on->track->uuid());
}

OpenEvent InstantOnTrack(tracering_category* category,
                         tracering_event_track* on, const char* name) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr || on == nullptr) return {};
  return OpenNamed(*site, track_event::kTypeInstant, on->track->uuid(), name);
}

// Whether it is an event, to which something can be added. What is none is
// discarded.
bool IsOpenEvent(tracering_packet* packet) {
  if (!IsOpen(packet)) return false;
  if (packet->base != 0) return true;
  tracering_packet_discard(packet);
  return false;
}

// Begins an argument, an entry or an item, in the message that is open.
uint32_t BeginArgument(const tracering_packet& event, PacketEncoder& encoder,
                       const char* name) {
  const uint32_t level = event.depth - event.base;
  const bool in_array = level != 0 && level <= kMaxArgumentDepth &&
                        ((event.arrays >> (level - 1)) & 1) != 0;
  const uint32_t depth =
      encoder.BeginMessage(level == 0 ? track_event::kDebugAnnotations
                           : in_array ? debug_annotation::kArrayValues
                                      : debug_annotation::kDictEntries);
  if (!in_array) {
    const std::string_view text = TextOrEmpty(name);
    encoder.AppendBytes(debug_annotation::kName, text.data(), text.size());
  }
  return depth;
}

template <typename AppendValue>
void AppendArgument(tracering_packet* event, const char* name,
                    const AppendValue& append_value) {
  if (!IsOpenEvent(event)) return;
  PacketEncoder encoder = event->encoder();
  const uint32_t depth = BeginArgument(*event, encoder, name);
  append_value(encoder);
  encoder.EndMessage(depth);
  event->GoOnBehind(encoder);
}

void BeginContainer(tracering_packet* event, const char* name, bool is_array) {
  if (!IsOpenEvent(event)) return;
  const uint32_t level = event->depth - event->base;
  if (level >= kMaxArgumentDepth) {
    tracering_packet_discard(event);
    return;
  }
  PacketEncoder encoder = event->encoder();
  event->depth = BeginArgument(*event, encoder, name);
  event->GoOnBehind(encoder);
  const uint64_t bit = uint64_t{1} << level;
  event->arrays = is_array ? event->arrays | bit : event->arrays & ~bit;
}

void AddFlow(tracering_packet* event, uint32_t field, uint64_t flow) {
  if (!IsOpenEvent(event)) return;
  if (event->depth != event->base) {
    tracering_packet_discard(event);
    return;
  }
  tracering_append_fixed64(event, field, flow);
}

}  // namespace
}  // namespace tracering::internal

using tracering::internal::AppendArgument;
using tracering::internal::BeginOnThread;
using tracering::internal::BeginOnTrack;
using tracering::internal::Contain;
using tracering::internal::CounterTrackOf;
using tracering::internal::EnabledSite;
using tracering::internal::EndOnThread;
using tracering::internal::EndOnTrack;
using tracering::internal::EventSite;
using tracering::internal::Finish;
using tracering::internal::InstantOnThread;
using tracering::internal::InstantOnTrack;
using tracering::internal::Keep;
using tracering::internal::PacketEncoder;
using tracering::internal::TextOrEmpty;

namespace debug_annotation = tracering::debug_annotation;

// --- Tracing of the whole process ---

tracering_status tracering_start_tracing(const tracering_options* options,
                                         char* error, size_t error_size) {
  return tracering::internal::Report(error, error_size, [&]() -> absl::Status {
    if (absl::Status status = tracering::internal::CheckSetters(options);
        !status.ok()) {
      return status;
    }
    return tracering::StartTracing(options->tracing);
  });
}

void tracering_stop_tracing(void) { tracering::StopTracing(); }

tracering_status tracering_flush_tracing(int64_t timeout_ns, char* error,
                                         size_t error_size) {
  return tracering::internal::Report(error, error_size, [&] {
    return tracering::FlushTracing(std::chrono::nanoseconds(timeout_ns));
  });
}

tracering_producer* tracering_tracing_producer(void) {
  return Contain(
      []() -> tracering_producer* {
        auto handle = std::make_unique<tracering_producer>();
        handle->producer = tracering::TracingProducer();
        return handle->producer != nullptr ? handle.release() : nullptr;
      },
      []() -> tracering_producer* { return nullptr; });
}

bool tracering_set_enabled_categories(const char* patterns) {
  return Contain(
      [&] {
        tracering::SetEnabledCategories(
            tracering::internal::SplitPatterns(TextOrEmpty(patterns)));
        return true;
      },
      [] { return false; });
}

void tracering_set_thread_name(const char* name) {
  tracering::SetThreadName(TextOrEmpty(name));
}

bool tracering_get_tracing_stats(tracering_tracing_stats* stats) {
  if (!tracering::internal::HasRoomForStats(stats)) return false;
  const tracering::TracingStats read = tracering::tracing_stats();
  tracering_tracing_stats full{};
  full.slices_too_deep = read.slices_too_deep;
  full.clock = read.clock == tracering::TraceClock::kTsc
                   ? TRACERING_CLOCK_TSC
                   : TRACERING_CLOCK_BOOTTIME;
  tracering::internal::CopyStats(full, stats);
  return true;
}

// --- Categories ---

tracering_category* tracering_category_get(const char* name) {
  return reinterpret_cast<tracering_category*>(
      tracering::internal::FindOrAddCategory(TextOrEmpty(name)));
}

bool tracering_category_enabled(tracering_category* category) {
  return EnabledSite(category) != nullptr;
}

// --- Events ---

void tracering_slice_begin(tracering_category* category, const char* name) {
  Finish(BeginOnThread(category, name));
}

tracering_packet* tracering_slice_begin_open(tracering_category* category,
                                             const char* name) {
  return Keep(BeginOnThread(category, name));
}

void tracering_slice_end(tracering_category* category) {
  Finish(EndOnThread(category));
}

tracering_packet* tracering_slice_end_open(tracering_category* category) {
  return Keep(EndOnThread(category));
}

void tracering_instant(tracering_category* category, const char* name) {
  Finish(InstantOnThread(category, name));
}

tracering_packet* tracering_instant_open(tracering_category* category,
                                         const char* name) {
  return Keep(InstantOnThread(category, name));
}

// --- Tracks ---

tracering_event_track* tracering_event_track_create(
    const char* name, tracering_event_track* parent) {
  return Contain(
      [&] { return new tracering_event_track(TextOrEmpty(name), parent); },
      []() -> tracering_event_track* { return nullptr; });
}

void tracering_event_track_destroy(tracering_event_track* track) {
  delete track;
}

void tracering_track_slice_begin(tracering_category* category,
                                 tracering_event_track* track,
                                 const char* name) {
  Finish(BeginOnTrack(category, track, name));
}

tracering_packet* tracering_track_slice_begin_open(tracering_category* category,
                                                   tracering_event_track* track,
                                                   const char* name) {
  return Keep(BeginOnTrack(category, track, name));
}

void tracering_track_slice_end(tracering_event_track* track) {
  Finish(EndOnTrack(track));
}

tracering_packet* tracering_track_slice_end_open(tracering_event_track* track) {
  return Keep(EndOnTrack(track));
}

void tracering_track_instant(tracering_category* category,
                             tracering_event_track* track, const char* name) {
  Finish(InstantOnTrack(category, track, name));
}

tracering_packet* tracering_track_instant_open(tracering_category* category,
                                               tracering_event_track* track,
                                               const char* name) {
  return Keep(InstantOnTrack(category, track, name));
}

// --- Counters ---

tracering_counter* tracering_counter_get(const char* name, int32_t unit) {
  return reinterpret_cast<tracering_counter*>(
      tracering::internal::FindOrAddCounter(
          TextOrEmpty(name), tracering::internal::UnitOf(unit), {}));
}

tracering_counter* tracering_counter_get_in(const char* name,
                                            const char* unit_name) {
  return reinterpret_cast<tracering_counter*>(
      tracering::internal::FindOrAddCounter(
          TextOrEmpty(name), tracering::CounterUnit::kUnspecified,
          TextOrEmpty(unit_name)));
}

void tracering_count_int(tracering_category* category,
                         tracering_counter* counter, int64_t value) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr) return;
  tracering::internal::WriteCounter(*site, CounterTrackOf(counter), value);
}

void tracering_count_double(tracering_category* category,
                            tracering_counter* counter, double value) {
  EventSite* const site = EnabledSite(category);
  if (site == nullptr) return;
  tracering::internal::WriteCounter(*site, CounterTrackOf(counter), value);
}

// --- Arguments ---

void tracering_arg_bool(tracering_packet* event, const char* name, bool value) {
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    encoder.AppendVarint(debug_annotation::kBoolValue, value ? 1 : 0);
  });
}

void tracering_arg_int(tracering_packet* event, const char* name,
                       int64_t value) {
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    encoder.AppendVarint(debug_annotation::kIntValue,
                         static_cast<uint64_t>(value));
  });
}

void tracering_arg_uint(tracering_packet* event, const char* name,
                        uint64_t value) {
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    encoder.AppendVarint(debug_annotation::kUintValue, value);
  });
}

void tracering_arg_double(tracering_packet* event, const char* name,
                          double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    encoder.AppendFixed64(debug_annotation::kDoubleValue, bits);
  });
}

void tracering_arg_string(tracering_packet* event, const char* name,
                          const char* value) {
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    const std::string_view text = tracering::internal::TextOf(value);
    encoder.AppendBytes(debug_annotation::kStringValue, text.data(),
                        text.size());
  });
}

void tracering_arg_pointer(tracering_packet* event, const char* name,
                           const void* value) {
  AppendArgument(event, name, [&](PacketEncoder& encoder) {
    encoder.AppendVarint(debug_annotation::kPointerValue,
                         reinterpret_cast<uintptr_t>(value));
  });
}

void tracering_arg_dict_begin(tracering_packet* event, const char* name) {
  tracering::internal::BeginContainer(event, name, false);
}

void tracering_arg_array_begin(tracering_packet* event, const char* name) {
  tracering::internal::BeginContainer(event, name, true);
}

void tracering_arg_flow(tracering_packet* event, uint64_t flow) {
  tracering::internal::AddFlow(event, tracering::track_event::kFlowIds, flow);
}

void tracering_arg_terminating_flow(tracering_packet* event, uint64_t flow) {
  tracering::internal::AddFlow(
      event, tracering::track_event::kTerminatingFlowIds, flow);
}

uint64_t tracering_local_flow(uint64_t id) {
  return tracering::internal::LocalFlowId(id);
}
