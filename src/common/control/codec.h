// Control messages to bytes and back, by hand: the shipped libraries do not
// link a protobuf runtime.
//
// Trust: the bytes may be anything. Decoding reads within bounds, needs time
// and memory in proportion to the 64 KiB that it accepts at most, nests no
// deeper than the messages do, and skips fields that it does not know.
// Thread-safe; no I/O; the only allocations are the results.
#ifndef TRACERING_SRC_COMMON_CONTROL_CODEC_H_
#define TRACERING_SRC_COMMON_CONTROL_CODEC_H_

#include <string>
#include <string_view>

#include "src/common/control/messages.h"

namespace tracering::control {

enum class CodecOutcome {
  kOk,
  kMessageTooLarge,
  kMalformedVarint,
  kMalformedTag,
  kUnsupportedWireType,
  kTruncatedField,
  kWrongWireType,
  kValueOutOfRange,
  kNameTooLong,
  kReasonTooLong,
  kTooManyRings,
  kTooManyBuffers,
  kTooManyNames,
  kTooManyProducers,
  kTooManyCauses,
  kSeveralMessages,
  kNoMessage,
};

// The rule that was broken, in words, for error texts.
const char* CodecRule(CodecOutcome outcome);

// Replaces *bytes by the message. Refuses, leaving it empty, what the other
// side would refuse to decode: limits of messages.h, monostate (kNoMessage).
[[nodiscard]] CodecOutcome EncodeProducerMessage(const ProducerMessage& message,
                                                 std::string* bytes);
[[nodiscard]] CodecOutcome EncodeConsumerMessage(const ConsumerMessage& message,
                                                 std::string* bytes);

// Replaces *message by what `bytes` say; by monostate on a refusal, and where
// they hold only kinds of messages that this version does not know (kOk).
[[nodiscard]] CodecOutcome DecodeProducerMessage(std::string_view bytes,
                                                 ProducerMessage* message);
[[nodiscard]] CodecOutcome DecodeConsumerMessage(std::string_view bytes,
                                                 ConsumerMessage* message);

}  // namespace tracering::control

#endif  // TRACERING_SRC_COMMON_CONTROL_CODEC_H_
