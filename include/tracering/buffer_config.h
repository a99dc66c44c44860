// What a target buffer of the consumer is, as its user configures it.
//
// Plain values: no threading rules; Consumer::Create checks them.
#ifndef TRACERING_BUFFER_CONFIG_H_
#define TRACERING_BUFFER_CONFIG_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "tracering/fill_policy.h"

namespace tracering {

struct BufferConfig {
  // What producers ask for: 1 to 255 bytes, unique, not kMetadataBufferName.
  std::string name;
  // Bytes, from kMinBufferSize to kMaxBufferSize. Address space is taken at
  // once, memory as the buffer fills for the first time.
  size_t size = 0;
  FillPolicy policy = FillPolicy::kRing;
};

inline constexpr size_t kMinBufferSize = 4096;
inline constexpr size_t kMaxBufferSize = size_t{1} << 40;
inline constexpr size_t kMaxBufferNameSize = 255;

// The built-in buffer that keeps process, thread and track descriptors; see
// ConsumerLimits::metadata_buffer_size.
inline constexpr std::string_view kMetadataBufferName = "metadata";

}  // namespace tracering

#endif  // TRACERING_BUFFER_CONFIG_H_
