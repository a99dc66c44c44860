// What is behind the handles of the C API, and how statuses, texts and structs
// of a size come out of it.
//
// Everything that may need memory runs in Contain: an exception would end the C
// program. No state of its own.
#ifndef TRACERING_SRC_PRODUCER_C_HANDLES_H_
#define TRACERING_SRC_PRODUCER_C_HANDLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "src/producer/containment.h"
#include "tracering/c/producer.h"
#include "tracering/c/status.h"
#include "tracering/counter_unit.h"
#include "tracering/producer.h"
#include "tracering/trace_writer.h"
#include "tracering/tracing.h"

struct tracering_options {
  tracering::TracingOptions tracing;
  // What setters found that checks of the above cannot: the first of it.
  std::string problem;
  bool out_of_memory = false;
};

struct tracering_producer {
  std::shared_ptr<tracering::Producer> producer;
};

struct tracering_own_writer {
  tracering::OwnedTraceWriter writer;
};

namespace tracering::internal {

inline constexpr std::string_view kOutOfMemory = "out of memory";

inline const char* TextOrEmpty(const char* text) {
  return text != nullptr ? text : "";
}

// Cut to fit, with a NUL behind it.
inline void CopyText(std::string_view text, char* out, size_t size) {
  if (out == nullptr || size == 0) return;
  const size_t copied = std::min(text.size(), size - 1);
  if (copied != 0) std::memcpy(out, text.data(), copied);
  out[copied] = '\0';
}

// What `body`, which returns an absl::Status, says.
template <typename Body>
tracering_status Report(char* error, size_t error_size, const Body& body) {
  return Contain(
      [&]() -> tracering_status {
        const absl::Status status = body();
        const std::string_view text(status.message().data(),
                                    status.message().size());
        // One that was made without memory has no text.
        CopyText(status.ok() || !text.empty() ? text : kOutOfMemory, error,
                 error_size);
        return static_cast<tracering_status>(status.raw_code());
      },
      [&]() -> tracering_status {
        CopyText(kOutOfMemory, error, error_size);
        return TRACERING_RESOURCE_EXHAUSTED;
      });
}

// Calls `set` with the options, unless there are none.
template <typename Set>
void SetOption(tracering_options* options, const Set& set) {
  if (options == nullptr) return;
  Contain([&] { set(options); }, [&] { options->out_of_memory = true; });
}

// What no later check of the options would find.
absl::Status CheckSetters(const tracering_options* options);

// Nothing for a policy that is none.
std::optional<WriterOptions> MakeWriterOptions(int32_t policy,
                                               int64_t stall_timeout_ns);

// Unspecified for one that is none.
inline CounterUnit UnitOf(int32_t unit) {
  return unit >= TRACERING_UNIT_TIME_NS && unit <= TRACERING_UNIT_SIZE_BYTES
             ? static_cast<CounterUnit>(unit)
             : CounterUnit::kUnspecified;
}

// Whether there is a place for anything of it. `out` may be null.
template <typename Stats>
bool HasRoomForStats(const Stats* out) {
  return out != nullptr && out->size > sizeof(out->size);
}

// `full`, as far as the caller knows of it, and zeroes for what only the caller
// knows.
template <typename Stats>
void CopyStats(const Stats& full, Stats* out) {
  const size_t size = out->size;
  auto* const bytes = reinterpret_cast<char*>(out);
  const size_t known = std::min(size, sizeof(full));
  std::memcpy(bytes, &full, known);
  std::memset(bytes + known, 0, size - known);
  out->size = size;
}

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_C_HANDLES_H_
