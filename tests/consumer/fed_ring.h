// A ring whose writers are the test: packets are forged into a memfd, one
// chunk at a time, for a Consumer in the same process to read.
//
// One thread publishes; the consumer may read meanwhile. Packets are numbered
// per writer, so that the accounting of tests/support can follow them.
#ifndef TRACERING_TESTS_CONSUMER_FED_RING_H_
#define TRACERING_TESTS_CONSUMER_FED_RING_H_

#include <cstdint>
#include <map>
#include <string>

#include "src/common/abi/control_header.h"
#include "tests/support/group_codec.h"
#include "tests/support/ring_image.h"
#include "tests/support/trace.pb.h"
#include "tracering/clock.h"
#include "tracering/consumer.h"

namespace tracering::test {

// Packet `index` of `writer`, with `padding` bytes of text, as it lies in a
// ring.
inline std::string NumberedPacket(uint64_t writer, uint64_t index,
                                  size_t padding = 0) {
  TracePacket packet;
  packet.set_timestamp(NowNs());
  TrackEvent* event = packet.mutable_track_event();
  event->set_type(TrackEvent::TYPE_INSTANT);
  const auto note = [event](const char* name, uint64_t value) {
    DebugAnnotation* annotation = event->add_debug_annotations();
    annotation->set_name(name);
    annotation->set_uint_value(value);
  };
  note("writer", writer);
  note("index", index);
  if (padding != 0) {
    DebugAnnotation* annotation = event->add_debug_annotations();
    annotation->set_name("padding");
    annotation->set_string_value(std::string(padding, 'x'));
  }
  return EncodeWithGroups(packet);
}

class FedRing {
 public:
  explicit FedRing(const RingImageOptions& options = {64, 4096, 0, true})
      : image_(RingImage::InMemfd(options)) {}

  RingImage& image() { return image_; }

  // One chunk with the next `count` packets of `writer` for `buffer`.
  void Publish(uint16_t writer = 1, uint32_t count = 1, uint16_t buffer = 1,
               uint32_t flags = 0) {
    ForgedChunk chunk;
    chunk.writer = writer;
    chunk.buffer = buffer;
    chunk.flags = flags;
    for (uint32_t i = 0; i < count; ++i) {
      chunk.fragments.push_back(NumberedPacket(writer, next_[writer]++));
    }
    image_.Publish(chunk);
  }
  // The writer gives up its next `count` packets for `cause`.
  void Lose(uint16_t writer, uint64_t count, LossCause cause) {
    const size_t offset =
        abi::kWriterLossOffset + static_cast<size_t>(cause) * sizeof(uint64_t);
    image_.SetWord64(offset, image_.Word64(offset) + count);
    next_[writer] += count;
  }
  bool Full() const {
    return image_.write_pos() - image_.read_pos() >=
           image_.geometry().num_chunks();
  }
  uint64_t attempted() const {
    uint64_t sum = 0;
    for (const auto& [writer, next] : next_) sum += next;
    return sum;
  }

  // BufferId 1 is "main", 2 is "other", 9 is metadata.
  AttachRingOptions AttachOptions() const {
    AttachRingOptions options;
    options.memfd = image_.fd();
    options.num_chunks = image_.geometry().num_chunks();
    options.chunk_size = image_.geometry().chunk_size();
    options.buffers = {{BufferId(1), "main"},
                       {BufferId(2), "other"},
                       {BufferId(9), "metadata"}};
    options.name = "fed";
    options.pid = 4242;
    options.uid = 1000;
    return options;
  }

 private:
  RingImage image_;
  std::map<uint16_t, uint64_t> next_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_CONSUMER_FED_RING_H_
