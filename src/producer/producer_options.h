// Options of a producer, checked and completed.
//
// Errors name the value and the rule that it breaks. No state, no I/O but the
// environment and the program's name.
#ifndef TRACERING_SRC_PRODUCER_PRODUCER_OPTIONS_H_
#define TRACERING_SRC_PRODUCER_PRODUCER_OPTIONS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/abi/geometry.h"
#include "tracering/producer.h"

namespace tracering::internal {

// With the built-in one.
inline constexpr size_t kMaxBuffers = 1024;

// Fills in the defaults and checks everything but the sizes of rings.
absl::Status CompleteOptions(ProducerOptions* options);

// The geometry of a ring; `what` goes behind "ring_size" in the error.
// `chunk_size` has been checked.
absl::StatusOr<abi::Geometry> CheckRingSize(const std::string& what,
                                            size_t ring_size,
                                            size_t chunk_size);

bool IsBufferName(std::string_view name);
absl::Status CheckBufferName(std::string_view name);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PRODUCER_OPTIONS_H_
