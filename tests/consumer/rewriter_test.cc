// The rewriter on messages of every shape, on what it must reject, and at its
// limits.
#include "src/consumer/rewriter.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "tests/support/all_types.pb.h"
#include "tests/support/group_codec.h"
#include "tracering/internal/wire_format.h"

namespace tracering::internal {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::AllTypes;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string result;
  for (const int byte : bytes) result.push_back(static_cast<char>(byte));
  return result;
}

std::string Repeat(std::string_view bytes, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result.append(bytes);
  return result;
}

std::string VarintBytes(uint64_t value) {
  uint8_t bytes[kMaxVarintSize];
  return std::string(bytes, WriteVarint(bytes, value));
}

class RewriterTest : public testing::Test {
 protected:
  // The input sits in memory of exactly its size, so that reading past its end
  // is seen by a sanitizer. The output goes behind bytes that must survive.
  RewriteOutcome Run(std::string_view packet) {
    const auto exact = std::make_unique<uint8_t[]>(packet.size());
    std::copy(packet.begin(), packet.end(), exact.get());
    out_.Free();
    out_.Append("before", 6);
    const RewriteOutcome outcome =
        rewriter_.Rewrite(exact.get(), packet.size(), &out_);
    const std::string_view all(reinterpret_cast<const char*>(out_.data()),
                               out_.size());
    EXPECT_EQ(all.substr(0, 6), "before");
    output_ = all.substr(6);
    if (outcome != RewriteOutcome::kOk) {
      EXPECT_EQ(output_, "") << "output on rejection";
    }
    return outcome;
  }

  void ExpectOutput(std::string_view packet, std::string_view expected) {
    EXPECT_EQ(Run(packet), RewriteOutcome::kOk);
    EXPECT_EQ(output_, expected);
  }

  Rewriter rewriter_;
  ByteBuffer out_;
  std::string output_;
};

TEST_F(RewriterTest, NothingBecomesNothing) { ExpectOutput("", ""); }

TEST_F(RewriterTest, FlatFieldsStayAsTheyAre) {
  const std::string packet =
      Bytes({0x40, 0xac, 0x02}) +                      // 8: varint 300
      Bytes({0x49, 1, 2, 3, 4, 5, 6, 7, 8}) +          // 9: fixed64
      Bytes({0x65, 1, 2, 3, 4}) +                      // 12: fixed32
      Bytes({0x5a, 3, 'a', 'b', 'c', 0xa2, 0x38, 0});  // 11, 900: bytes
  ExpectOutput(packet, packet);
}

TEST_F(RewriterTest, NestedMessageGetsItsLength) {
  // 11 { 9: 1, 23: "hi" }
  ExpectOutput(Bytes({0x5b, 0x48, 1, 0xba, 1, 2, 'h', 'i', 0x04}),
               Bytes({0x5a, 7, 0x48, 1, 0xba, 1, 2, 'h', 'i'}));
}

TEST_F(RewriterTest, EmptyMessageHasLengthZero) {
  ExpectOutput(Bytes({0x5b, 0x04}), Bytes({0x5a, 0}));
}

TEST_F(RewriterTest, ClosingByteIsSpecialOnlyWhereATagMayStand) {
  // 11 { 23: "\x04\x04", 9: 4, 10: fixed64 of fours } then 8: 4
  ExpectOutput(Bytes({0x5b, 0xba, 1, 2, 4, 4, 0x48, 4,    0x51, 4,
                      4,    4,    4, 4, 4, 4, 4,    0x04, 0x40, 4}),
               Bytes({0x5a, 16, 0xba, 1, 2, 4, 4, 0x48, 4,    0x51,
                      4,    4,  4,    4, 4, 4, 4, 4,    0x40, 4}));
}

TEST_F(RewriterTest, LengthDelimitedPayloadIsNotLookedAt) {
  // What would be rejected as fields passes as bytes.
  const std::string packet = Bytes({0x5a, 4, 0x04, 0x07, 0x00, 0xff});
  ExpectOutput(packet, packet);
}

