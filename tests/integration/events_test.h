// Track events in the file that the service saves, as a real protobuf parser
// and importers see them, in the order of time. Whoever traced them, in
// whatever language.
#ifndef TRACERING_TESTS_INTEGRATION_EVENTS_TEST_H_
#define TRACERING_TESTS_INTEGRATION_EVENTS_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/service_test.h"
#include "tests/support/trace_file_checker.h"

namespace tracering::test {

class EventsTest : public ServiceTest {
 protected:
  EventsTest() {
    options_.enabled_categories = {"*", "-off"};
    strict_.forbid_loss = true;
    strict_.forbid_open_slices = true;
    strict_.require_pid = true;
    strict_.require_order = true;
  }

  // Saves and checks the file, and takes the events and tracks from it.
  void SaveEvents() {
    ASSERT_TRUE(consumer_->WriteTrace(trace_path()).ok());
    const TraceFile file = ReadTraceFile(trace_path());
    EXPECT_THAT(file.complaints, ::testing::IsEmpty());
    EXPECT_THAT(CheckTrace(file, strict_), ::testing::IsEmpty());
    for (const TracePacket& packet : file.packets) {
      if (packet.has_track_event()) events_.push_back(packet);
      if (packet.has_track_descriptor()) {
        const TrackDescriptor& track = packet.track_descriptor();
        tracks_[track.uuid()] = track;
      }
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const TracePacket& a, const TracePacket& b) {
                       return a.timestamp() < b.timestamp();
                     });
  }

  const TrackEvent& Event(const std::string& name) const {
    static const TrackEvent none;
    for (const TracePacket& packet : events_) {
      if (packet.track_event().name() == name) return packet.track_event();
    }
    ADD_FAILURE() << "no event '" << name << "'";
    return none;
  }
  const TrackDescriptor& TrackOf(const TrackEvent& event) const {
    return tracks_.at(event.track_uuid());
  }
  // "B name", "E" and "I name" of all events on the track.
  std::vector<std::string> Shape(uint64_t track) const {
    std::vector<std::string> shape;
    for (const TracePacket& packet : events_) {
      const TrackEvent& event = packet.track_event();
      if (event.track_uuid() != track) continue;
      switch (event.type()) {
        case TrackEvent::TYPE_SLICE_BEGIN:
          shape.push_back("B " + event.name());
          break;
        case TrackEvent::TYPE_SLICE_END:
          shape.push_back("E");
          break;
        default:
          shape.push_back("I " + event.name());
      }
    }
    return shape;
  }

  TraceCheckOptions strict_;
  std::vector<TracePacket> events_;  // in the order of time
  std::map<uint64_t, TrackDescriptor> tracks_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_INTEGRATION_EVENTS_TEST_H_
