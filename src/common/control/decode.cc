// Bytes of a peer to control messages. Every read is bounded by the message
// that it belongs to, every list and string by messages.h; the depth of calls
// is that of the message definitions, whatever the input nests.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/common/control/codec.h"
#include "src/common/control/field_numbers.h"
#include "tracering/internal/wire_format.h"

namespace tracering::control {
namespace {

using internal::WireType;

// One field as it stands in the input, whether known or not.
struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of a length-delimited field
};

// Splits one message into its fields, reading nothing beyond it.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes)
      : next_(reinterpret_cast<const uint8_t*>(bytes.data())),
        end_(next_ + bytes.size()) {}

  bool done() const { return next_ == end_; }

  CodecOutcome Read(Field* field) {
    uint64_t tag = 0;
    if (!ReadShortVarint(&tag)) return CodecOutcome::kMalformedVarint;
    if ((tag >> 3) == 0 || (tag >> 3) > internal::kMaxFieldNumber) {
      return CodecOutcome::kMalformedTag;
    }
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<WireType>(tag & 7);
    switch (field->type) {
      case WireType::kVarint:
        return internal::ReadVarint(&next_, end_, &field->value)
                   ? CodecOutcome::kOk
                   : CodecOutcome::kMalformedVarint;
      case WireType::kFixed64:
        return Take(sizeof(uint64_t), field);
      case WireType::kFixed32:
        return Take(sizeof(uint32_t), field);
      case WireType::kLengthDelimited: {
        uint64_t size = 0;
        if (!ReadShortVarint(&size)) return CodecOutcome::kMalformedVarint;
        return Take(size, field);
      }
      case WireType::kStartGroup:
      case WireType::kEndGroup:
        break;
    }
    return CodecOutcome::kUnsupportedWireType;
  }

 private:
  // Protobuf parsers accept no more than 5 bytes of a tag or a length.
  bool ReadShortVarint(uint64_t* value) {
    constexpr auto kMaxSize = std::ptrdiff_t{internal::kMaxTagSize};
    return internal::ReadVarint(
        &next_, next_ + std::min(kMaxSize, end_ - next_), value);
  }

  CodecOutcome Take(uint64_t size, Field* field) {
    if (size > static_cast<uint64_t>(end_ - next_)) {
      return CodecOutcome::kTruncatedField;
    }
    field->bytes = std::string_view(reinterpret_cast<const char*>(next_),
                                    static_cast<size_t>(size));
    next_ += size;
    return CodecOutcome::kOk;
  }

  const uint8_t* next_;
  const uint8_t* end_;
};

// Calls on_field(field) -> CodecOutcome for each field of the nested message
// that `message` holds, up to the first that is not kOk. on_field returns kOk
// for numbers that it does not know.
template <typename OnField>
CodecOutcome ForEachField(const Field& message, OnField on_field) {
  if (message.type != WireType::kLengthDelimited) {
    return CodecOutcome::kWrongWireType;
  }
  FieldReader reader(message.bytes);
  while (!reader.done()) {
    Field field;
    CodecOutcome outcome = reader.Read(&field);
    if (outcome == CodecOutcome::kOk) outcome = on_field(field);
    if (outcome != CodecOutcome::kOk) return outcome;
  }
  return CodecOutcome::kOk;
}

template <typename Number>
CodecOutcome ToNumber(const Field& field, Number* number) {
  if (field.type != WireType::kVarint) return CodecOutcome::kWrongWireType;
  if (field.value > std::numeric_limits<Number>::max()) {
    return CodecOutcome::kValueOutOfRange;
  }
  *number = static_cast<Number>(field.value);
  return CodecOutcome::kOk;
}

CodecOutcome ToBool(const Field& field, bool* value) {
  uint64_t number = 0;
  const CodecOutcome outcome = ToNumber(field, &number);
  *value = number != 0;
  return outcome;
}

CodecOutcome ToBytes(const Field& field, size_t max_size,
                     CodecOutcome if_too_long, std::string* bytes) {
  if (field.type != WireType::kLengthDelimited) {
    return CodecOutcome::kWrongWireType;
  }
  if (field.bytes.size() > max_size) return if_too_long;
  bytes->assign(field.bytes.data(), field.bytes.size());
  return CodecOutcome::kOk;
}

CodecOutcome ToName(const Field& field, std::string* name) {
  return ToBytes(field, kMaxNameSize, CodecOutcome::kNameTooLong, name);
}

