// Control messages to bytes. Nested messages are built bottom-up in strings of
// their own: a message is sent a few times in a session. See codec.h.
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "src/common/control/codec.h"
#include "src/common/control/field_numbers.h"
#include "tracering/internal/wire_format.h"

namespace tracering::control {
namespace {

using internal::WireType;

// Appends fields to a string. The first broken limit sticks.
class Encoder {
 public:
  explicit Encoder(std::string* out) : out_(out) {}

  CodecOutcome outcome() const { return outcome_; }

  // As proto3 does, a value of 0 is not written.
  void Number(uint32_t number, uint64_t value) {
    if (value == 0) return;
    Varint(internal::MakeTag(number, WireType::kVarint));
    Varint(value);
  }

  void Repeated(uint32_t number, const std::vector<uint64_t>& values) {
    if (values.size() > kMaxLossCauses) Fail(CodecOutcome::kTooManyCauses);
    for (const uint64_t value : values) {
      Varint(internal::MakeTag(number, WireType::kVarint));
      Varint(value);
    }
  }

  void Role(uint32_t number, RingRole role) {
    const auto value = static_cast<uint32_t>(role);
    if (value > kMaxRingRole) Fail(CodecOutcome::kValueOutOfRange);
    Number(number, value);
  }

  void Name(uint32_t number, const std::string& name) {
    if (!name.empty()) RepeatedName(number, name);
  }

  void Names(uint32_t number, const std::vector<std::string>& names) {
    if (names.size() > kMaxNamesPerMessage) Fail(CodecOutcome::kTooManyNames);
    for (const std::string& name : names) RepeatedName(number, name);
  }

  void Reason(uint32_t number, const std::string& reason) {
    if (reason.size() > kMaxReasonSize) Fail(CodecOutcome::kReasonTooLong);
    if (!reason.empty()) Bytes(number, reason);
  }

  // A nested message, written by `write(Encoder&)`.
  template <typename Write>
  void Nested(uint32_t number, Write write) {
    std::string nested;
    Encoder encoder(&nested);
    write(encoder);
    if (encoder.outcome_ != CodecOutcome::kOk) Fail(encoder.outcome_);
    Bytes(number, nested);
  }

  void Rings(uint32_t number, const std::vector<RingInfo>& rings) {
    if (rings.size() > kMaxRingsPerMessage) Fail(CodecOutcome::kTooManyRings);
    for (const RingInfo& ring : rings) {
      Nested(number, [&ring](Encoder& encoder) {
        encoder.Number(field::kRingNumChunks, ring.num_chunks);
        encoder.Number(field::kRingChunkSize, ring.chunk_size);
        encoder.Role(field::kRingRole, ring.role);
        encoder.Number(field::kRingIndex, ring.index);
      });
    }
  }

  void Buffers(uint32_t number, const std::vector<BufferInfo>& buffers) {
    if (buffers.size() > kMaxBuffersPerMessage) {
      Fail(CodecOutcome::kTooManyBuffers);
    }
    for (const BufferInfo& buffer : buffers) {
      Nested(number, [&buffer](Encoder& encoder) {
        encoder.Number(field::kBufferId, buffer.id);
        encoder.Name(field::kBufferName, buffer.name);
      });
    }
  }

  void Fail(CodecOutcome outcome) {
    if (outcome_ == CodecOutcome::kOk) outcome_ = outcome;
  }

 private:
  void RepeatedName(uint32_t number, const std::string& name) {
    if (name.size() > kMaxNameSize) Fail(CodecOutcome::kNameTooLong);
    Bytes(number, name);
  }

  void Bytes(uint32_t number, const std::string& bytes) {
    // Refused in the end anyway: nothing large is copied around before that.
    if (outcome_ != CodecOutcome::kOk) return;
    Varint(internal::MakeTag(number, WireType::kLengthDelimited));
    Varint(bytes.size());
    out_->append(bytes);
  }

  void Varint(uint64_t value) {
    uint8_t buffer[internal::kMaxVarintSize];
    uint8_t* const end = internal::WriteVarint(buffer, value);
    out_->append(buffer, end);
  }

