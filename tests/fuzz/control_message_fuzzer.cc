// Any bytes as a control message, in both directions, against a real protobuf
// library: what we accept means the same to it, is accepted again once encoded,
// and then has one form only.
#include <string>
#include <variant>

#include "src/common/control/codec.h"
#include "tests/common/control/control_proto.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tracering::test {
namespace {

using control::CodecOutcome;

template <typename Direction>
std::string DecodeAndCompare(const std::string& bytes) {
  typename Direction::Message message;
  const CodecOutcome outcome = Direction::Decode(bytes, &message);
  if (outcome != CodecOutcome::kOk) {
    if (!std::holds_alternative<std::monostate>(message)) {
      return "a refused message left something behind";
    }
    return control::CodecRule(outcome)[0] == '\0' ? "a rule without words" : "";
  }

  typename Direction::Proto parsed;
  if (!parsed.ParseFromString(bytes)) return "accepted what is not protobuf";
  parsed.DiscardUnknownFields();
  const std::string expected = parsed.SerializeAsString();
  if (control::ToProto(message).SerializeAsString() != expected) {
    return "not what protobuf reads: " + parsed.ShortDebugString();
  }

  std::string encoded;
  const CodecOutcome again = Direction::Encode(message, &encoded);
  if (std::holds_alternative<std::monostate>(message)) {
    return again == CodecOutcome::kNoMessage ? "" : "nothing was encoded";
  }
  // Shorter than what came: it cannot be too large.
  if (again != CodecOutcome::kOk) {
    return std::string("cannot be sent again: ") + control::CodecRule(again);
  }
  if (encoded != expected) return "encoded otherwise than protobuf does";
  return "";
}

}  // namespace

std::string FuzzControlMessage(const uint8_t* bytes, size_t size) {
  const std::string input(reinterpret_cast<const char*>(bytes), size);
  std::string wrong = DecodeAndCompare<control::ProducerToConsumer>(input);
  if (wrong.empty()) {
    wrong = DecodeAndCompare<control::ConsumerToProducer>(input);
  }
  return wrong;
}

}  // namespace tracering::test
