// Producers, writers, tracks and statistics from C; see c_handles.h and
// tracering/c/producer.h. Everything is handed to the C++ classes, which check
// what it says.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/producer/c_handles.h"
#include "tracering/c/producer.h"
#include "tracering/counter_unit.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {
namespace {

// What `use` returns for the producer, or `otherwise` without one, and without
// memory.
template <typename Use, typename Result>
Result With(const tracering_producer* handle, Result otherwise,
            const Use& use) {
  if (handle == nullptr) return otherwise;
  return Contain([&]() -> Result { return use(*handle->producer); },
                 [&]() -> Result { return otherwise; });
}

template <typename Use>
tracering_status ReportWith(tracering_producer* handle, char* error,
                            size_t error_size, const Use& use) {
  return Report(error, error_size, [&]() -> absl::Status {
    if (handle == nullptr) {
      return absl::InvalidArgumentError("producer is null");
    }
    return use(*handle->producer);
  });
}

tracering_writer* ToC(TraceWriter* writer) {
  return reinterpret_cast<tracering_writer*>(writer);
}

tracering_ring_stats ToC(const Producer::RingStats& ring) {
  tracering_ring_stats out{};
  CopyText(ring.name, out.name, sizeof(out.name));
  out.num_chunks = ring.num_chunks;
  out.chunk_size = ring.chunk_size;
  out.outstanding_chunks = ring.outstanding_chunks;
  out.writers = ring.writers;
  out.poisoned = ring.poisoned ? 1 : 0;
  out.metadata = ring.metadata ? 1 : 0;
  out.attempted = ring.attempted;
  out.lost = ring.lost();
  std::copy(ring.lost_by_cause.begin(), ring.lost_by_cause.end(),
            out.lost_by_cause);
  out.lost_by_reader = ring.lost_by_reader;
  out.lost_unfinished = ring.lost_unfinished;
  out.discarded = ring.discarded;
  out.surplus_writers = ring.surplus_writers;
  return out;
}

}  // namespace
}  // namespace tracering::internal

using std::chrono::nanoseconds;
using tracering::Producer;
using tracering::WriterOptions;
using tracering::internal::CopyStats;
using tracering::internal::CopyText;
using tracering::internal::HasRoomForStats;
using tracering::internal::TextOrEmpty;
using tracering::internal::ToC;
using tracering::internal::With;

const char* tracering_status_name(tracering_status status) {
  switch (status) {
    case TRACERING_OK:
      return "OK";
    case TRACERING_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case TRACERING_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case TRACERING_NOT_FOUND:
      return "NOT_FOUND";
    case TRACERING_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case TRACERING_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case TRACERING_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case TRACERING_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case TRACERING_INTERNAL:
      return "INTERNAL";
    case TRACERING_UNAVAILABLE:
      return "UNAVAILABLE";
    default:
      return "UNKNOWN";
  }
}

// --- Producers ---

tracering_status tracering_producer_create(const tracering_options* options,
                                           tracering_producer** producer,
                                           char* error, size_t error_size) {
  if (producer != nullptr) *producer = nullptr;
  return tracering::internal::Report(error, error_size, [&]() -> absl::Status {
    if (producer == nullptr) {
      return absl::InvalidArgumentError(
          "producer is null; it must be the place for a handle");
    }
    if (absl::Status status = tracering::internal::CheckSetters(options);
        !status.ok()) {
      return status;
    }
    auto handle = std::make_unique<tracering_producer>();
    absl::StatusOr<std::unique_ptr<Producer>> made =
        Producer::Create(options->tracing.producer);
    if (!made.ok()) return made.status();
    handle->producer = *std::move(made);
    *producer = handle.release();
    return absl::OkStatus();
  });
}

void tracering_producer_destroy(tracering_producer* producer) {
  delete producer;
}

tracering_writer* tracering_thread_writer(tracering_producer* producer,
                                          const char* buffer) {
  if (producer == nullptr) return nullptr;
  return ToC(&producer->producer->ThreadWriter(TextOrEmpty(buffer)));
}

tracering_own_writer* tracering_own_writer_create(tracering_producer* producer,
                                                  const char* buffer) {
  return With(
      producer, static_cast<tracering_own_writer*>(nullptr), [&](Producer& of) {
        return new tracering_own_writer{of.CreateWriter(TextOrEmpty(buffer))};
      });
}

tracering_own_writer* tracering_own_writer_create_with_policy(
    tracering_producer* producer, const char* buffer, int32_t policy,
    int64_t stall_timeout_ns) {
  const std::optional<WriterOptions> options =
      tracering::internal::MakeWriterOptions(policy, stall_timeout_ns);
  if (!options.has_value() || stall_timeout_ns < 0) return nullptr;
  return With(producer, static_cast<tracering_own_writer*>(nullptr),
              [&](Producer& of) {
                return new tracering_own_writer{
                    of.CreateWriter(TextOrEmpty(buffer), *options)};
              });
}

