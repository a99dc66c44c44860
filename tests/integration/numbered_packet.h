// Numbered packets through the producer library, as the demo's load mode and
// tests/support/accounting.h know them. Public headers only.
//
// Thread rules are those of the writer. Timestamps are real ones, so that
// files pass the checker.
#ifndef TRACERING_TESTS_INTEGRATION_NUMBERED_PACKET_H_
#define TRACERING_TESTS_INTEGRATION_NUMBERED_PACKET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tracering/clock.h"
#include "tracering/packet.h"
#include "tracering/trace_fields.h"
#include "tracering/trace_writer.h"

namespace tracering::test {

// Appends what makes an open packet number `index` of `number`.
inline void AppendNumber(Packet& packet, uint64_t number, uint64_t index,
                         std::string_view text = {}) {
  packet.AppendVarint(trace_packet::kTimestamp, NowNs());
  Message event = packet.BeginMessage(trace_packet::kTrackEvent);
  event.AppendVarint(track_event::kType, track_event::kTypeInstant);
  const auto note = [&event](std::string_view name, uint64_t value) {
    Message annotation = event.BeginMessage(track_event::kDebugAnnotations);
    annotation.AppendString(debug_annotation::kName, name);
    annotation.AppendVarint(debug_annotation::kUintValue, value);
  };
  note("writer", number);
  note("index", index);
  if (!text.empty()) {
    Message annotation = event.BeginMessage(track_event::kDebugAnnotations);
    annotation.AppendString(debug_annotation::kName, "text");
    annotation.AppendString(debug_annotation::kStringValue, text);
  }
}

inline void WriteNumbered(TraceWriter& writer, uint64_t number, uint64_t index,
                          std::string_view text = {}) {
  Packet packet = writer.NewPacket();
  AppendNumber(packet, number, index, text);
}

}  // namespace tracering::test

#endif  // TRACERING_TESTS_INTEGRATION_NUMBERED_PACKET_H_