TEST_F(RewriterTest, LengthGrowsWhereOneByteIsNotEnough) {
  for (const size_t size :
       {124u, 125u, 126u, 127u, 128u, 16380u, 16381u, 16382u, 70000u}) {
    const std::string text = VarintBytes(size) + std::string(size, '\x04');
    const std::string body = Bytes({0xba, 1}) + text;
    ExpectOutput(
        Bytes({0x5b}) + body + Bytes({0x04, 0x40, 1}),
        Bytes({0x5a}) + VarintBytes(body.size()) + body + Bytes({0x40, 1}));
  }
}

TEST_F(RewriterTest, LengthOfAMessageCountsHowMuchThoseInItGrew) {
  // 11 { 11 { 124 bytes in all } } is 126 bytes; each byte more matters at two
  // levels. Siblings before and behind must not be disturbed.
  for (size_t size = 100; size < 150; ++size) {
    const std::string core =
        Bytes({0x12}) + VarintBytes(size) + std::string(size, 'x');
    const std::string inner = Bytes({0x5a}) + VarintBytes(core.size()) + core;
    const std::string outer = Bytes({0x5a, 0}) + inner + inner;
    const std::string expected = Bytes({0x5a, 0}) + Bytes({0x5a}) +
                                 VarintBytes(outer.size()) + outer +
                                 Bytes({0x5a, 0, 0x40, 7});
    const std::string group = Bytes({0x5b}) + core + Bytes({0x04});
    ExpectOutput(Bytes({0x5b, 0x04, 0x5b, 0x5b, 0x04}) + group + group +
                     Bytes({0x04, 0x5b, 0x04, 0x40, 7}),
                 expected);
  }
}

TEST_F(RewriterTest, PaddedVarintsBecomeMinimal) {
  // A tag, a value, a length, a start tag and a tag of two bytes, each padded.
  ExpectOutput(Bytes({0xc0, 0x80, 0x00, 0x05}), Bytes({0x40, 5}));
  ExpectOutput(Bytes({0x40, 0x85, 0x80, 0x00}), Bytes({0x40, 5}));
  ExpectOutput(Bytes({0x12, 0x82, 0x00, 'a', 'b'}), Bytes({0x12, 2, 'a', 'b'}));
  ExpectOutput(Bytes({0x40, 1, 0xdb, 0x00, 0x40, 2, 0x04}),
               Bytes({0x40, 1, 0x5a, 2, 0x40, 2}));
  ExpectOutput(Bytes({0xa0, 0xb8, 0x00, 0x01}), Bytes({0xa0, 0x38, 1}));
  // With more bytes behind, where varints are read eight bytes at a time.
  const std::string tail = Bytes({0x12, 12}) + std::string(12, 'z');
  for (int size = 2; size <= 10; ++size) {
    const std::string value =
        Bytes({0x81}) + std::string(static_cast<size_t>(size - 2), '\x80') +
        Bytes({0});
    ExpectOutput(Bytes({0x40}) + value + tail, Bytes({0x40, 1}) + tail);
  }
}

TEST_F(RewriterTest, ValuesOfEverySizePass) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const uint64_t value :
         {uint64_t{1} << shift, (uint64_t{1} << shift) - 1,
          ~uint64_t{0} >> shift}) {
      const std::string field = Bytes({0x40}) + VarintBytes(value);
      ExpectOutput(field, field);
      const std::string longer = field + field + field;
      ExpectOutput(longer, longer);
    }
  }
}

struct Rejection {
  std::string packet;
  RewriteOutcome outcome;
};

