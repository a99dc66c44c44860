// Numbered packets; see packet_ledger.h.
#include "tests/explore/packet_ledger.h"

#include <cstring>
#include <string_view>

#include "tests/explore/explorer.h"

namespace tracering::test {
namespace {

constexpr size_t kNumberAt = 1;  // behind the tag of a fixed64 field 1

// A packet as it will be encoded: the number, and in field 2 bytes that differ
// everywhere, and from those of other writers.
std::string EncodedPacket(uint16_t writer, uint64_t number, size_t size) {
  std::string packet = "\x09";
  packet.append(reinterpret_cast<const char*>(&number), sizeof(number));
  packet += '\x12';
  size_t length = size;
  for (; length >= 0x80; length >>= 7) {
    packet += static_cast<char>(length | 0x80);
  }
  packet += static_cast<char>(length);
  for (size_t i = 0; i < size; ++i) {
    packet += static_cast<char>(writer * 101 + number * 37 + i * 11 + (i >> 8));
  }
  return packet;
}

}  // namespace

void PacketLedger::Begin() {
  for (Writer& writer : writers_) {
    writer.written = writer.settled = 0;
    writer.next = writer.delivered = 0;
    writer.seen.assign(writer.packets.size(), false);
  }
}

void PacketLedger::Write(TraceWriter& trace_writer, size_t size) {
  const uint16_t id = trace_writer.id().value();
  Writer& writer = writers_[id - 1];
  const uint64_t number = writer.written++;
  if (number == writer.packets.size()) {
    writer.packets.push_back(EncodedPacket(id, number, size));
    writer.seen.push_back(false);
  }
  const std::string& bytes = writer.packets[number];
  Packet packet = trace_writer.NewPacket();
  packet.AppendFixed64(1, number);
  packet.AppendString(2, std::string_view(bytes).substr(bytes.size() - size));
}

void PacketLedger::Settle(TraceWriter& trace_writer) {
  Writer& writer = writers_[trace_writer.id().value() - 1];
  writer.settled = writer.written;
}

uint16_t PacketLedger::WriterOf(const uint8_t* data, size_t size) const {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (size_t i = 0; i < writers_.size(); ++i) {
    for (const std::string& packet : writers_[i].packets) {
      if (packet == bytes) return static_cast<uint16_t>(i + 1);
    }
  }
  return 0;
}

uint64_t PacketLedger::delivered() const {
  uint64_t sum = 0;
  for (const Writer& writer : writers_) sum += writer.delivered;
  return sum;
}

bool PacketLedger::Resolve(WriterId writer, BufferId buffer,
                           internal::Route* route) {
  route->sequence = writer.value();
  if (buffer != kBuffer) {
    Explorer::Fail(Invariant::kIntact, "a chunk is for another buffer");
  }
  return true;
}

void PacketLedger::OnRun(const internal::PacketRun& run) {
  const uint8_t* data = run.payload;
  for (uint32_t i = 0; i < run.num_packets; ++i) {
    Take(run.writer.value(), data, run.SizeOf(i), i == 0 ? run.loss : 0);
    data += run.SizeOf(i);
  }
}

void PacketLedger::Take(uint16_t id, const uint8_t* data, size_t size,
                        LossMask loss) {
  const auto fail = [id](Invariant invariant, const std::string& what) {
    Explorer::Fail(invariant,
                   "a packet of writer " + std::to_string(id) + " " + what);
  };
  if (id == 0 || id > writers_.size()) {
    return fail(Invariant::kIntact, "that does not exist");
  }
  Writer& writer = writers_[id - 1];
  ++writer.delivered;
  if (size == 0) return;  // of a writer that had to publish something
  uint64_t number = UINT64_MAX;
  if (size >= kNumberAt + sizeof(number)) {
    std::memcpy(&number, data + kNumberAt, sizeof(number));
  }
  if (number >= writer.written || writer.packets[number].size() != size ||
      std::memcmp(writer.packets[number].data(), data, size) != 0) {
    return fail(Invariant::kIntact, "is not what was written");
  }
  if (writer.seen[number]) return fail(Invariant::kNoDuplicate, "came twice");
  writer.seen[number] = true;
  if (number < writer.next) return fail(Invariant::kFifo, "came too late");
  if (number > writer.next && loss == 0) {
    return fail(Invariant::kAccounting, "comes after a gap without a mark");
  }
  writer.next = number + 1;
}

}  // namespace tracering::test
