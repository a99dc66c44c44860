// The rules of docs/control.proto that a protobuf library does not know:
// limits, refusals with their reason, and what is ignored.
#include "src/common/control/codec.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/common/control/control_proto.h"

namespace tracering::control {
namespace {

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

CodecOutcome DecodeFromProducer(std::string_view bytes) {
  ProducerMessage message = Goodbye{};
  const CodecOutcome outcome =
      DecodeProducerMessage(ExactBytes(bytes).view(), &message);
  if (outcome != CodecOutcome::kOk) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(message));
  }
  return outcome;
}

CodecOutcome DecodeFromConsumer(std::string_view bytes) {
  ConsumerMessage message = Reject{"stale"};
  const CodecOutcome outcome =
      DecodeConsumerMessage(ExactBytes(bytes).view(), &message);
  if (outcome != CodecOutcome::kOk) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(message));
  }
  return outcome;
}

// A message at a limit goes both ways; one beyond it goes neither way.
void ExpectAllowed(const ProducerMessage& message) {
  std::string bytes;
  EXPECT_EQ(EncodeProducerMessage(message, &bytes), CodecOutcome::kOk);
  EXPECT_EQ(DecodeFromProducer(ToProto(message).SerializeAsString()),
            CodecOutcome::kOk);
}
void ExpectRefused(const ProducerMessage& message, CodecOutcome why) {
  std::string bytes = "stale";
  EXPECT_EQ(EncodeProducerMessage(message, &bytes), why);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(DecodeFromProducer(ToProto(message).SerializeAsString()), why);
}
void ExpectAllowed(const ConsumerMessage& message) {
  std::string bytes;
  EXPECT_EQ(EncodeConsumerMessage(message, &bytes), CodecOutcome::kOk);
  EXPECT_EQ(DecodeFromConsumer(ToProto(message).SerializeAsString()),
            CodecOutcome::kOk);
}
void ExpectRefused(const ConsumerMessage& message, CodecOutcome why) {
  std::string bytes = "stale";
  EXPECT_EQ(EncodeConsumerMessage(message, &bytes), why);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(DecodeFromConsumer(ToProto(message).SerializeAsString()), why);
}

TEST(CodecTest, HelloHasTheseBytes) {
  Hello hello;
  hello.abi_version_min = 1;
  hello.abi_version_max = 2;
  hello.process_name = "app";
  hello.pid = 300;
  hello.rings = {{4, 256, RingRole::kOwnBuffer, 1}};
  hello.buffers = {{2, "main"}};
  std::string bytes;
  ASSERT_EQ(EncodeProducerMessage(hello, &bytes), CodecOutcome::kOk);
  EXPECT_EQ(bytes, Bytes({0x0a, 33,                     // hello
                          0x08, 1,    0x10, 2,          // versions
                          0x1a, 3,    'a',  'p',  'p',  // process_name
                          0x20, 0xac, 0x02,             // pid
                          0x2a, 9,                      // rings[0]
                          0x08, 4,    0x10, 0x80, 0x02, 0x18, 1,  //
                          0x20, 1,                                //
                          0x32, 8,                                // buffers[0]
                          0x08, 2,    0x12, 4,    'm',  'a',  'i', 'n'}));
}

TEST(CodecTest, MessageOfExactly64KiBGoesBothWaysAndOneByteMoreNeither) {
  // Tag and length of the message: 4 bytes; of a name: 2, or 3 from 128 on.
  SetEnabled set;
  set.patterns.assign(254, std::string(255, 'p'));
  ASSERT_EQ(4u + 254 * (3 + 255), kMaxMessageSize);
  std::string bytes;
  ASSERT_EQ(EncodeConsumerMessage(set, &bytes), CodecOutcome::kOk);
  ASSERT_EQ(bytes.size(), kMaxMessageSize);
  ExpectAllowed(set);

  set.patterns.back().resize(154);
  set.patterns.emplace_back(100, 'q');
  ASSERT_EQ(ToProto(set).SerializeAsString().size(), kMaxMessageSize + 1);
  ExpectRefused(set, CodecOutcome::kMessageTooLarge);
}