TEST_F(RewriterTest, RejectsWhatIsNotAPacket) {
  const std::string ten_bytes = std::string(9, '\xff');
  const Rejection rejections[] = {
      {Bytes({0x04}), RewriteOutcome::kCloseAtRoot},
      {Bytes({0x40, 1, 0x04}), RewriteOutcome::kCloseAtRoot},
      {Bytes({0x5b, 0x04, 0x04}), RewriteOutcome::kCloseAtRoot},
      {Bytes({0x5b}), RewriteOutcome::kUnclosedMessage},
      {Bytes({0x5b, 0x5b, 0x04}), RewriteOutcome::kUnclosedMessage},
      // Field number 0 with each wire type; a padded closing byte is no
      // closing byte.
      {Bytes({0x00, 1}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x01, 1, 1, 1, 1, 1, 1, 1, 1}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x02, 0}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x03, 0x04}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x05, 1, 1, 1, 1}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x06}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x07}), RewriteOutcome::kBadFieldNumber},
      {Bytes({0x5b, 0x84, 0x00}), RewriteOutcome::kBadFieldNumber},
      // Field 2^29 and above.
      {Bytes({0x80, 0x80, 0x80, 0x80, 0x10, 1}),
       RewriteOutcome::kBadFieldNumber},
      {ten_bytes + Bytes({0x01, 0}), RewriteOutcome::kBadFieldNumber},
      // Wire types 4, 6 and 7, with tags of one, two and five bytes.
      {Bytes({0x5c}), RewriteOutcome::kBadWireType},
      {Bytes({0x5b, 0x5c}), RewriteOutcome::kBadWireType},
      {Bytes({0x5e, 1}), RewriteOutcome::kBadWireType},
      {Bytes({0x5f, 1}), RewriteOutcome::kBadWireType},
      {Bytes({0x84, 0x01}), RewriteOutcome::kBadWireType},
      {Bytes({0xff, 0xff, 0xff, 0xff, 0x0f}), RewriteOutcome::kBadWireType},
      // Varints of 11 bytes, and of 10 with more than 64 bits.
      {Bytes({0x40}) + std::string(10, '\xff') + Bytes({0x00}),
       RewriteOutcome::kVarintTooLong},
      {Bytes({0x40}) + std::string(10, '\x80') + Bytes({0x00}),
       RewriteOutcome::kVarintTooLong},
      {std::string(10, '\x80') + Bytes({0x00}), RewriteOutcome::kVarintTooLong},
      {Bytes({0x40}) + ten_bytes + Bytes({0x02}),
       RewriteOutcome::kVarintOverflow},
      {Bytes({0x40}) + ten_bytes + Bytes({0x7f}) + std::string(20, '\x08'),
       RewriteOutcome::kVarintOverflow},
      {Bytes({0x12}) + ten_bytes + Bytes({0x02}),
       RewriteOutcome::kVarintOverflow},
      // Lengths past the end, by one and by nearly 2^64.
      {Bytes({0x12, 1}), RewriteOutcome::kLengthPastEnd},
      {Bytes({0x12, 3, 'a', 'b'}), RewriteOutcome::kLengthPastEnd},
      {Bytes({0x12}) + ten_bytes + Bytes({0x01, 'a'}),
       RewriteOutcome::kLengthPastEnd},
      {Bytes({0x40}), RewriteOutcome::kTruncated},
      {Bytes({0x40, 0x80}), RewriteOutcome::kTruncated},
      {Bytes({0x80}), RewriteOutcome::kTruncated},
      {Bytes({0x12}), RewriteOutcome::kTruncated},
      {Bytes({0x49, 1, 2, 3, 4, 5, 6, 7}), RewriteOutcome::kTruncated},
      {Bytes({0x4d, 1, 2, 3}), RewriteOutcome::kTruncated},
  };
  for (const Rejection& rejection : rejections) {
    EXPECT_EQ(Run(rejection.packet), rejection.outcome)
        << testing::PrintToString(rejection.packet) << " -> "
        << RewriteOutcomeName(rejection.outcome);
    // And the same behind a valid field and with more behind it.
    if (rejection.outcome == RewriteOutcome::kTruncated ||
        rejection.outcome == RewriteOutcome::kUnclosedMessage ||
        rejection.outcome == RewriteOutcome::kLengthPastEnd) {
      continue;
    }
    EXPECT_EQ(Run(Bytes({0x40, 1}) + rejection.packet + Bytes({0x40, 1})),
              rejection.outcome)
        << testing::PrintToString(rejection.packet);
  }
}

