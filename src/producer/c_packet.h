// The packet that C code has open, between one call and the next: what a C++
// program has in a Packet on its stack.
//
// Kept in its writer, which has one at most, so that C needs no memory for it,
// and a stale pointer finds a closed packet. Belongs to the writer's thread.
#ifndef TRACERING_SRC_PRODUCER_C_PACKET_H_
#define TRACERING_SRC_PRODUCER_C_PACKET_H_

#include <cstdint>

#include "tracering/c/packet.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/trace_writer.h"

struct tracering_packet {
  // Of a fresh packet, of which so many messages belong to who opens it.
  void Open(tracering::TraceWriter* of, uint8_t* from, uint8_t* to,
            uint32_t messages) {
    writer = of;
    cur = from;
    end = to;
    depth = base = messages;
  }
  // What writes to the packet, and where it goes on after that.
  tracering::internal::PacketEncoder encoder() const {
    return tracering::internal::PacketEncoder(writer, cur, end, depth);
  }
  void GoOnBehind(const tracering::internal::PacketEncoder& encoder) {
    cur = encoder.cur();
    end = encoder.end();
  }

  tracering::TraceWriter* writer = nullptr;
  // Where it goes on; cur is null while it is closed.
  uint8_t* cur = nullptr;
  uint8_t* end = nullptr;
  // How many messages are open, and how many of them belong to whoever opened
  // the packet: an event is one, and 0 means that it is none.
  uint32_t depth = 0;
  uint32_t base = 0;
  // Of the messages within an event: bit i is set if number i holds the items
  // of an array, and not the entries of a dictionary.
  uint64_t arrays = 0;
};

namespace tracering::internal {

inline bool IsOpen(const tracering_packet* packet) {
  return packet != nullptr && packet->cur != nullptr;
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_C_PACKET_H_