  std::string* out_;
  CodecOutcome outcome_ = CodecOutcome::kOk;
};

void Encode(const PacketInfo& packets, Encoder& out) {
  out.Number(field::kPacketDelivered, packets.delivered);
  out.Number(field::kPacketDeliveredBytes, packets.delivered_bytes);
  out.Repeated(field::kPacketLost, packets.lost);
}

void Encode(const RingLoad& ring, Encoder& out) {
  out.Number(field::kLoadNumChunks, ring.num_chunks);
  out.Number(field::kLoadOutstanding, ring.outstanding);
  out.Number(field::kLoadStopped, ring.stopped ? 1 : 0);
}

void Encode(const ProducerInfo& producer, Encoder& out) {
  out.Number(field::kProducerId, producer.id);
  out.Name(field::kProducerName, producer.name);
  out.Number(field::kProducerPid, producer.pid);
  out.Number(field::kProducerUid, producer.uid);
  if (producer.packets.has_value()) {
    out.Nested(field::kProducerPackets,
               [&](Encoder& nested) { Encode(*producer.packets, nested); });
  }
  if (producer.rings.size() > kMaxRingsPerMessage) {
    out.Fail(CodecOutcome::kTooManyRings);
  }
  for (const RingLoad& ring : producer.rings) {
    out.Nested(field::kProducerRings,
               [&](Encoder& nested) { Encode(ring, nested); });
  }
}

void Encode(const Hello& hello, Encoder& out) {
  out.Number(field::kHelloAbiVersionMin, hello.abi_version_min);
  out.Number(field::kHelloAbiVersionMax, hello.abi_version_max);
  out.Name(field::kHelloProcessName, hello.process_name);
  out.Number(field::kHelloPid, hello.pid);
  out.Rings(field::kHelloRings, hello.rings);
  out.Buffers(field::kHelloBuffers, hello.buffers);
}

void Encode(const AddRings& add, Encoder& out) {
  out.Rings(field::kAddRingsRings, add.rings);
}

void Encode(const AddBuffers& add, Encoder& out) {
  out.Buffers(field::kAddBuffersBuffers, add.buffers);
}

void Encode(const Trigger& trigger, Encoder& out) {
  out.Name(field::kTriggerName, trigger.name);
}

void Encode(const Goodbye&, Encoder&) {}

void Encode(const Welcome& welcome, Encoder& out) {
  out.Number(field::kWelcomeAbiVersion, welcome.abi_version);
  out.Names(field::kWelcomeUnknownBuffers, welcome.unknown_buffers);
  out.Names(field::kWelcomeEnabledCategories, welcome.enabled_categories);
}

void Encode(const Reject& reject, Encoder& out) {
  out.Reason(field::kRejectReason, reject.reason);
}

void Encode(const SetEnabled& set, Encoder& out) {
  out.Names(field::kSetEnabledPatterns, set.patterns);
}

void Encode(const StatsRequest& request, Encoder& out) {
  out.Number(field::kStatsRequestAfterProducer, request.after_producer);
}

void Encode(const ServiceStats& stats, Encoder& out) {
  if (stats.producers.size() > kMaxProducersPerMessage) {
    out.Fail(CodecOutcome::kTooManyProducers);
  }
  for (const ProducerInfo& producer : stats.producers) {
    out.Nested(field::kServiceStatsProducers,
               [&](Encoder& nested) { Encode(producer, nested); });
  }
  out.Number(field::kServiceStatsMore, stats.more ? 1 : 0);
  if (stats.gone.has_value()) {
    out.Nested(field::kServiceStatsGone,
               [&](Encoder& nested) { Encode(*stats.gone, nested); });
  }
  out.Number(field::kServiceStatsProducersSeen, stats.producers_seen);
  out.Number(field::kServiceStatsProducersRefused, stats.producers_refused);
  out.Number(field::kServiceStatsRingsStopped, stats.rings_stopped);
}

template <typename Message>
CodecOutcome EncodeMessage(const Message& message, std::string* bytes) {
  bytes->clear();
  if (std::holds_alternative<std::monostate>(message)) {
    return CodecOutcome::kNoMessage;
  }
  Encoder out(bytes);
  const auto number = static_cast<uint32_t>(message.index());
  out.Nested(number, [&message](Encoder& nested) {
    std::visit(
        [&nested](const auto& content) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(content)>,
                                        std::monostate>) {
            Encode(content, nested);
          }
        },
        message);
  });
  if (bytes->size() > kMaxMessageSize) {
    out.Fail(CodecOutcome::kMessageTooLarge);
  }
  if (out.outcome() != CodecOutcome::kOk) bytes->clear();
  return out.outcome();
}

}  // namespace

CodecOutcome EncodeProducerMessage(const ProducerMessage& message,
                                   std::string* bytes) {
  return EncodeMessage(message, bytes);
}

CodecOutcome EncodeConsumerMessage(const ConsumerMessage& message,
                                   std::string* bytes) {
  return EncodeMessage(message, bytes);
}

}  // namespace tracering::control
