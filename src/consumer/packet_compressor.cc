// The only place that knows of zlib; see packet_compressor.h.
#include "src/consumer/packet_compressor.h"

#ifdef TRACERING_WITH_ZLIB
#include <zlib.h>

#include <cstring>

#include "src/consumer/trace_packets.h"
#include "tracering/internal/wire_format.h"
#endif

namespace tracering::internal {

#ifdef TRACERING_WITH_ZLIB
namespace {

constexpr uint32_t kCompressedPackets = 50;

// A fifth of the size at 50 MB/s on the demo's trace; level 6 takes half as
// long again for a tenth less.
constexpr int kLevel = 3;

// The tags of the packet and of its field, a length behind each.
constexpr size_t kMaxHeaderSize = 1 + 2 + 2 * kMaxVarintSize;

}  // namespace

bool CanCompressPackets() { return true; }

bool CompressPackets(const uint8_t* packets, size_t size, ByteBuffer* out) {
  uLongf deflated = compressBound(static_cast<uLong>(size));
  uint8_t* const begin = out->EnsureRoom(kMaxHeaderSize + deflated);
  uint8_t* const body = begin + kMaxHeaderSize;
  if (compress2(body, &deflated, packets, static_cast<uLong>(size), kLevel) !=
      Z_OK) {
    return false;
  }
  constexpr uint32_t kTag =
      MakeTag(kCompressedPackets, WireType::kLengthDelimited);
  *begin = kTracePacketTag;
  uint8_t* end = WriteVarint(
      begin + 1, VarintSize(kTag) + VarintSize(deflated) + deflated);
  end = WriteVarint(WriteVarint(end, kTag), deflated);
  const size_t framed = static_cast<size_t>(end - begin) + deflated;
  if (framed >= size) return false;
  std::memmove(end, body, deflated);
  out->SetSize(out->size() + framed);
  return true;
}
#else
bool CanCompressPackets() { return false; }

bool CompressPackets(const uint8_t*, size_t, ByteBuffer*) { return false; }
#endif

}  // namespace tracering::internal
