// A program that traces a slice of its work; also the producer of the README.
#include <chrono>

#include "tracering/clock.h"
#include "tracering/producer.h"
#include "tracering/trace_fields.h"

int main() {
  namespace tr = tracering;
  tr::ProducerOptions options;
  options.name = "my_app";
  auto producer = tr::Producer::Create(options);  // needs no service
  if (!producer.ok()) return 1;
  tr::TraceWriter& writer = (*producer)->ThreadWriter("main");
  const uint64_t track = (*producer)->ThreadTrack();

  for (uint64_t type :
       {tr::track_event::kTypeSliceBegin, tr::track_event::kTypeSliceEnd}) {
    tr::Packet packet = writer.NewPacket();
    packet.AppendVarint(tr::trace_packet::kTimestamp, tr::NowNs());
    tr::Message event = packet.BeginMessage(tr::trace_packet::kTrackEvent);
    event.AppendVarint(tr::track_event::kType, type);
    event.AppendVarint(tr::track_event::kTrackUuid, track);
    event.AppendString(tr::track_event::kName, "work");
  }  // the packet is published here

  (*producer)->WaitForConsumer(std::chrono::seconds(10));
  return (*producer)->Flush(std::chrono::seconds(1)).ok() ? 0 : 1;
}
