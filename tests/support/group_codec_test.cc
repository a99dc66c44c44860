// The oracle for the group encoding is itself held against libprotobuf.
#include "tests/support/group_codec.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "tests/support/all_types.pb.h"

namespace tracering::test {
namespace {

using google::protobuf::util::MessageDifferencer;

std::string ErrorOf(std::string_view packet, int max_depth = 1024) {
  std::string error;
  EXPECT_FALSE(ParseGroups(packet, &error, max_depth).has_value());
  return error;
}

TEST(GroupCodecTest, NestedMessageIsATagItsFieldsAndTheClosingByte) {
  AllTypes message;
  message.set_uint64_value(300);
  message.mutable_child()->set_bool_value(true);
  message.mutable_child()->set_string_value("\x04\x04");
  // 4: varint 300. 17: start group, 7: 1, 15: two bytes, close.
  const std::string expected(
      "\x20\xac\x02"
      "\x8b\x01\x38\x01\x7a\x02\x04\x04\x04",
      12);
  EXPECT_EQ(EncodeWithGroups(message), expected);
}

TEST(GroupCodecTest, TurnsGroupsIntoLengths) {
  const std::string packet("\x8b\x01\x38\x01\x04", 5);
  const auto protobuf = GroupsToProtobuf(packet);
  ASSERT_TRUE(protobuf.has_value());
  EXPECT_EQ(*protobuf, std::string("\x8a\x01\x02\x38\x01", 5));
}

// The example of docs/abi.md.
TEST(GroupCodecTest, DocumentedTrackEvent) {
  const std::string packet("\x5b\x48\x01\xba\x01\x01\x61\x04", 8);
  EXPECT_EQ(GroupsToProtobuf(packet),
            std::string("\x5a\x06\x48\x01\xba\x01\x01\x61", 8));
}

TEST(GroupCodecTest, EmptyPacketAndEmptyMessageAreValid) {
  EXPECT_EQ(GroupsToProtobuf(""), "");
  EXPECT_EQ(GroupsToProtobuf(std::string("\x8b\x01\x04", 3)),
            std::string("\x8a\x01\x00", 3));
}

TEST(GroupCodecTest, VarintsBecomeMinimal) {
  // Field 4 with the tag and the value padded.
  const std::string padded("\xa0\x80\x00\x85\x80\x00", 6);
  EXPECT_EQ(GroupsToProtobuf(padded), std::string("\x20\x05", 2));
}

TEST(GroupCodecTest, RandomMessagesOfEveryTypeComeBackEqual) {
  std::mt19937_64 random(20221);
  size_t nested = 0;
  for (int i = 0; i < 300; ++i) {
    AllTypes message;
    FillRandomly(&message, random, 4);
    nested += message.children_size();
    const auto protobuf = GroupsToProtobuf(EncodeWithGroups(message));
    ASSERT_TRUE(protobuf.has_value()) << message.DebugString();
    AllTypes back;
    ASSERT_TRUE(back.ParseFromString(*protobuf));
    ASSERT_TRUE(MessageDifferencer::Equals(message, back))
        << message.DebugString();
  }
  EXPECT_GT(nested, 100u);
}

TEST(GroupCodecTest, RejectsWhatARewriterMustReject) {
  EXPECT_EQ(ErrorOf("\x04"), "closing byte at the root");
  EXPECT_EQ(ErrorOf("\x8b\x01"), "message never closed");
  EXPECT_EQ(ErrorOf(std::string("\x00\x00", 2)), "field number 0");
  // Field number 2^29.
  EXPECT_EQ(ErrorOf(std::string("\x80\x80\x80\x80\x10\x00", 6)),
            "field number above 2^29-1");
  EXPECT_EQ(ErrorOf("\x0c"), "wire type that has no meaning");
  EXPECT_EQ(ErrorOf("\x0e"), "wire type that has no meaning");
  EXPECT_EQ(ErrorOf("\x0f"), "wire type that has no meaning");
  EXPECT_EQ(ErrorOf("\x08\x80"), "varint past the end");
  EXPECT_EQ(ErrorOf("\x08" + std::string(10, '\xff') + "\x01"),
            "varint of more than 64 bits");
  EXPECT_EQ(ErrorOf("\x7a\x03"
                    "ab"),
            "length past the end");
  EXPECT_EQ(ErrorOf("\x4d"
                    "abc"),
            "number past the end");
  EXPECT_EQ(ErrorOf("\x51"
                    "abcdefg"),
            "number past the end");
}

TEST(GroupCodecTest, TenBytesHoldEvery64BitVarint) {
  const std::string packet = "\x20" + std::string(9, '\xff') + "\x01";
  const auto fields = ParseGroups(packet);
  ASSERT_TRUE(fields.has_value());
  EXPECT_EQ(fields->at(0).value, ~uint64_t{0});
}

TEST(GroupCodecTest, BoundsTheNesting) {
  const auto nested = [](int depth) {
    std::string packet;
    for (int i = 0; i < depth; ++i) packet += "\x0b";
    return packet + std::string(depth, '\x04');
  };
  EXPECT_TRUE(ParseGroups(nested(1024)).has_value());
  EXPECT_EQ(ErrorOf(nested(1025)), "nested too deeply");
  EXPECT_EQ(ErrorOf(nested(3), 2), "nested too deeply");
}

}  // namespace
}  // namespace tracering::test
