// Many whole packets of a trace file as one packet that importers unpack again:
// its field compressed_packets holds what would have stood in the file,
// deflated.
//
// Knows nothing of what packets say. No I/O, no state; thread-safe.
#ifndef TRACERING_SRC_CONSUMER_PACKET_COMPRESSOR_H_
#define TRACERING_SRC_CONSUMER_PACKET_COMPRESSOR_H_

#include <cstddef>
#include <cstdint>

#include "src/consumer/byte_buffer.h"

namespace tracering::internal {

// Whether this library was built with zlib.
bool CanCompressPackets();

// Appends the framed packet that stands for `size` bytes of framed packets.
// False, with nothing appended, where that would not be shorter, where there is
// no memory to work with, and without zlib: they go into a file as they are.
[[nodiscard]] bool CompressPackets(const uint8_t* packets, size_t size,
                                   ByteBuffer* out);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_PACKET_COMPRESSOR_H_
