// Where an assembler's packets go in a benchmark: all into one buffer, each
// writer a sequence of its own. One thread; the packets are the benchmark's
// own and are not judged.
#ifndef TRACERING_BENCHMARKS_STORING_SINK_H_
#define TRACERING_BENCHMARKS_STORING_SINK_H_

#include "src/consumer/packet_assembler.h"
#include "src/consumer/target_buffer.h"

namespace tracering::internal {

class StoringSink : public PacketSink {
 public:
  explicit StoringSink(TargetBuffer* buffer) : buffer_(buffer) {}
  bool Resolve(WriterId, BufferId, Route* route) override {
    *route = {0, next_++};
    return true;
  }
  void OnRun(const PacketRun& run) override { buffer_->Store(run); }
  uint8_t* PlaceFor(const PacketRun& run, const PacketRun* joined) override {
    return buffer_->PlaceFor(run, joined);
  }

 private:
  TargetBuffer* const buffer_;
  SequenceIndex next_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_BENCHMARKS_STORING_SINK_H_