tracering_writer* tracering_own_writer_get(tracering_own_writer* writer) {
  return writer != nullptr ? ToC(writer->writer.get()) : nullptr;
}

void tracering_own_writer_destroy(tracering_own_writer* writer) {
  delete writer;
}

// --- The consumer ---

tracering_status tracering_flush(tracering_producer* producer,
                                 int64_t timeout_ns, char* error,
                                 size_t error_size) {
  return tracering::internal::ReportWith(
      producer, error, error_size,
      [&](Producer& of) { return of.Flush(nanoseconds(timeout_ns)); });
}

tracering_status tracering_trigger(tracering_producer* producer,
                                   const char* name, char* error,
                                   size_t error_size) {
  return tracering::internal::ReportWith(
      producer, error, error_size,
      [&](Producer& of) { return of.Trigger(TextOrEmpty(name)); });
}

bool tracering_consumer_attached(const tracering_producer* producer) {
  return With(producer, false,
              [](Producer& of) { return of.consumer_attached(); });
}

bool tracering_wait_for_consumer(tracering_producer* producer,
                                 int64_t timeout_ns) {
  return With(producer, false, [&](Producer& of) {
    return of.WaitForConsumer(nanoseconds(timeout_ns));
  });
}

int tracering_poll_fd(const tracering_producer* producer) {
  return With(producer, -1, [](Producer& of) { return of.poll_fd(); });
}

void tracering_process_ready(tracering_producer* producer) {
  With(producer, false, [](Producer& of) {
    of.ProcessReady();
    return true;
  });
}

// --- Tracks ---

uint64_t tracering_process_track(const tracering_producer* producer) {
  return With(producer, uint64_t{0},
              [](Producer& of) { return of.process_track(); });
}

uint64_t tracering_thread_track(tracering_producer* producer) {
  return With(producer, uint64_t{0},
              [](Producer& of) { return of.ThreadTrack(); });
}

uint64_t tracering_thread_track_named(tracering_producer* producer,
                                      const char* name) {
  return With(producer, uint64_t{0},
              [&](Producer& of) { return of.ThreadTrack(TextOrEmpty(name)); });
}

uint64_t tracering_add_track(tracering_producer* producer, const char* name,
                             uint64_t parent) {
  return With(producer, uint64_t{0}, [&](Producer& of) {
    return of.AddTrack(TextOrEmpty(name), parent);
  });
}

uint64_t tracering_add_counter_track(tracering_producer* producer,
                                     const char* name, int32_t unit,
                                     uint64_t parent) {
  return With(producer, uint64_t{0}, [&](Producer& of) {
    return of.AddCounterTrack(TextOrEmpty(name),
                              tracering::internal::UnitOf(unit), parent);
  });
}

uint64_t tracering_add_counter_track_in(tracering_producer* producer,
                                        const char* name, const char* unit_name,
                                        uint64_t parent) {
  return With(producer, uint64_t{0}, [&](Producer& of) {
    return of.AddCounterTrack(TextOrEmpty(name),
                              std::string_view(TextOrEmpty(unit_name)), parent);
  });
}

void tracering_remove_track(tracering_producer* producer, uint64_t uuid) {
  With(producer, false, [&](Producer& of) {
    of.RemoveTrack(uuid);
    return true;
  });
}

// --- Statistics ---

bool tracering_producer_get_stats(const tracering_producer* producer,
                                  tracering_producer_stats* stats) {
  if (!HasRoomForStats(stats)) return false;
  return With(producer, false, [&](Producer& of) {
    const Producer::Stats read = of.stats();
    tracering_producer_stats full{};
    full.attempted = read.attempted;
    full.lost = read.lost;
    full.num_rings = read.rings.size();
    full.sessions = read.sessions;
    full.refused_buffer_names = read.refused_buffer_names;
    full.num_unknown_buffers = read.unknown_buffers.size();
    full.live_descriptors = read.descriptors.live;
    full.dropped_descriptors = read.descriptors.dropped;
    CopyStats(full, stats);
    return true;
  });
}

bool tracering_ring_get_stats(const tracering_producer* producer, size_t index,
                              tracering_ring_stats* stats) {
  if (!HasRoomForStats(stats)) return false;
  return With(producer, false, [&](Producer& of) {
    const Producer::Stats read = of.stats();
    if (index >= read.rings.size()) return false;
    CopyStats(ToC(read.rings[index]), stats);
    return true;
  });
}

bool tracering_get_unknown_buffer(const tracering_producer* producer,
                                  size_t index, char* name, size_t size) {
  if (name == nullptr || size == 0) return false;
  return With(producer, false, [&](Producer& of) {
    const Producer::Stats read = of.stats();
    if (index >= read.unknown_buffers.size()) return false;
    CopyText(read.unknown_buffers[index], name, size);
    return true;
  });
}

bool tracering_get_connection_error(const tracering_producer* producer,
                                    char* text, size_t size) {
  if (text == nullptr || size == 0) return false;
  return With(producer, false, [&](Producer& of) {
    CopyText(of.stats().connection_error, text, size);
    return true;
  });
}
