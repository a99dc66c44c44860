// What encoder and decoder share: rules in words, descriptors per message;
// see codec.h.
#include "src/common/control/codec.h"

#include <cstddef>
#include <variant>

#include "src/common/control/messages.h"

namespace tracering::control {

size_t NumFds(const ProducerMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    return hello->rings.size();
  }
  if (const auto* add = std::get_if<AddRings>(&message)) {
    return add->rings.size();
  }
  return 0;
}

size_t NumFds(const ConsumerMessage& message) {
  return std::holds_alternative<Welcome>(message) ? 1 : 0;
}

const char* CodecRule(CodecOutcome outcome) {
  switch (outcome) {
    case CodecOutcome::kOk:
      return "valid";
    case CodecOutcome::kMessageTooLarge:
      return "a message has at most 65536 bytes";
    case CodecOutcome::kMalformedVarint:
      return "a varint ends within its message, a tag or length within 5 "
             "bytes, a "
             "number within 10 bytes and 64 bits";
    case CodecOutcome::kMalformedTag:
      return "a field number is from 1 to 2^29 - 1";
    case CodecOutcome::kUnsupportedWireType:
      return "a wire type is 0, 1, 2 or 5";
    case CodecOutcome::kTruncatedField:
      return "a field ends within its message";
    case CodecOutcome::kWrongWireType:
      return "a known field has the wire type of its definition";
    case CodecOutcome::kValueOutOfRange:
      return "a number is within the range of its field";
    case CodecOutcome::kNameTooLong:
      return "a name has at most 255 bytes";
    case CodecOutcome::kReasonTooLong:
      return "a reason has at most 1024 bytes";
    case CodecOutcome::kTooManyRings:
      return "a message has at most 253 rings";
    case CodecOutcome::kTooManyBuffers:
      return "a message has at most 1024 buffers";
    case CodecOutcome::kTooManyNames:
      return "a list of names or patterns has at most 1024 entries";
    case CodecOutcome::kTooManyProducers:
      return "a message has at most 1024 producers";
    case CodecOutcome::kTooManyCauses:
      return "losses have at most 64 causes";
    case CodecOutcome::kSeveralMessages:
      return "a datagram holds one message";
    case CodecOutcome::kNoMessage:
      return "a message of an unknown kind cannot be sent";
  }
  return "unknown rule";
}

static_assert(kMaxMessageSize == 65536 && kMaxNameSize == 255 &&
                  kMaxReasonSize == 1024 && kMaxRingsPerMessage == 253 &&
                  kMaxBuffersPerMessage == 1024 &&
                  kMaxNamesPerMessage == 1024 &&
                  kMaxProducersPerMessage == 1024 && kMaxLossCauses == 64,
              "the rules in words above and docs/control.proto say so");

}  // namespace tracering::control
