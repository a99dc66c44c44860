// Exact accounting over numbered packets: what was attempted equals what was
// delivered plus what was counted as lost, in order and without duplicates.
//
// A numbered packet is an event with the unsigned debug annotations `writer`
// and `index` (from 0, consecutive), as the demo's load mode writes them.
#ifndef TRACERING_TESTS_SUPPORT_ACCOUNTING_H_
#define TRACERING_TESTS_SUPPORT_ACCOUNTING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/trace.pb.h"

namespace tracering::test {

struct PacketNumber {
  uint64_t writer = 0;
  uint64_t index = 0;
};

// The number that `packet` bears, if it bears one.
std::optional<PacketNumber> NumberOf(const TracePacket& packet);

class Accounting {
 public:
  // Packets in the order of delivery; `source` tells processes apart and
  // `lost_before` is the loss mark. Out of order, a duplicate, a gap without a
  // mark: each is a complaint.
  void Add(uint64_t source, PacketNumber number, bool lost_before);
  // Adds the packets that bear a number, under their trusted pid.
  void Add(const std::vector<TracePacket>& packets);

  // Checks attempted == delivered + lost for one writer, and that no packet
  // has an index that was never attempted.
  void ExpectBalance(uint64_t source, uint64_t writer, uint64_t attempted,
                     uint64_t lost);
  // The same for the sum over all writers.
  void ExpectTotal(uint64_t attempted, uint64_t lost);

  uint64_t delivered() const { return delivered_; }
  uint64_t DeliveredOf(uint64_t source, uint64_t writer) const;
  // Indices skipped between delivered packets; the tail is not visible here.
  uint64_t missing() const { return missing_; }
  uint64_t marks() const { return marks_; }
  // Marks on packets whose predecessor was delivered. Legal where the same
  // sequence also loses packets without a number.
  uint64_t marks_without_gap() const { return marks_without_gap_; }

  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Writer {
    uint64_t next = 0;
    uint64_t delivered = 0;
  };

  std::map<std::pair<uint64_t, uint64_t>, Writer> writers_;
  uint64_t delivered_ = 0;
  uint64_t missing_ = 0;
  uint64_t marks_ = 0;
  uint64_t marks_without_gap_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_ACCOUNTING_H_