TEST(CodecTest, StatsAreLimitedToWhatOneDatagramCarries) {
  ServiceStats stats;
  stats.gone.emplace().lost.assign(kMaxLossCauses, 1);
  stats.producers.resize(kMaxProducersPerMessage);
  stats.producers[0].rings.resize(kMaxRingsPerMessage);
  stats.producers[1].name = std::string(kMaxNameSize, 'n');
  ExpectAllowed(stats);
  ServiceStats refused = stats;
  refused.gone->lost.push_back(1);
  ExpectRefused(refused, CodecOutcome::kTooManyCauses);
  refused = stats;
  refused.producers.emplace_back();
  ExpectRefused(refused, CodecOutcome::kTooManyProducers);
  refused = stats;
  refused.producers[0].rings.emplace_back();
  ExpectRefused(refused, CodecOutcome::kTooManyRings);
  refused = stats;
  refused.producers[1].name += 'n';
  ExpectRefused(refused, CodecOutcome::kNameTooLong);
}

TEST(CodecTest, RingsAreLimitedToWhatOneDatagramCarries) {
  const std::vector<RingInfo> rings(253, RingInfo{64, 4096, {}, 7});
  Hello hello;
  hello.rings = rings;
  AddRings add;
  add.rings = rings;
  ExpectAllowed(hello);
  ExpectAllowed(add);
  hello.rings.emplace_back();
  add.rings.emplace_back();
  ExpectRefused(hello, CodecOutcome::kTooManyRings);
  ExpectRefused(add, CodecOutcome::kTooManyRings);
}

// We took a role above 2^31-1 and passed it on in five bytes, where a protobuf
// library writes and reads a negative enum of ten.
TEST(CodecTest, RoleIsANumberThatAProtobufEnumCanHave) {
  AddRings add;
  add.rings = {RingInfo{4, 256, static_cast<RingRole>(kMaxRingRole), 0}};
  ExpectAllowed(add);
  add.rings[0].role = static_cast<RingRole>(kMaxRingRole + 1);
  ExpectRefused(add, CodecOutcome::kValueOutOfRange);
  EXPECT_EQ(DecodeFromProducer(Bytes({0x12, 8, 0x0a, 6,  // add_rings.rings[0]
                                      0x18, 0x80, 0x80, 0x80, 0x80, 0x08})),
            CodecOutcome::kValueOutOfRange);
}

TEST(CodecTest, BuffersAreLimitedTo1024) {
  Hello hello;
  hello.buffers.assign(1024, BufferInfo{65535, "name"});
  AddBuffers add;
  add.buffers = hello.buffers;
  ExpectAllowed(hello);
  ExpectAllowed(add);
  hello.buffers.emplace_back();
  add.buffers.emplace_back();
  ExpectRefused(hello, CodecOutcome::kTooManyBuffers);
  ExpectRefused(add, CodecOutcome::kTooManyBuffers);
}

TEST(CodecTest, ListsOfNamesAreLimitedTo1024Each) {
  Welcome welcome;
  welcome.unknown_buffers.assign(1024, "b");
  welcome.enabled_categories.assign(1024, "c");
  SetEnabled set;
  set.patterns.assign(1024, "");
  ExpectAllowed(welcome);
  ExpectAllowed(set);
  Welcome many_buffers = welcome;
  many_buffers.unknown_buffers.emplace_back();
  Welcome many_categories = welcome;
  many_categories.enabled_categories.emplace_back();
  set.patterns.emplace_back();
  ExpectRefused(many_buffers, CodecOutcome::kTooManyNames);
  ExpectRefused(many_categories, CodecOutcome::kTooManyNames);
  ExpectRefused(set, CodecOutcome::kTooManyNames);
}

TEST(CodecTest, NamesAreLimitedTo255BytesWhereverTheyStand) {
  const std::string longest(255, 'n');
  const std::string too_long(256, 'n');
  const auto hello = [](const std::string& name) {
    Hello message;
    message.process_name = name;
    return message;
  };
  const auto add = [](const std::string& name) {
    AddBuffers message;
    message.buffers = {{1, name}};
    return message;
  };
  const auto welcome = [](std::vector<std::string> buffers,
                          std::vector<std::string> categories) {
    Welcome message;
    message.unknown_buffers = std::move(buffers);
    message.enabled_categories = std::move(categories);
    return message;
  };
  ExpectAllowed(hello(longest));
  ExpectAllowed(add(longest));
  ExpectAllowed(Trigger{longest});
  ExpectAllowed(welcome({longest}, {longest}));
  ExpectAllowed(SetEnabled{{longest}});
  ExpectRefused(hello(too_long), CodecOutcome::kNameTooLong);
  ExpectRefused(add(too_long), CodecOutcome::kNameTooLong);
  ExpectRefused(Trigger{too_long}, CodecOutcome::kNameTooLong);
  ExpectRefused(welcome({too_long}, {}), CodecOutcome::kNameTooLong);
  ExpectRefused(welcome({}, {too_long}), CodecOutcome::kNameTooLong);
  ExpectRefused(SetEnabled{{too_long}}, CodecOutcome::kNameTooLong);
}

