// Turns one group-encoded packet into canonical protobuf.
//
// In the ring a nested message opens with a start-group tag and closes with the
// single byte 0x04. Here it becomes length-delimited, with a length varint of
// minimal size; tags, values and lengths that came as longer varints than
// needed are shortened as well. Strings, bytes and fixed-size values are copied
// as they are, and what a length-delimited field holds is never looked at.
//
// The input was written by another process and may be anything. Iterative; time
// and memory are linear in the input; nothing is written on rejection. One
// rewriter serves one thread at a time and keeps its scratch between packets.
#ifndef TRACERING_SRC_CONSUMER_REWRITER_H_
#define TRACERING_SRC_CONSUMER_REWRITER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/consumer/byte_buffer.h"

namespace tracering::internal {

enum class RewriteOutcome : uint8_t {
  kOk,
  kTruncated,         // ends inside a tag, a value or a length
  kLengthPastEnd,     // a length reaches past the end of the packet
  kVarintTooLong,     // a varint of more than 10 bytes
  kVarintOverflow,    // a varint of more than 64 bits
  kBadFieldNumber,    // 0, or above 2^29 - 1
  kBadWireType,       // 6 or 7, or an end-group tag other than the byte 0x04
  kCloseAtRoot,       // a closing byte with no message open
  kUnclosedMessage,   // the packet ends inside a message
  kTooDeep,           // more nested messages than the limit
  kServiceOnlyField,  // a top-level field that only the service may write
  kTooLarge,          // the output would exceed its limit
};
inline constexpr size_t kNumRewriteOutcomes = 12;

// Short lower-case text, such as "length past the end".
std::string_view RewriteOutcomeName(RewriteOutcome outcome);

struct RewriterOptions {
  uint32_t max_depth = 1024;
  // Of one packet's output, in bytes; below 2^31.
  uint32_t max_output = uint32_t{64} << 20;
};

class Rewriter {
 public:
  explicit Rewriter(const RewriterOptions& options = {});

  // Appends the canonical form of packet[0, size) to `out`. On anything but kOk
  // the size of `out` is what it was.
  [[nodiscard]] RewriteOutcome Rewrite(const uint8_t* packet, size_t size,
                                       ByteBuffer* out);

 private:
  class Pass;
  // A nested message whose length needs more than one byte, or that is open.
  struct Nested {
    uint32_t length_at;  // where its one-byte length stands in the output
    uint32_t growth;     // open: bytes that the messages in it will grow by
    uint32_t parent;     // open: index of the message around it
    uint32_t length;     // closed: of its final form
  };

  void Expand(uint8_t* begin, size_t compact_size, size_t growth,
              uint32_t num_large) const;

  const RewriterOptions options_;
  std::vector<Nested> nested_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_REWRITER_H_
