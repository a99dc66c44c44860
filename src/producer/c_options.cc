// Options from C; see c_handles.h and tracering/c/producer.h. Values that C++
// checks go there as they are; only what it cannot express is complained of
// here, for whoever uses the options.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/producer/c_handles.h"
#include "src/producer/category_patterns.h"
#include "tracering/c/producer.h"
#include "tracering/c/track_event.h"
#include "tracering/producer.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

absl::Status CheckSetters(const tracering_options* options) {
  if (options == nullptr) {
    return absl::InvalidArgumentError(
        "options is null; tracering_options_create makes them");
  }
  if (options->out_of_memory) {
    return absl::ResourceExhaustedError("no memory for an option");
  }
  if (!options->problem.empty()) {
    return absl::InvalidArgumentError(options->problem);
  }
  return absl::OkStatus();
}

std::optional<WriterOptions> MakeWriterOptions(int32_t policy,
                                               int64_t stall_timeout_ns) {
  WriterOptions options;
  options.stall_timeout = std::chrono::nanoseconds(stall_timeout_ns);
  switch (policy) {
    case TRACERING_POLICY_DROP:
      options.policy = BufferExhaustedPolicy::kDrop;
      return options;
    case TRACERING_POLICY_STALL:
      options.policy = BufferExhaustedPolicy::kStall;
      return options;
    default:
      return std::nullopt;
  }
}

namespace {

void Complain(tracering_options* options, std::string problem) {
  if (options->problem.empty()) options->problem = std::move(problem);
}

// As above, with a complaint about what is none.
std::optional<WriterOptions> SetPolicy(tracering_options* options,
                                       int32_t policy,
                                       int64_t stall_timeout_ns) {
  std::optional<WriterOptions> made =
      MakeWriterOptions(policy, stall_timeout_ns);
  if (!made.has_value()) {
    Complain(options,
             fmt::format("policy is {}; it must be TRACERING_POLICY_DROP (0) "
                         "or TRACERING_POLICY_STALL (1)",
                         policy));
  }
  return made;
}

void AddBuffer(tracering_options* options, const char* name, bool own_ring,
               size_t ring_size) {
  SetOption(options, [&](tracering_options* to) {
    BufferOptions buffer;
    buffer.name = TextOrEmpty(name);
    buffer.own_ring = own_ring;
    buffer.ring_size = ring_size;
    to->tracing.producer.buffers.push_back(std::move(buffer));
  });
}

}  // namespace
}  // namespace tracering::internal

using tracering::BufferOptions;
using tracering::internal::AddBuffer;
using tracering::internal::Complain;
using tracering::internal::Contain;
using tracering::internal::SetOption;
using tracering::internal::SetPolicy;
using tracering::internal::TextOrEmpty;

tracering_options* tracering_options_create(void) {
  return Contain([] { return new tracering_options; },
                 []() -> tracering_options* { return nullptr; });
}

void tracering_options_destroy(tracering_options* options) { delete options; }

void tracering_options_set_name(tracering_options* options, const char* name) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.name = TextOrEmpty(name);
  });
}

void tracering_options_set_socket_path(tracering_options* options,
                                       const char* path) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.socket_path = TextOrEmpty(path);
  });
}

void tracering_options_set_ring_size(tracering_options* options, size_t bytes) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.ring_size = bytes;
  });
}

void tracering_options_set_chunk_size(tracering_options* options,
                                      size_t bytes) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.chunk_size = bytes;
  });
}

void tracering_options_set_ring_file(tracering_options* options,
                                     const char* path) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.ring_file = TextOrEmpty(path);
  });
}

void tracering_options_set_startup(tracering_options* options,
                                   int32_t startup) {
  SetOption(options, [&](tracering_options* to) {
    switch (startup) {
      case TRACERING_STARTUP_BUFFER:
        to->tracing.producer.startup = tracering::StartupMode::kBuffer;
        return;
      case TRACERING_STARTUP_OFF:
        to->tracing.producer.startup = tracering::StartupMode::kOff;
        return;
      default:
        Complain(to, fmt::format("startup is {}; it must be "
                                 "TRACERING_STARTUP_BUFFER (0) or "
                                 "TRACERING_STARTUP_OFF (1)",
                                 startup));
    }
  });
}

void tracering_options_set_policy(tracering_options* options, int32_t policy,
                                  int64_t stall_timeout_ns) {
  SetOption(options, [&](tracering_options* to) {
    if (const auto made = SetPolicy(to, policy, stall_timeout_ns)) {
      to->tracing.producer.writer_options = *made;
    }
  });
}

void tracering_options_add_buffer(tracering_options* options,
                                  const char* name) {
  AddBuffer(options, name, false, 0);
}

void tracering_options_add_buffer_with_ring(tracering_options* options,
                                            const char* name,
                                            size_t ring_size) {
  AddBuffer(options, name, true, ring_size);
}

void tracering_options_set_buffer_policy(tracering_options* options,
                                         const char* name, int32_t policy,
                                         int64_t stall_timeout_ns) {
  SetOption(options, [&](tracering_options* to) {
    const std::string_view wanted = TextOrEmpty(name);
    std::vector<BufferOptions>& buffers = to->tracing.producer.buffers;
    const auto found = std::find_if(
        buffers.begin(), buffers.end(),
        [&](const BufferOptions& buffer) { return buffer.name == wanted; });
    if (found == buffers.end()) {
      Complain(to,
               fmt::format("policy for buffer '{}', which has not been added",
                           wanted));
      return;
    }
    found->writer_options = SetPolicy(to, policy, stall_timeout_ns);
  });
}

void tracering_options_allow_service_uid(tracering_options* options,
                                         uint32_t uid) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.allowed_service_uids.push_back(uid);
  });
}

void tracering_options_set_own_thread(tracering_options* options,
                                      bool own_thread) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.producer.own_thread = own_thread;
  });
}

void tracering_options_on_session_start(tracering_options* options,
                                        void (*callback)(void* user),
                                        void* user) {
  SetOption(options, [&](tracering_options* to) {
    if (callback == nullptr) {
      to->tracing.producer.on_session_start = nullptr;
    } else {
      to->tracing.producer.on_session_start = [callback, user] {
        callback(user);
      };
    }
  });
}

// --- For track events ---

void tracering_options_set_event_buffer(tracering_options* options,
                                        const char* name) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.buffer = TextOrEmpty(name);
  });
}

void tracering_options_set_categories(tracering_options* options,
                                      const char* patterns) {
  SetOption(options, [&](tracering_options* to) {
    to->tracing.categories =
        tracering::internal::SplitPatterns(TextOrEmpty(patterns));
  });
}

void tracering_options_set_clock(tracering_options* options, int32_t clock) {
  SetOption(options, [&](tracering_options* to) {
    switch (clock) {
      case TRACERING_CLOCK_BOOTTIME:
        to->tracing.clock = tracering::TraceClock::kBoottime;
        return;
      case TRACERING_CLOCK_TSC:
        to->tracing.clock = tracering::TraceClock::kTsc;
        return;
      default:
        Complain(to, fmt::format("clock is {}; it must be "
                                 "TRACERING_CLOCK_BOOTTIME (0) or "
                                 "TRACERING_CLOCK_TSC (1)",
                                 clock));
    }
  });
}
