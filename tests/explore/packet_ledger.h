// The packets of one execution: what was written, and whether what comes out is
// that, in order, once, and with every gap told.
//
// Each packet is numbered by its writer, and its bytes follow from the number.
#ifndef TRACERING_TESTS_EXPLORE_PACKET_LEDGER_H_
#define TRACERING_TESTS_EXPLORE_PACKET_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/consumer/packet_assembler.h"
#include "tracering/packet.h"
#include "tracering/trace_writer.h"

namespace tracering::test {

class PacketLedger : public internal::PacketSink {
 public:
  static constexpr BufferId kBuffer{7};

  explicit PacketLedger(int num_writers)
      : writers_(static_cast<size_t>(num_writers)) {}

  void Begin();

  // Writes the writer's next packet, `size` bytes and a little more.
  void Write(TraceWriter& writer, size_t size);
  // What it has written so far is published, or lost.
  void Settle(TraceWriter& writer);

  uint64_t written(uint16_t writer) const {
    return writers_[writer - 1].written;
  }
  uint64_t settled(uint16_t writer) const {
    return writers_[writer - 1].settled;
  }
  // Who wrote a packet of these bytes; 0 if nobody did.
  uint16_t WriterOf(const uint8_t* data, size_t size) const;

  // Including empty ones.
  uint64_t delivered(uint16_t writer) const {
    return writers_[writer - 1].delivered;
  }
  uint64_t delivered() const;

  // --- PacketSink ---
  bool Resolve(WriterId writer, BufferId buffer,
               internal::Route* route) override;
  void OnRun(const internal::PacketRun& run) override;

 private:
  struct Writer {
    std::vector<std::string> packets;  // of all executions, by number
    uint64_t written = 0;
    uint64_t settled = 0;
    uint64_t next = 0;  // to be delivered
    uint64_t delivered = 0;
    std::vector<bool> seen;  // by number
  };

  void Take(uint16_t id, const uint8_t* data, size_t size, LossMask loss);

  std::vector<Writer> writers_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_PACKET_LEDGER_H_