TEST(CodecTest, ReasonIsLimitedTo1024Bytes) {
  ExpectAllowed(Reject{std::string(1024, 'r')});
  ExpectRefused(Reject{std::string(1025, 'r')}, CodecOutcome::kReasonTooLong);
}

TEST(CodecTest, NothingIsEncodedForAnUnknownMessage) {
  std::string bytes = "stale";
  EXPECT_EQ(EncodeProducerMessage(ProducerMessage(), &bytes),
            CodecOutcome::kNoMessage);
  EXPECT_TRUE(bytes.empty());
  bytes = "stale";
  EXPECT_EQ(EncodeConsumerMessage(ConsumerMessage(), &bytes),
            CodecOutcome::kNoMessage);
  EXPECT_TRUE(bytes.empty());
}

TEST(CodecTest, UnknownKindOfMessageIsNoErrorAndNoMessage) {
  for (const std::string& bytes :
       {std::string(), Bytes({0x3a, 2, 0xff, 0xff}), Bytes({0x38, 1})}) {
    ProducerMessage from_producer = Goodbye{};
    EXPECT_EQ(DecodeProducerMessage(bytes, &from_producer), CodecOutcome::kOk);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(from_producer));
    ConsumerMessage from_consumer = Reject{};
    EXPECT_EQ(DecodeConsumerMessage(bytes, &from_consumer), CodecOutcome::kOk);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(from_consumer));
  }
}

TEST(CodecTest, LastOneOfARepeatedSingularFieldCounts) {
  ProducerMessage message;
  // trigger { name: "old" name: "new" }
  ASSERT_EQ(DecodeProducerMessage(Bytes({0x22, 10, 0x0a, 3, 'o', 'l', 'd',  //
                                         0x0a, 3, 'n', 'e', 'w'}),
                                  &message),
            CodecOutcome::kOk);
  EXPECT_EQ(std::get<Trigger>(message).name, "new");
}

TEST(CodecTest, MalformedBytesAreRefusedWithTheirRule) {
  struct Case {
    std::string bytes;
    CodecOutcome why;
  };
  const std::vector<Case> cases = {
      // Tags.
      {Bytes({0x80}), CodecOutcome::kMalformedVarint},
      {Bytes({0x80, 0x80, 0x80, 0x80, 0x80, 0x01}),
       CodecOutcome::kMalformedVarint},
      {Bytes({0x00, 0x01}), CodecOutcome::kMalformedTag},
      {Bytes({0x02, 0x00}), CodecOutcome::kMalformedTag},
      {Bytes({0xf8, 0xff, 0xff, 0xff, 0x1f, 0x00}),
       CodecOutcome::kMalformedTag},
      // Groups, and what is no wire type.
      {Bytes({0x0b, 0x0c}), CodecOutcome::kUnsupportedWireType},
      {Bytes({0x7b, 0x7c}), CodecOutcome::kUnsupportedWireType},
      {Bytes({0x0c}), CodecOutcome::kUnsupportedWireType},
      {Bytes({0x0e}), CodecOutcome::kUnsupportedWireType},
      {Bytes({0x0f}), CodecOutcome::kUnsupportedWireType},
      // Lengths.
      {Bytes({0x0a}), CodecOutcome::kMalformedVarint},
      {Bytes({0x0a, 1}), CodecOutcome::kTruncatedField},
      {Bytes({0x3a, 1}), CodecOutcome::kTruncatedField},
      {Bytes({0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}),
       CodecOutcome::kTruncatedField},
      {Bytes({0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}),
       CodecOutcome::kMalformedVarint},
      // Unknown fields of fixed size.
      {Bytes({0x3d, 1, 2, 3}), CodecOutcome::kTruncatedField},
      {Bytes({0x39, 1, 2, 3, 4, 5, 6, 7}), CodecOutcome::kTruncatedField},
      // hello { pid: ... }
      {Bytes({0x0a, 2, 0x20, 0x80}), CodecOutcome::kMalformedVarint},
      {Bytes({0x0a, 12, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
              0xff, 0xff, 0x01}),
       CodecOutcome::kMalformedVarint},
      {Bytes({0x0a, 6, 0x20, 0x80, 0x80, 0x80, 0x80, 0x10}),
       CodecOutcome::kValueOutOfRange},
      // A field that ends beyond its message, within the datagram.
      {Bytes({0x22, 3, 0x0a, 2, 'x', 'y'}), CodecOutcome::kTruncatedField},
      // add_buffers { buffers { id: 65536 } }
      {Bytes({0x1a, 6, 0x0a, 4, 0x08, 0x80, 0x80, 0x04}),
       CodecOutcome::kValueOutOfRange},
      // Known fields of another type: hello as a number, pid as a string, a
      // ring as a number, a name as fixed32.
      {Bytes({0x08, 1}), CodecOutcome::kWrongWireType},
      {Bytes({0x0a, 3, 0x22, 1, 'x'}), CodecOutcome::kWrongWireType},
      {Bytes({0x0a, 2, 0x28, 1}), CodecOutcome::kWrongWireType},
      {Bytes({0x22, 5, 0x0d, 1, 2, 3, 4}), CodecOutcome::kWrongWireType},
      // Goodbye twice; a trigger and a goodbye.
      {Bytes({0x2a, 0, 0x2a, 0}), CodecOutcome::kSeveralMessages},
      {Bytes({0x22, 0, 0x2a, 0}), CodecOutcome::kSeveralMessages},
      // Too large by one byte, even if all of it could be skipped.
      {Bytes({0x3a, 0xfd, 0xff, 0x03}) + std::string(65533, '\0'),
       CodecOutcome::kMessageTooLarge},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(DecodeFromProducer(test.bytes), test.why)
        << testing::PrintToString(test.bytes.substr(0, 16)) << ": "
        << CodecRule(test.why);
  }
}

