// Packets from C; see c_packet.h and tracering/c/packet.h. The hot path: read
// the generated code after a change.
#include "src/producer/c_packet.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/producer/c_handles.h"
#include "src/producer/trace_writer_impl.h"
#include "tracering/c/packet.h"
#include "tracering/clock.h"
#include "tracering/data_loss.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/internal/wire_format.h"

namespace tracering::internal {
namespace {

static_assert(TRACERING_NUM_WRITER_LOSS_CAUSES == kNumWriterLossCauses);

TraceWriterImpl* ImplOf(tracering_writer* writer) {
  return static_cast<TraceWriterImpl*>(reinterpret_cast<TraceWriter*>(writer));
}

void Discard(tracering_packet* packet) {
  uint8_t* const cur = packet->cur;
  packet->cur = nullptr;
  DiscardPacket(packet->writer, cur);
}

// Otherwise the encoder has an address, and does not live in registers.
#define TRACERING_INLINED __attribute__((always_inline))

// What several functions do is here: calls of exported functions are not
// inlined, since a program may replace them.

// Calls `append` with an encoder of the packet, if that takes the field.
template <typename Append>
[[gnu::always_inline]] inline void AppendField(tracering_packet* packet,
                                               uint32_t field,
                                               const Append& append) {
  if (!IsOpen(packet)) return;
  if (__builtin_expect(field - 1 >= kMaxFieldNumber, 0)) {
    Discard(packet);
    return;
  }
  PacketEncoder encoder = packet->encoder();
  append(encoder);
  packet->GoOnBehind(encoder);
}

[[gnu::always_inline]] inline void AppendVarint(tracering_packet* packet,
                                                uint32_t field,
                                                uint64_t value) {
  AppendField(packet, field, [&](PacketEncoder& encoder) TRACERING_INLINED {
    encoder.AppendVarint(field, value);
  });
}

[[gnu::always_inline]] inline void AppendFixed32(tracering_packet* packet,
                                                 uint32_t field,
                                                 uint32_t value) {
  AppendField(packet, field, [&](PacketEncoder& encoder) TRACERING_INLINED {
    encoder.AppendFixed32(field, value);
  });
}

[[gnu::always_inline]] inline void AppendFixed64(tracering_packet* packet,
                                                 uint32_t field,
                                                 uint64_t value) {
  AppendField(packet, field, [&](PacketEncoder& encoder) TRACERING_INLINED {
    encoder.AppendFixed64(field, value);
  });
}

[[gnu::always_inline]] inline void AppendBytes(tracering_packet* packet,
                                               uint32_t field, const void* data,
                                               size_t size) {
  AppendField(packet, field, [&](PacketEncoder& encoder) TRACERING_INLINED {
    encoder.AppendBytes(field, data, size);
  });
}

}  // namespace
}  // namespace tracering::internal

using tracering::internal::AppendBytes;
using tracering::internal::AppendField;
using tracering::internal::AppendFixed32;
using tracering::internal::AppendFixed64;
using tracering::internal::AppendVarint;
using tracering::internal::ImplOf;
using tracering::internal::IsOpen;
using tracering::internal::PacketEncoder;

uint64_t tracering_now(void) { return tracering::NowNs(); }

tracering_packet* tracering_packet_begin(tracering_writer* writer) {
  if (writer == nullptr) return nullptr;
  tracering::internal::TraceWriterImpl* const impl = ImplOf(writer);
  const tracering::internal::FragmentRange range = impl->Open();
  // The writer may be one that threads share, or its packet somebody else's,
  // further up the stack.
  if (range.cur == nullptr) return nullptr;
  tracering_packet& packet = impl->c_packet();
  packet.Open(impl, range.cur, range.end, 0);
  return &packet;
}

void tracering_packet_end(tracering_packet* packet) {
  if (!IsOpen(packet)) return;
  PacketEncoder encoder = packet->encoder();
  // First: once it has ended, a signal handler may begin the next one.
  packet->cur = nullptr;
  encoder.Finish();
}

void tracering_packet_discard(tracering_packet* packet) {
  if (IsOpen(packet)) tracering::internal::Discard(packet);
}

// --- Fields ---

void tracering_append_varint(tracering_packet* packet, uint32_t field,
                             uint64_t value) {
  AppendVarint(packet, field, value);
}

void tracering_append_int(tracering_packet* packet, uint32_t field,
                          int64_t value) {
  AppendVarint(packet, field, static_cast<uint64_t>(value));
}

void tracering_append_zigzag(tracering_packet* packet, uint32_t field,
                             int64_t value) {
  AppendVarint(packet, field, tracering::internal::ZigZag(value));
}

void tracering_append_bool(tracering_packet* packet, uint32_t field,
                           bool value) {
  AppendVarint(packet, field, value ? 1 : 0);
}

void tracering_append_fixed32(tracering_packet* packet, uint32_t field,
                              uint32_t value) {
  AppendFixed32(packet, field, value);
}

void tracering_append_fixed64(tracering_packet* packet, uint32_t field,
                              uint64_t value) {
  AppendFixed64(packet, field, value);
}

void tracering_append_float(tracering_packet* packet, uint32_t field,
                            float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  AppendFixed32(packet, field, bits);
}

void tracering_append_double(tracering_packet* packet, uint32_t field,
                             double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  AppendFixed64(packet, field, bits);
}

void tracering_append_string(tracering_packet* packet, uint32_t field,
                             const char* value) {
  AppendBytes(packet, field, value, value != nullptr ? std::strlen(value) : 0);
}

void tracering_append_bytes(tracering_packet* packet, uint32_t field,
                            const void* data, size_t size) {
  AppendBytes(packet, field, data, data != nullptr ? size : 0);
}

void tracering_message_begin(tracering_packet* packet, uint32_t field) {
  AppendField(packet, field, [&](PacketEncoder& encoder) TRACERING_INLINED {
    packet->depth = encoder.BeginMessage(field);
  });
}

void tracering_message_end(tracering_packet* packet) {
  if (!IsOpen(packet) || packet->depth == packet->base) return;
  PacketEncoder encoder = packet->encoder();
  encoder.EndMessage(packet->depth);
  --packet->depth;
  packet->GoOnBehind(encoder);
}

#undef TRACERING_INLINED

// --- Batches ---

void tracering_batch_begin(tracering_writer* writer) {
  if (writer != nullptr) ImplOf(writer)->BeginBatch();
}

void tracering_batch_end(tracering_writer* writer) {
  if (writer == nullptr || !ImplOf(writer)->in_batch()) return;
  ImplOf(writer)->EndBatch();
}

// --- Statistics ---

const char* tracering_loss_cause_name(uint32_t cause) {
  // Literals, with a NUL behind them.
  return tracering::LossCauseName(static_cast<tracering::LossCause>(cause))
      .data();
}

bool tracering_writer_get_stats(const tracering_writer* writer,
                                tracering_writer_stats* stats) {
  if (writer == nullptr || !tracering::internal::HasRoomForStats(stats)) {
    return false;
  }
  const tracering::WriterStats read =
      reinterpret_cast<const tracering::TraceWriter*>(writer)->stats();
  tracering_writer_stats full{};
  full.attempted = read.attempted;
  full.published = read.published;
  full.lost = read.lost;
  std::copy(read.lost_by_cause.begin(), read.lost_by_cause.end(),
            full.lost_by_cause);
  full.discarded = read.discarded;
  tracering::internal::CopyStats(full, stats);
  return true;
}
