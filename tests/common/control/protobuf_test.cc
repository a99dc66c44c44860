// Our bytes against a real protobuf library, in both directions and on broken
// input: what we accept it must accept too, with the same meaning.
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "src/common/control/codec.h"
#include "tests/common/control/control_proto.h"

namespace tracering::control {
namespace {

constexpr uint32_t kMax32 = 0xffff'ffff;
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

std::vector<ProducerMessage> Samples(ProducerToConsumer) {
  Hello hello;
  hello.abi_version_min = 1;
  hello.abi_version_max = 7;
  hello.process_name = std::string("render\0server", 13);
  hello.pid = 4711;
  hello.rings = {{64, 4096, RingRole::kShared, 0},
                 {2, 256, RingRole::kOwnBuffer, 1},
                 {kMax32, kMax32, RingRole::kDescriptors, kMax32},
                 {0, 0, static_cast<RingRole>(99), 0}};
  hello.buffers = {
      {0, "main"}, {1, ""}, {65535, std::string(kMaxNameSize, '\xff')}};
  AddRings add_rings;
  add_rings.rings = {{128, 1024, RingRole::kOwnBuffer, 300}};
  AddBuffers add_buffers;
  add_buffers.buffers = {{300, "sched"}, {301, "\x04\x04"}};
  return {Hello{},      hello,          AddRings{},          add_rings,
          AddBuffers{}, add_buffers,    Trigger{},           Trigger{"jank"},
          Goodbye{},    StatsRequest{}, StatsRequest{kMax64}};
}

std::vector<ConsumerMessage> Samples(ConsumerToProducer) {
  Welcome welcome;
  welcome.abi_version = 3;
  welcome.unknown_buffers = {"sched", "", "gpu"};
  welcome.enabled_categories = {"*", "render.*", std::string(255, 'x')};
  SetEnabled set;
  set.patterns = {"a*", "", "b?"};
  ServiceStats stats;
  stats.producers.resize(2);
  stats.producers[0].id = kMax64;
  stats.producers[0].name = std::string(kMaxNameSize, 'n');
  stats.producers[0].pid = kMax32;
  stats.producers[0].uid = 1000;
  stats.producers[0].packets = PacketInfo{1, kMax64, {0, 5, kMax64}};
  stats.producers[0].rings = {{2, 1, true}, {kMax32, kMax32, false}};
  stats.more = true;
  stats.gone = PacketInfo{7, 8, std::vector<uint64_t>(kMaxLossCauses, 3)};
  stats.producers_seen = kMax64;
  stats.producers_refused = 2;
  stats.rings_stopped = 3;
  return {Welcome{},    welcome, Reject{},       Reject{std::string(1024, 'r')},
          SetEnabled{}, set,     ServiceStats{}, stats};
}

template <typename Direction>
std::string Encoded(const typename Direction::Message& message) {
  std::string bytes;
  EXPECT_EQ(Direction::Encode(message, &bytes), CodecOutcome::kOk);
  return bytes;
}

// Adds a field of every wire type that may be skipped, with numbers that no
// version has used, to `message` and to all that is nested in it.
void AddUnknownFields(google::protobuf::Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() !=
        google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      AddUnknownFields(reflection->MutableMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      AddUnknownFields(reflection->MutableRepeatedMessage(message, field, i));
    }
  }
  auto* unknown = reflection->MutableUnknownFields(message);
  unknown->AddVarint(1000, ~uint64_t{0});
  unknown->AddFixed32(1001, 0x04040404);
  unknown->AddFixed64(1002, 0x0404040404040404);
  unknown->AddLengthDelimited(536'870'911, std::string(300, '\x04'));
}

// A message and all its unknown fields, without tag and length.
struct Content {
  int number = 0;
  std::string bytes;
};

template <typename Direction>
Content ExtendedContent(const typename Direction::Message& message) {
  auto extended = ToProto(message);
  AddUnknownFields(&extended);
  const auto* field =
      extended.GetDescriptor()->FindFieldByNumber(int(message.index()));
  return {field->number(), extended.GetReflection()
                               ->GetMessage(extended, field)
                               .SerializeAsString()};
}

// Any bytes as a message of the right length.
std::string Datagram(const Content& content) {
  google::protobuf::UnknownFieldSet fields;
  fields.AddLengthDelimited(content.number, content.bytes);
  std::string bytes;
  EXPECT_TRUE(fields.SerializeToString(&bytes));
  return bytes;
}

// Changes a few bytes at random.
class Mutator {
 public:
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }

  void Mutate(std::string* bytes) {
    for (size_t left = 1 + Below(4); left != 0; --left) {
      const size_t at = Below(bytes->size() + 1);
      const auto byte = static_cast<char>(Below(256));
      switch (Below(5)) {
        case 0:
          if (at < bytes->size())
            (*bytes)[at] ^= static_cast<char>(1 << Below(8));
          break;
        case 1:
          if (at < bytes->size()) (*bytes)[at] = byte;
          break;
        case 2:
          bytes->insert(at, 1 + Below(12), byte);
          break;
        case 3:
          bytes->erase(at, 1 + Below(4));
          break;
        case 4:
          bytes->insert(at, bytes->substr(Below(bytes->size() + 1), Below(64)));
          break;
      }
    }
  }