TEST_F(RewriterTest, ServiceOnlyFieldsRejectThePacketAtTheTopOnly) {
  const std::set<uint32_t> service_only = {3,  10, 33, 35, 36,  42,
                                           50, 69, 79, 98, 124, 125};
  for (uint32_t field = 1; field < 1000; ++field) {
    const RewriteOutcome expected = service_only.count(field) != 0
                                        ? RewriteOutcome::kServiceOnlyField
                                        : RewriteOutcome::kOk;
    const std::string varint =
        VarintBytes(MakeTag(field, WireType::kVarint)) + Bytes({1});
    const std::string group =
        VarintBytes(MakeTag(field, WireType::kStartGroup)) + Bytes({0x04});
    const std::string bytes =
        VarintBytes(MakeTag(field, WireType::kLengthDelimited)) + Bytes({0});
    const std::string padded_tag = [field] {
      std::string tag = VarintBytes(MakeTag(field, WireType::kVarint));
      tag.back() = static_cast<char>(tag.back() | 0x80);
      return tag + Bytes({0x00, 1});
    }();
    EXPECT_EQ(Run(varint), expected) << field;
    EXPECT_EQ(Run(group), expected) << field;
    EXPECT_EQ(Run(bytes), expected) << field;
    EXPECT_EQ(Run(padded_tag), expected) << field;
    EXPECT_EQ(Run(Bytes({0x5b, 0x04}) + varint), expected) << field;
    EXPECT_EQ(Run(Bytes({0x5b}) + varint + Bytes({0x04})), RewriteOutcome::kOk)
        << field;
  }
}