CodecOutcome Decode(const Field& message, RingInfo* ring) {
  return ForEachField(message, [ring](const Field& field) {
    switch (field.number) {
      case field::kRingNumChunks:
        return ToNumber(field, &ring->num_chunks);
      case field::kRingChunkSize:
        return ToNumber(field, &ring->chunk_size);
      case field::kRingRole: {
        uint32_t role = 0;
        const CodecOutcome outcome = ToNumber(field, &role);
        if (outcome != CodecOutcome::kOk) return outcome;
        if (role > kMaxRingRole) return CodecOutcome::kValueOutOfRange;
        ring->role = static_cast<RingRole>(role);
        return CodecOutcome::kOk;
      }
      case field::kRingIndex:
        return ToNumber(field, &ring->index);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, BufferInfo* buffer) {
  return ForEachField(message, [buffer](const Field& field) {
    switch (field.number) {
      case field::kBufferId:
        return ToNumber(field, &buffer->id);
      case field::kBufferName:
        return ToName(field, &buffer->name);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome AppendRing(const Field& field, std::vector<RingInfo>* rings) {
  if (rings->size() == kMaxRingsPerMessage) return CodecOutcome::kTooManyRings;
  return Decode(field, &rings->emplace_back());
}

CodecOutcome AppendBuffer(const Field& field,
                          std::vector<BufferInfo>* buffers) {
  if (buffers->size() == kMaxBuffersPerMessage) {
    return CodecOutcome::kTooManyBuffers;
  }
  return Decode(field, &buffers->emplace_back());
}

CodecOutcome AppendName(const Field& field, std::vector<std::string>* names) {
  if (names->size() == kMaxNamesPerMessage) return CodecOutcome::kTooManyNames;
  return ToName(field, &names->emplace_back());
}

CodecOutcome Decode(const Field& message, PacketInfo* packets) {
  return ForEachField(message, [packets](const Field& field) {
    switch (field.number) {
      case field::kPacketDelivered:
        return ToNumber(field, &packets->delivered);
      case field::kPacketDeliveredBytes:
        return ToNumber(field, &packets->delivered_bytes);
      case field::kPacketLost:
        return packets->lost.size() == kMaxLossCauses
                   ? CodecOutcome::kTooManyCauses
                   : ToNumber(field, &packets->lost.emplace_back());
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, RingLoad* ring) {
  return ForEachField(message, [ring](const Field& field) {
    switch (field.number) {
      case field::kLoadNumChunks:
        return ToNumber(field, &ring->num_chunks);
      case field::kLoadOutstanding:
        return ToNumber(field, &ring->outstanding);
      case field::kLoadStopped:
        return ToBool(field, &ring->stopped);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, ProducerInfo* producer) {
  return ForEachField(message, [producer](const Field& field) {
    switch (field.number) {
      case field::kProducerId:
        return ToNumber(field, &producer->id);
      case field::kProducerName:
        return ToName(field, &producer->name);
      case field::kProducerPid:
        return ToNumber(field, &producer->pid);
      case field::kProducerUid:
        return ToNumber(field, &producer->uid);
      case field::kProducerPackets:
        if (!producer->packets.has_value()) producer->packets.emplace();
        return Decode(field, &*producer->packets);
      case field::kProducerRings:
        return producer->rings.size() == kMaxRingsPerMessage
                   ? CodecOutcome::kTooManyRings
                   : Decode(field, &producer->rings.emplace_back());
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, Hello* hello) {
  return ForEachField(message, [hello](const Field& field) {
    switch (field.number) {
      case field::kHelloAbiVersionMin:
        return ToNumber(field, &hello->abi_version_min);
      case field::kHelloAbiVersionMax:
        return ToNumber(field, &hello->abi_version_max);
      case field::kHelloProcessName:
        return ToName(field, &hello->process_name);
      case field::kHelloPid:
        return ToNumber(field, &hello->pid);
      case field::kHelloRings:
        return AppendRing(field, &hello->rings);
      case field::kHelloBuffers:
        return AppendBuffer(field, &hello->buffers);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, AddRings* add) {
  return ForEachField(message, [add](const Field& field) {
    return field.number == field::kAddRingsRings
               ? AppendRing(field, &add->rings)
               : CodecOutcome::kOk;
  });
}

CodecOutcome Decode(const Field& message, AddBuffers* add) {
  return ForEachField(message, [add](const Field& field) {
    return field.number == field::kAddBuffersBuffers
               ? AppendBuffer(field, &add->buffers)
               : CodecOutcome::kOk;
  });
}

CodecOutcome Decode(const Field& message, Trigger* trigger) {
  return ForEachField(message, [trigger](const Field& field) {
    return field.number == field::kTriggerName ? ToName(field, &trigger->name)
                                               : CodecOutcome::kOk;
  });
}

CodecOutcome Decode(const Field& message, Goodbye*) {
  return ForEachField(message, [](const Field&) { return CodecOutcome::kOk; });
}

CodecOutcome Decode(const Field& message, StatsRequest* request) {
  return ForEachField(message, [request](const Field& field) {
    return field.number == field::kStatsRequestAfterProducer
               ? ToNumber(field, &request->after_producer)
               : CodecOutcome::kOk;
  });
}

CodecOutcome Decode(const Field& message, ServiceStats* stats) {
  return ForEachField(message, [stats](const Field& field) {
    switch (field.number) {
      case field::kServiceStatsProducers:
        return stats->producers.size() == kMaxProducersPerMessage
                   ? CodecOutcome::kTooManyProducers
                   : Decode(field, &stats->producers.emplace_back());
      case field::kServiceStatsMore:
        return ToBool(field, &stats->more);
      case field::kServiceStatsGone:
        if (!stats->gone.has_value()) stats->gone.emplace();
        return Decode(field, &*stats->gone);
      case field::kServiceStatsProducersSeen:
        return ToNumber(field, &stats->producers_seen);
      case field::kServiceStatsProducersRefused:
        return ToNumber(field, &stats->producers_refused);
      case field::kServiceStatsRingsStopped:
        return ToNumber(field, &stats->rings_stopped);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, Welcome* welcome) {
  return ForEachField(message, [welcome](const Field& field) {
    switch (field.number) {
      case field::kWelcomeAbiVersion:
        return ToNumber(field, &welcome->abi_version);
      case field::kWelcomeUnknownBuffers:
        return AppendName(field, &welcome->unknown_buffers);
      case field::kWelcomeEnabledCategories:
        return AppendName(field, &welcome->enabled_categories);
      default:
        return CodecOutcome::kOk;
    }
  });
}

CodecOutcome Decode(const Field& message, Reject* reject) {
  return ForEachField(message, [reject](const Field& field) {
    return field.number == field::kRejectReason
               ? ToBytes(field, kMaxReasonSize, CodecOutcome::kReasonTooLong,
                         &reject->reason)
               : CodecOutcome::kOk;
  });
}

CodecOutcome Decode(const Field& message, SetEnabled* set) {
  return ForEachField(message, [set](const Field& field) {
    return field.number == field::kSetEnabledPatterns
               ? AppendName(field, &set->patterns)
               : CodecOutcome::kOk;
  });
}

// Decodes `field` into the alternative of *message that has its number, if
// there is one. Starts at 1: alternative 0 is monostate.
template <size_t kAlternative = 1, typename Message>
CodecOutcome DecodeMember(const Field& field, Message* message) {
  if constexpr (kAlternative == std::variant_size_v<Message>) {
    return CodecOutcome::kOk;
  } else {
    if (field.number != kAlternative) {
      return DecodeMember<kAlternative + 1>(field, message);
    }
    if (!std::holds_alternative<std::monostate>(*message)) {
      return CodecOutcome::kSeveralMessages;
    }
    return Decode(field, &message->template emplace<kAlternative>());
  }
}

template <typename Message>
CodecOutcome DecodeMessage(std::string_view bytes, Message* message) {
  *message = std::monostate();
  if (bytes.size() > kMaxMessageSize) return CodecOutcome::kMessageTooLarge;
  Field datagram;
  datagram.type = WireType::kLengthDelimited;
  datagram.bytes = bytes;
  const CodecOutcome outcome = ForEachField(
      datagram,
      [message](const Field& field) { return DecodeMember(field, message); });
  if (outcome != CodecOutcome::kOk) *message = std::monostate();
  return outcome;
}

}  // namespace

CodecOutcome DecodeProducerMessage(std::string_view bytes,
                                   ProducerMessage* message) {
  return DecodeMessage(bytes, message);
}

CodecOutcome DecodeConsumerMessage(std::string_view bytes,
                                   ConsumerMessage* message) {
  return DecodeMessage(bytes, message);
}

}  // namespace tracering::control
