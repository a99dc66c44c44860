// A trace packet while it is being written, and the messages nested in it.
//
//   tracering::Packet packet = writer.NewPacket();
//   packet.AppendVarint(trace_packet::kTimestamp, tracering::NowNs());
//   tracering::Message event = packet.BeginMessage(trace_packet::kTrackEvent);
//   event.AppendString(track_event::kName, "frame");
//
// Both are stack objects of the writer's thread, neither copied nor moved.
// Destructors close and publish, so every path out of a scope leaves whole
// packets. Appends never fail and never block beyond the writer's policy: a
// packet that finds no room is dropped whole and counted, and the rest of its
// fields are swallowed.
#ifndef TRACERING_PACKET_H_
#define TRACERING_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tracering/internal/packet_encoder.h"

namespace tracering {

class Message;

// The appends that packets and messages share; `Self` is one of the two.
// `field` is a field number from 1 to 2^29-1. Fields go to the innermost open
// message: end a nested message before appending to the one around it.
template <typename Self>
class FieldWriter {
 public:
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;

  // uint32, uint64, enum.
  void AppendVarint(uint32_t field, uint64_t value) {
    encoder().AppendVarint(field, value);
  }
  // int32, int64: negative values take ten bytes.
  void AppendInt(uint32_t field, int64_t value) {
    encoder().AppendVarint(field, static_cast<uint64_t>(value));
  }
  // sint32, sint64.
  void AppendZigZag(uint32_t field, int64_t value) {
    encoder().AppendVarint(field, internal::ZigZag(value));
  }
  void AppendBool(uint32_t field, bool value) {
    encoder().AppendVarint(field, value ? 1 : 0);
  }
  // fixed32, sfixed32.
  void AppendFixed32(uint32_t field, uint32_t value) {
    encoder().AppendFixed32(field, value);
  }
  // fixed64, sfixed64.
  void AppendFixed64(uint32_t field, uint64_t value) {
    encoder().AppendFixed64(field, value);
  }
  void AppendFloat(uint32_t field, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    encoder().AppendFixed32(field, bits);
  }
  void AppendDouble(uint32_t field, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    encoder().AppendFixed64(field, bits);
  }
  // `value` is UTF-8; what is not is passed on as it is.
  void AppendString(uint32_t field, std::string_view value) {
    encoder().AppendBytes(field, value.data(), value.size());
  }
  // `data` may be null if `size` is 0. Also for messages that are encoded
  // already, as canonical protobuf.
  void AppendBytes(uint32_t field, const void* data, size_t size) {
    encoder().AppendBytes(field, data, size);
  }
  // Opens a nested message.
  [[nodiscard]] Message BeginMessage(uint32_t field) &;
  // The message would outlive what it is part of.
  Message BeginMessage(uint32_t field) && = delete;

 protected:
  FieldWriter() = default;
  ~FieldWriter() = default;

 private:
  internal::PacketEncoder& encoder() {
    return static_cast<Self*>(this)->encoder();
  }
};

// A nested message. Ends with its scope, or earlier by End().
class Message : public FieldWriter<Message> {
 public:
  ~Message() { End(); }

  // Closes the message, and any that is still open in it. Again: no effect.
  // Nothing may be appended through this object afterwards.
  void End() {
    if (depth_ != 0) encoder_->EndMessage(depth_);
    depth_ = 0;
  }

 private:
  template <typename Self>
  friend class FieldWriter;

  Message(internal::PacketEncoder* encoder, uint32_t field)
      : encoder_(encoder), depth_(encoder->BeginMessage(field)) {}
  internal::PacketEncoder& encoder() { return *encoder_; }

  internal::PacketEncoder* encoder_;  // of the packet around it
  uint32_t depth_;                    // 0 once it has ended
};

template <typename Self>
inline Message FieldWriter<Self>::BeginMessage(uint32_t field) & {
  return Message(&encoder(), field);
}

// One packet. TraceWriter::NewPacket makes it; a writer has at most one open.
class Packet : public FieldWriter<Packet> {
 public:
  ~Packet() { encoder_.Finish(); }

  // Closes open messages and publishes (in a batch: finalises) the packet.
  // Later appends are swallowed; finishing again has no effect.
  void Finish() { encoder_.Finish(); }

  // Gives the packet up. If nothing of it was published it never existed;
  // otherwise it counts as attempted and lost (LossCause::kWriterAbort).
  void Discard() { encoder_.Discard(); }

 private:
  friend class TraceWriter;
  template <typename Self>
  friend class FieldWriter;

  explicit Packet(TraceWriter* writer) : encoder_(writer) {}
  internal::PacketEncoder& encoder() { return encoder_; }

  internal::PacketEncoder encoder_;
};

}  // namespace tracering

#endif  // TRACERING_PACKET_H_
