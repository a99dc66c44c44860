// Packets of a trace, field by field, from C.
//
//   tracering_packet* packet = tracering_packet_begin(writer);
//   tracering_append_varint(packet, 8, tracering_now());  // timestamp
//   tracering_message_begin(packet, 11);                  // track_event
//   tracering_append_string(packet, 23, "frame");         // name
//   tracering_packet_end(packet);
//
// Each function below, down to the batches, is one short path without lock,
// allocation or system call while the packet's chunk has room; where the ring
// is full, it does what the writer's policy says (producer.h). Nothing here
// fails: a packet that finds no room is dropped whole and counted.
//
// A writer and its packet belong to one thread at a time. A signal handler on
// that thread may begin a packet too: while another one is open, it goes
// nowhere and is counted as lost.
//
// What is not checked, because it cannot be for a price worth paying: handles
// that were never valid, or of what has been destroyed. All else that is wrong
// ends in a rule below, and never the program: null handles have no effect.
#ifndef TRACERING_C_PACKET_H_
#define TRACERING_C_PACKET_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracering/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes to one target buffer; see producer.h for where it comes from.
typedef struct tracering_writer tracering_writer;

// The packet that a writer has open. There is one for each writer: after its
// end the pointer means the next packet, once that has begun. Never freed by
// the caller.
typedef struct tracering_packet tracering_packet;

// CLOCK_BOOTTIME in nanoseconds: what the timestamp of a packet is to be.
// Async-signal-safe.
TRACERING_EXPORT uint64_t tracering_now(void);

// Begins a packet. Null for one that goes nowhere: in a forked child, after the
// producer, before the first consumer of one that starts switched off, and
// while the writer's last packet has not been ended (counted as lost). Null is
// welcome wherever a packet is asked for, so that it need not be looked at.
TRACERING_EXPORT tracering_packet* tracering_packet_begin(
    tracering_writer* writer);

// Closes the messages that are open and publishes the packet (in a batch:
// finalises). The packet of a writer that is never ended keeps all later ones
// from being written. No effect on a packet that has been ended: appends to it
// are swallowed likewise.
TRACERING_EXPORT void tracering_packet_end(tracering_packet* packet);

// Gives the packet up instead. If nothing of it was published it never existed,
// and counts as discarded; otherwise as lost.
TRACERING_EXPORT void tracering_packet_discard(tracering_packet* packet);

// --- Fields ---
//
// `field` is a number of a protobuf message, from 1 to 2^29-1. One that is not
// discards the packet. Fields go to the innermost open message.

// uint32, uint64, enum.
TRACERING_EXPORT void tracering_append_varint(tracering_packet* packet,
                                              uint32_t field, uint64_t value);
// int32, int64.
TRACERING_EXPORT void tracering_append_int(tracering_packet* packet,
                                           uint32_t field, int64_t value);
// sint32, sint64.
TRACERING_EXPORT void tracering_append_zigzag(tracering_packet* packet,
                                              uint32_t field, int64_t value);
TRACERING_EXPORT void tracering_append_bool(tracering_packet* packet,
                                            uint32_t field, bool value);
// fixed32, sfixed32.
TRACERING_EXPORT void tracering_append_fixed32(tracering_packet* packet,
                                               uint32_t field, uint32_t value);
// fixed64, sfixed64.
TRACERING_EXPORT void tracering_append_fixed64(tracering_packet* packet,
                                               uint32_t field, uint64_t value);
TRACERING_EXPORT void tracering_append_float(tracering_packet* packet,
                                             uint32_t field, float value);
TRACERING_EXPORT void tracering_append_double(tracering_packet* packet,
                                              uint32_t field, double value);
// UTF-8, up to the NUL. Null is the empty text.
TRACERING_EXPORT void tracering_append_string(tracering_packet* packet,
                                              uint32_t field,
                                              const char* value);
// bytes, or a text without a NUL, or a message that is encoded already. Null is
// no bytes, whatever `size` says.
TRACERING_EXPORT void tracering_append_bytes(tracering_packet* packet,
                                             uint32_t field, const void* data,
                                             size_t size);

// Opens a message in the innermost one that is open.
TRACERING_EXPORT void tracering_message_begin(tracering_packet* packet,
                                              uint32_t field);
// Closes the innermost message. No effect where none is open.
TRACERING_EXPORT void tracering_message_end(tracering_packet* packet);

// --- Batches ---

// Packets from here to tracering_batch_end are finalised without being
// published: one compare-exchange publishes them all at the end, or when a
// chunk is full. Batches nest, and the outermost end counts. Until then a
// flush does not see the packets, and SIGKILL loses them.
TRACERING_EXPORT void tracering_batch_begin(tracering_writer* writer);
// No effect outside of a batch.
TRACERING_EXPORT void tracering_batch_end(tracering_writer* writer);

// --- What became of them ---

// By number; the names tell what they are. Of the 8 that a writer can count, 6
// are in use.
enum { TRACERING_NUM_WRITER_LOSS_CAUSES = 8 };

// Such as "ring full", for a number from 0 that stands for a cause; "unknown"
// for any other. Never null, valid for ever.
TRACERING_EXPORT const char* tracering_loss_cause_name(uint32_t cause);

// attempted == published + lost, except for packets of an open batch.
typedef struct tracering_writer_stats {
  // sizeof(tracering_writer_stats), said by the caller: a library that knows
  // less sets the rest to 0, one that knows more leaves it out.
  size_t size;
  uint64_t attempted;
  uint64_t published;
  uint64_t lost;  // the sum of the next line
  uint64_t lost_by_cause[TRACERING_NUM_WRITER_LOSS_CAUSES];
  uint64_t discarded;
} tracering_writer_stats;

// Any thread; exact when the writer is quiet. False, with nothing written, if
// either is null or stats->size is too small to be anything.
TRACERING_EXPORT bool tracering_writer_get_stats(const tracering_writer* writer,
                                                 tracering_writer_stats* stats);

#ifdef __cplusplus
}
#endif

#endif  // TRACERING_C_PACKET_H_