TEST_F(RewriterTest, DepthIsLimited) {
  const auto nest = [](size_t depth) {
    return Repeat("\x5b", depth) + Repeat("\x04", depth);
  };
  EXPECT_EQ(Run(nest(1024)), RewriteOutcome::kOk);
  EXPECT_EQ(Run(nest(1025)), RewriteOutcome::kTooDeep);
  EXPECT_EQ(Run(nest(100'000)), RewriteOutcome::kTooDeep);
  // Messages next to each other do not add up.
  EXPECT_EQ(Run(Repeat(nest(1000), 3)), RewriteOutcome::kOk);
}

TEST(RewriterLimitsTest, DepthAndOutputLimitsAreConfigurable) {
  ByteBuffer out;
  Rewriter shallow({2, 1000});
  const std::string two = Bytes({0x5b, 0x5b, 0x04, 0x04});
  const std::string three = Bytes({0x5b, 0x5b, 0x5b, 0x04, 0x04, 0x04});
  const auto run = [&out](Rewriter* rewriter, const std::string& packet) {
    return rewriter->Rewrite(reinterpret_cast<const uint8_t*>(packet.data()),
                             packet.size(), &out);
  };
  EXPECT_EQ(run(&shallow, two), RewriteOutcome::kOk);
  EXPECT_EQ(run(&shallow, three), RewriteOutcome::kTooDeep);
  EXPECT_EQ(out.size(), 4u);

  // The limit holds for the output, which a length of two bytes makes larger
  // than the input.
  const std::string text = Bytes({0x12, 0x80, 0x01}) + std::string(128, 'x');
  Rewriter exact({1024, 134});
  Rewriter small({1024, 133});
  const std::string packet = Bytes({0x5b}) + text + Bytes({0x04});
  ASSERT_EQ(packet.size(), 133u);
  out.clear();
  EXPECT_EQ(run(&small, packet), RewriteOutcome::kTooLarge);
  EXPECT_EQ(out.size(), 0u);
  EXPECT_EQ(run(&exact, packet), RewriteOutcome::kOk);
  EXPECT_EQ(out.size(), 134u);
}

TEST_F(RewriterTest, ThousandLevelsComeBackFromProtobuf) {
  AllTypes message;
  AllTypes* innermost = &message;
  for (int i = 0; i < 1000; ++i) {
    innermost->set_string_value("level");
    innermost = innermost->mutable_child();
  }
  ASSERT_EQ(Run(test::EncodeWithGroups(message)), RewriteOutcome::kOk);
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t*>(output_.data()),
      static_cast<int>(output_.size()));
  stream.SetRecursionLimit(2000);
  AllTypes parsed;
  ASSERT_TRUE(parsed.ParseFromCodedStream(&stream));
  EXPECT_EQ(parsed.SerializeAsString(), message.SerializeAsString());
}

TEST_F(RewriterTest, ManyEmptyMessages) {
  ASSERT_EQ(Run(Repeat(Bytes({0x5b, 0x04}), 32 * 1024)), RewriteOutcome::kOk);
  EXPECT_EQ(output_, Repeat(Bytes({0x5a, 0x00}), 32 * 1024));
}

TEST_F(RewriterTest, TowersOfLargeMessagesGetTheRightLengthAtEveryLevel) {
  // Every level needs a length of two bytes, so that the whole tower moves.
  const std::string core = Bytes({0x12, 0x80, 0x02}) + std::string(256, 'x');
  const std::string tower = Repeat("\x5b", 1000) + core + Repeat("\x04", 1000);
  const std::string packet = Repeat(tower, 40);
  ASSERT_EQ(Run(packet), RewriteOutcome::kOk);
  std::string expected = core;
  for (int i = 0; i < 1000; ++i) {
    expected.insert(0, Bytes({0x5a}) + VarintBytes(expected.size()));
  }
  EXPECT_EQ(output_, Repeat(expected, 40));
}

TEST_F(RewriterTest, EveryTruncationIsRejectedUnlessItEndsBetweenFields) {
  std::mt19937_64 random(7);
  AllTypes message;
  message.set_uint64_value(~uint64_t{0});
  message.mutable_child()->set_string_value("\x04\x04\x04");
  message.mutable_child()->mutable_child()->set_fixed64_value(4);
  message.add_children()->set_bytes_value(std::string(200, '\x04'));
  message.add_numbers(1);
  message.add_packed_numbers(-70000);
  message.set_choice_number(5);
  const std::string packet = test::EncodeWithGroups(message);
  for (size_t size = 0; size <= packet.size(); ++size) {
    const std::string_view prefix = std::string_view(packet).substr(0, size);
    const std::optional<std::string> expected = test::GroupsToProtobuf(prefix);
    const RewriteOutcome outcome = Run(prefix);
    ASSERT_EQ(outcome == RewriteOutcome::kOk, expected.has_value()) << size;
    if (expected.has_value()) {
      EXPECT_EQ(output_, *expected);
    }
  }
}

TEST_F(RewriterTest, RandomMessagesOfEveryTypeComeBackFromProtobuf) {
  // Field 3, 10 and so on of AllTypes are numbers that only the service may
  // write at the top, so the message is wrapped.
  std::mt19937_64 random(4242);
  for (int i = 0; i < 200; ++i) {
    AllTypes message;
    test::FillRandomly(&message, random, 5);
    AllTypes wrapper;
    *wrapper.mutable_child() = message;
    ASSERT_EQ(Run(test::EncodeWithGroups(wrapper)), RewriteOutcome::kOk);
    AllTypes parsed;
    ASSERT_TRUE(parsed.ParseFromString(output_));
    ASSERT_TRUE(MessageDifferencer::Equals(parsed, wrapper));
    // Minimal lengths: libprotobuf writes them as well.
    ASSERT_EQ(output_.size(), wrapper.ByteSizeLong());
  }
}

TEST_F(RewriterTest, AgreesWithTheOracleOnDamagedPackets) {
  std::mt19937_64 random(99);
  int accepted = 0;
  int rejected = 0;
  for (int i = 0; i < 2000; ++i) {
    AllTypes message;
    test::FillRandomly(message.mutable_child(), random, 3);
    std::string packet = test::EncodeWithGroups(message);
    const size_t damages = 1 + random() % 3;
    for (size_t d = 0; d < damages && !packet.empty(); ++d) {
      const size_t at = random() % packet.size();
      switch (random() % 3) {
        case 0:
          packet[at] = static_cast<char>(random());
          break;
        case 1:
          packet.erase(at, 1);
          break;
        default:
          packet.insert(
              at, 1, random() % 2 == 0 ? '\x04' : static_cast<char>(random()));
      }
    }
    const std::optional<std::string> expected = test::GroupsToProtobuf(packet);
    const RewriteOutcome outcome = Run(packet);
    if (outcome == RewriteOutcome::kServiceOnlyField) continue;
    ASSERT_EQ(outcome == RewriteOutcome::kOk, expected.has_value())
        << testing::PrintToString(packet);
    if (expected.has_value()) {
      ASSERT_EQ(output_, *expected) << testing::PrintToString(packet);
      ++accepted;
    } else {
      ++rejected;
    }
  }
  // The comparison is worth something only if both occur.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(rejected, 100);
}

TEST(RewriteOutcomeTest, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kNumRewriteOutcomes; ++i) {
    names.insert(RewriteOutcomeName(static_cast<RewriteOutcome>(i)));
  }
  EXPECT_EQ(names.size(), kNumRewriteOutcomes);
  EXPECT_EQ(RewriteOutcomeName(static_cast<RewriteOutcome>(200)), "unknown");
}

}  // namespace
}  // namespace tracering::internal