TEST(CodecTest, PaddedNumbersAreAccepted) {
  ProducerMessage message;
  // hello { pid: 5 }, the number in 10 bytes, its tag and the length in 5.
  ASSERT_EQ(DecodeProducerMessage(Bytes({0x0a, 0x8f, 0x80, 0x80, 0x80, 0x00,  //
                                         0xa0, 0x80, 0x80, 0x80, 0x00,        //
                                         0x85, 0x80, 0x80, 0x80, 0x80, 0x80,
                                         0x80, 0x80, 0x80, 0x00}),
                                  &message),
            CodecOutcome::kOk);
  EXPECT_EQ(std::get<Hello>(message).pid, 5u);
}

TEST(CodecTest, DescriptorsAreCountedPerRingAndWithWelcomeOnly) {
  Hello hello;
  hello.rings.resize(3);
  AddRings add;
  add.rings.resize(2);
  EXPECT_EQ(NumFds(ProducerMessage(hello)), 3u);
  EXPECT_EQ(NumFds(ProducerMessage(add)), 2u);
  EXPECT_EQ(NumFds(ProducerMessage(AddBuffers{{{1, "b"}}})), 0u);
  EXPECT_EQ(NumFds(ProducerMessage(Trigger{"t"})), 0u);
  EXPECT_EQ(NumFds(ProducerMessage(Goodbye{})), 0u);
  EXPECT_EQ(NumFds(ProducerMessage()), 0u);
  EXPECT_EQ(NumFds(ConsumerMessage(Welcome{})), 1u);
  EXPECT_EQ(NumFds(ConsumerMessage(Reject{"r"})), 0u);
  EXPECT_EQ(NumFds(ConsumerMessage(SetEnabled{{"*"}})), 0u);
  EXPECT_EQ(NumFds(ProducerMessage(StatsRequest{1})), 0u);
  EXPECT_EQ(NumFds(ConsumerMessage(ServiceStats{})), 0u);
  EXPECT_EQ(NumFds(ConsumerMessage()), 0u);
}

TEST(CodecTest, EveryOutcomeHasWordsOfItsOwn) {
  std::set<std::string> rules;
  for (int i = 0; i <= static_cast<int>(CodecOutcome::kNoMessage); ++i) {
    rules.insert(CodecRule(static_cast<CodecOutcome>(i)));
  }
  EXPECT_EQ(rules.size(), static_cast<size_t>(CodecOutcome::kNoMessage) + 1);
  EXPECT_EQ(rules.count("unknown rule"), 0u);
}

}  // namespace
}  // namespace tracering::control