 private:
  std::mt19937 random_{20240229};
};

template <typename Direction>
class ProtobufTest : public testing::Test {
 protected:
  using Message = typename Direction::Message;
  using Proto = typename Direction::Proto;

  // Accepted input must be valid protobuf with the same content.
  static void ExpectSameMeaning(const std::string& bytes,
                                const Message& message) {
    Proto parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    parsed.DiscardUnknownFields();
    EXPECT_EQ(parsed.SerializeAsString(), ToProto(message).SerializeAsString());
  }
};

using Directions = testing::Types<ProducerToConsumer, ConsumerToProducer>;
TYPED_TEST_SUITE(ProtobufTest, Directions, );  // clang -Wpedantic

TYPED_TEST(ProtobufTest, ReadsWhatWeEncode) {
  for (const auto& message : Samples(TypeParam())) {
    SCOPED_TRACE(message.index());
    const std::string bytes = Encoded<TypeParam>(message);
    typename TypeParam::Proto parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    EXPECT_EQ(parsed.DebugString(), ToProto(message).DebugString());
    EXPECT_EQ(bytes, ToProto(message).SerializeAsString());
  }
}

TYPED_TEST(ProtobufTest, WritesWhatWeDecode) {
  for (const auto& message : Samples(TypeParam())) {
    SCOPED_TRACE(message.index());
    const std::string bytes = ToProto(message).SerializeAsString();
    typename TypeParam::Message decoded;
    ASSERT_EQ(TypeParam::Decode(bytes, &decoded), CodecOutcome::kOk);
    EXPECT_EQ(decoded.index(), message.index());
    EXPECT_EQ(ToProto(decoded).DebugString(), ToProto(message).DebugString());
  }
}

TYPED_TEST(ProtobufTest, FieldsOfANewerPeerAreSkippedAtEveryLevel) {
  for (const auto& message : Samples(TypeParam())) {
    SCOPED_TRACE(message.index());
    auto extended = ToProto(message);
    AddUnknownFields(&extended);
    const std::string bytes = extended.SerializeAsString();
    ASSERT_GT(bytes.size(), Encoded<TypeParam>(message).size() + 300);
    typename TypeParam::Message decoded;
    ASSERT_EQ(TypeParam::Decode(bytes, &decoded), CodecOutcome::kOk);
    EXPECT_EQ(ToProto(decoded).DebugString(), ToProto(message).DebugString());
  }
}

TYPED_TEST(ProtobufTest, MessageCutAtAnyByteIsRefused) {
  for (const auto& message : Samples(TypeParam())) {
    const std::string bytes = Encoded<TypeParam>(message);
    for (size_t size = 1; size < bytes.size(); ++size) {
      typename TypeParam::Message decoded;
      EXPECT_NE(
          TypeParam::Decode(std::string_view(bytes).substr(0, size), &decoded),
          CodecOutcome::kOk)
          << "message " << message.index() << " cut at " << size;
      EXPECT_TRUE(std::holds_alternative<std::monostate>(decoded));
    }
  }
}

// The outer length is right here, so that it is the inner fields that end too
// early; some cuts fall between two of them and are valid.
TYPED_TEST(ProtobufTest, ContentCutAtAnyByteMeansTheSameOrIsRefused) {
  int accepted = 0;
  int refused = 0;
  for (const auto& message : Samples(TypeParam())) {
    const Content content = ExtendedContent<TypeParam>(message);
    for (size_t size = 0; size <= content.bytes.size(); ++size) {
      const std::string bytes =
          Datagram({content.number, content.bytes.substr(0, size)});
      typename TypeParam::Message decoded;
      if (TypeParam::Decode(bytes, &decoded) == CodecOutcome::kOk) {
        ++accepted;
        TestFixture::ExpectSameMeaning(bytes, decoded);
      } else {
        ++refused;
        EXPECT_FALSE(typename TypeParam::Proto().ParseFromString(bytes))
            << "message " << message.index() << " cut at " << size;
      }
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 500);
}

// Does not prove that every valid message is accepted: we are stricter than
// protobuf on purpose (docs/control.proto).
TYPED_TEST(ProtobufTest, MutatedBytesMeanTheSameOrAreRefused) {
  Mutator mutator;
  std::vector<Content> corpus;
  for (const auto& message : Samples(TypeParam())) {
    corpus.push_back(ExtendedContent<TypeParam>(message));
    corpus.push_back({int(message.index()), ""});
  }
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 100'000; ++round) {
    Content content = corpus[mutator.Below(corpus.size())];
    mutator.Mutate(&content.bytes);
    std::string bytes = Datagram(content);
    if (mutator.Below(4) == 0) mutator.Mutate(&bytes);
    typename TypeParam::Message decoded;
    const CodecOutcome outcome = TypeParam::Decode(bytes, &decoded);
    if (outcome != CodecOutcome::kOk) {
      ++refused;
      EXPECT_TRUE(std::holds_alternative<std::monostate>(decoded));
      continue;
    }
    ++accepted;
    ASSERT_NO_FATAL_FAILURE(TestFixture::ExpectSameMeaning(bytes, decoded))
        << "round " << round;
  }
  EXPECT_GT(accepted, 10'000);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace tracering::control
