// Complaints are kept rather than asserted, so that the class has tests of its
// own and a failing test shows all of them.
#include "tests/support/accounting.h"

#include <fmt/format.h>

namespace tracering::test {

std::optional<PacketNumber> NumberOf(const TracePacket& packet) {
  PacketNumber number;
  bool has_writer = false;
  bool has_index = false;
  for (const DebugAnnotation& note : packet.track_event().debug_annotations()) {
    if (!note.has_uint_value()) continue;
    if (note.name() == "writer") {
      number.writer = note.uint_value();
      has_writer = true;
    } else if (note.name() == "index") {
      number.index = note.uint_value();
      has_index = true;
    }
  }
  if (!has_writer || !has_index) return std::nullopt;
  return number;
}

void Accounting::Add(uint64_t source, PacketNumber number, bool lost_before) {
  Writer& writer = writers_[{source, number.writer}];
  const std::string where = fmt::format("source {}, writer {}, index {}",
                                        source, number.writer, number.index);
  ++delivered_;
  ++writer.delivered;
  if (lost_before) ++marks_;
  if (number.index < writer.next) {
    complaints_.push_back(fmt::format(
        "{}: {} was expected next; out of order or twice", where, writer.next));
    return;
  }
  const uint64_t gap = number.index - writer.next;
  missing_ += gap;
  if (gap != 0 && !lost_before) {
    complaints_.push_back(
        fmt::format("{}: {} packets are missing without a mark", where, gap));
  }
  if (gap == 0 && lost_before) ++marks_without_gap_;
  writer.next = number.index + 1;
}

void Accounting::Add(const std::vector<TracePacket>& packets) {
  for (const TracePacket& packet : packets) {
    const std::optional<PacketNumber> number = NumberOf(packet);
    if (!number.has_value()) continue;
    Add(static_cast<uint64_t>(packet.trusted_pid()), *number,
        packet.has_previous_packet_dropped());
  }
}

void Accounting::ExpectBalance(uint64_t source, uint64_t writer,
                               uint64_t attempted, uint64_t lost) {
  const auto found = writers_.find({source, writer});
  const Writer state = found == writers_.end() ? Writer() : found->second;
  const std::string who = fmt::format("source {}, writer {}", source, writer);
  if (state.next > attempted) {
    complaints_.push_back(
        fmt::format("{}: index {} was never attempted", who, state.next - 1));
  }
  if (state.delivered + lost != attempted) {
    complaints_.push_back(
        fmt::format("{}: {} attempted, but {} delivered and {} lost", who,
                    attempted, state.delivered, lost));
  }
}

void Accounting::ExpectTotal(uint64_t attempted, uint64_t lost) {
  if (delivered_ + lost == attempted) return;
  complaints_.push_back(
      fmt::format("{} attempted, but {} delivered and {} "
                  "lost",
                  attempted, delivered_, lost));
}

uint64_t Accounting::DeliveredOf(uint64_t source, uint64_t writer) const {
  const auto found = writers_.find({source, writer});
  return found == writers_.end() ? 0 : found->second.delivered;
}

}  // namespace tracering::test
