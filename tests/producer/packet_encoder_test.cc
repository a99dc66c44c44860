// What packets look like in bytes, wherever in a chunk a field begins: against
// a real protobuf library and an independent reader of the ring.
#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <type_traits>
#include <utility>

#include "tests/producer/writer_harness.h"
#include "tests/support/all_types.pb.h"
#include "tests/support/group_codec.h"
#include "tracering/c/packet.h"

namespace tracering::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// --- Writing any protobuf message through the API ---

template <typename Out>
void WriteMessage(Out& out, const google::protobuf::Message& message);

template <typename Out>
void WriteValue(Out& out, const google::protobuf::Message& message,
                const FieldDescriptor* field, int index) {
  const Reflection* const reflection = message.GetReflection();
  const auto number = static_cast<uint32_t>(field->number());
  const bool repeated = field->is_repeated();
#define VALUE(kind)                                                \
  (repeated ? reflection->GetRepeated##kind(message, field, index) \
            : reflection->Get##kind(message, field))
  switch (field->type()) {
    case FieldDescriptor::TYPE_INT32:
      return out.AppendInt(number, VALUE(Int32));
    case FieldDescriptor::TYPE_INT64:
      return out.AppendInt(number, VALUE(Int64));
    case FieldDescriptor::TYPE_UINT32:
      return out.AppendVarint(number, VALUE(UInt32));
    case FieldDescriptor::TYPE_UINT64:
      return out.AppendVarint(number, VALUE(UInt64));
    case FieldDescriptor::TYPE_SINT32:
      return out.AppendZigZag(number, VALUE(Int32));
    case FieldDescriptor::TYPE_SINT64:
      return out.AppendZigZag(number, VALUE(Int64));
    case FieldDescriptor::TYPE_BOOL:
      return out.AppendBool(number, VALUE(Bool));
    case FieldDescriptor::TYPE_ENUM:
      return out.AppendInt(number, VALUE(EnumValue));
    case FieldDescriptor::TYPE_FIXED32:
      return out.AppendFixed32(number, VALUE(UInt32));
    case FieldDescriptor::TYPE_SFIXED32:
      return out.AppendFixed32(number, static_cast<uint32_t>(VALUE(Int32)));
    case FieldDescriptor::TYPE_FIXED64:
      return out.AppendFixed64(number, VALUE(UInt64));
    case FieldDescriptor::TYPE_SFIXED64:
      return out.AppendFixed64(number, static_cast<uint64_t>(VALUE(Int64)));
    case FieldDescriptor::TYPE_FLOAT:
      return out.AppendFloat(number, VALUE(Float));
    case FieldDescriptor::TYPE_DOUBLE:
      return out.AppendDouble(number, VALUE(Double));
    case FieldDescriptor::TYPE_STRING:
      return out.AppendString(number, VALUE(String));
    case FieldDescriptor::TYPE_BYTES: {
      const std::string bytes = VALUE(String);
      return out.AppendBytes(number, bytes.data(), bytes.size());
    }
    default: {
      auto child = out.BeginMessage(number);
      return WriteMessage(child, VALUE(Message));
    }
  }
#undef VALUE
}

template <typename Out>
void WriteMessage(Out& out, const google::protobuf::Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated()
                          ? message.GetReflection()->FieldSize(message, field)
                          : 1;
    for (int i = 0; i < count; ++i) WriteValue(out, message, field, i);
  }
}

// The same through the functions for C.
class CMessage {
 public:
  explicit CMessage(tracering_packet* packet) : packet_(packet) {}
  void AppendVarint(uint32_t field, uint64_t value) {
    tracering_append_varint(packet_, field, value);
  }
  void AppendInt(uint32_t field, int64_t value) {
    tracering_append_int(packet_, field, value);
  }
  void AppendZigZag(uint32_t field, int64_t value) {
    tracering_append_zigzag(packet_, field, value);
  }
  void AppendBool(uint32_t field, bool value) {
    tracering_append_bool(packet_, field, value);
  }
  void AppendFixed32(uint32_t field, uint32_t value) {
    tracering_append_fixed32(packet_, field, value);
  }
  void AppendFixed64(uint32_t field, uint64_t value) {
    tracering_append_fixed64(packet_, field, value);
  }
  void AppendFloat(uint32_t field, float value) {
    tracering_append_float(packet_, field, value);
  }
  void AppendDouble(uint32_t field, double value) {
    tracering_append_double(packet_, field, value);
  }
  void AppendString(uint32_t field, const std::string& value) {
    if (value.find('\0') != std::string::npos) {
      return AppendBytes(field, value.data(), value.size());
    }
    tracering_append_string(packet_, field, value.c_str());
  }
  void AppendBytes(uint32_t field, const void* data, size_t size) {
    tracering_append_bytes(packet_, field, data, size);
  }
  CMessage BeginMessage(uint32_t field) {
    tracering_message_begin(packet_, field);
    return CMessage(packet_, true);
  }
  CMessage(const CMessage&) = delete;
  CMessage& operator=(const CMessage&) = delete;
  ~CMessage() {
    if (is_nested_) tracering_message_end(packet_);
  }

 private:
  CMessage(tracering_packet* packet, bool is_nested)
      : packet_(packet), is_nested_(is_nested) {}

  tracering_packet* const packet_;
  const bool is_nested_ = false;
};

void WritePacket(TraceWriter& writer, const google::protobuf::Message& message,
                 bool through_c) {
  if (through_c) {
    tracering_packet* const opened =
        tracering_packet_begin(reinterpret_cast<tracering_writer*>(&writer));
    CMessage packet(opened);
    WriteMessage(packet, message);
    tracering_packet_end(opened);
  } else {
    Packet packet = writer.NewPacket();
    WriteMessage(packet, message);
  }
}

AllTypes Parse(const std::string& packet) {
  AllTypes message;
  std::string error;
  const auto bytes = GroupsToProtobuf(packet, &error);
  EXPECT_TRUE(bytes.has_value()) << error;
  EXPECT_TRUE(bytes.has_value() && message.ParseFromString(*bytes));
  return message;
}

TEST(PacketEncoderTest, RandomMessagesOfEveryFieldTypeComeBack) {
  std::mt19937_64 random(1);
  // In small chunks most messages straddle some.
  for (uint32_t chunk_size : {256u, 512u, 4096u}) {
    WriterHarness harness(Shape(256, chunk_size));
    auto writer = harness.MakeWriter(1);
    for (int i = 0; i < 300; ++i) {
      AllTypes filled;
      FillRandomly(&filled, random, 3);
      // Parsed, a map has no key twice.
      AllTypes message;
      ASSERT_TRUE(message.ParseFromString(filled.SerializeAsString()));
      WritePacket(*writer, message, i % 2 != 0);
      const auto taken = harness.DrainAll();
      ASSERT_EQ(taken.size(), static_cast<size_t>(i) + 1);
      const AllTypes read = Parse(taken.back());
      std::string difference;
      MessageDifferencer differencer;
      differencer.ReportDifferencesToString(&difference);
      ASSERT_TRUE(differencer.Compare(message, read))
          << "message " << i << " in chunks of " << chunk_size << ": "
          << difference;
    }
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
    EXPECT_EQ(writer->ReadStats().lost, 0u);
  }
}

// Every field type begins at every place before the end of a chunk.
TEST(PacketEncoderTest, FieldsStraddleChunksAtEveryByte) {
  AllTypes message;
  message.set_int32_value(-5);
  message.set_uint64_value(0x1234'5678);
  message.set_fixed32_value(0x0102'0304);
  message.set_double_value(1.5);
  message.set_string_value("a string that is longer than it must be");
  message.add_children()->set_bool_value(true);
  message.mutable_choice_child()->set_sint64_value(-77);
  for (size_t used = 2; used <= 129; ++used) {
    WriterHarness harness(Shape(8));
    auto writer = harness.MakeWriter(1);
    {
      Packet packet = writer->NewPacket();
      // 250 bytes are there; with these, between 1 and 128 are left.
      AppendSized(packet, 120, '\x04');
      AppendSized(packet, used, '\x04');
      WriteMessage(packet, message);
    }
    const auto taken = harness.DrainAll();
    ASSERT_THAT(taken, SizeIs(1));
    const AllTypes read = Parse(taken[0].substr(120 + used));
    EXPECT_TRUE(MessageDifferencer::Equals(read, message)) << used;
    EXPECT_THAT(harness.reader().violations(), IsEmpty());
  }
}

// --- Bytes ---

std::string Written(const std::function<void(Packet&)>& write) {
  WriterHarness harness;
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    write(packet);
  }
  const auto taken = harness.DrainAll();
  return taken.size() == 1 ? taken[0] : "no packet";
}

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(PacketEncoderTest, NestedMessagesOpenWithAGroupTagAndCloseWithOneByte) {
  EXPECT_EQ(Written([](Packet& packet) {
              packet.AppendVarint(8, 300);
              Message event = packet.BeginMessage(11);
              event.AppendVarint(9, 1);
              Message inner = event.BeginMessage(4);
            }),
            Bytes({0x40, 0xac, 0x02, 0x5b, 0x48, 0x01, 0x23, 0x04, 0x04}));
}

// A message of a packet that is gone at the end of the statement.
template <typename T>
auto CanBeginMessage(int)
    -> decltype(std::declval<T>().BeginMessage(1), std::true_type());
template <typename T>
std::false_type CanBeginMessage(...);
static_assert(decltype(CanBeginMessage<Packet&>(0))::value);
static_assert(!decltype(CanBeginMessage<Packet>(0))::value);
static_assert(!decltype(CanBeginMessage<Message>(0))::value);

TEST(PacketEncoderTest, EndingAMessageClosesThoseInIt) {
  EXPECT_EQ(Written([](Packet& packet) {
              Message outer = packet.BeginMessage(1);
              Message inner = outer.BeginMessage(2);
              outer.End();
              inner.End();
              outer.End();
              packet.AppendVarint(3, 0);
            }),
            Bytes({0x0b, 0x13, 0x04, 0x04, 0x18, 0x00}));
}

TEST(PacketEncoderTest, FinishingClosesAllMessagesAndSwallowsTheRest) {
  EXPECT_EQ(Written([](Packet& packet) {
              Message outer = packet.BeginMessage(1);
              Message inner = outer.BeginMessage(2);
              packet.Finish();
              packet.AppendVarint(3, 1);
              inner.AppendString(4, "lost");
              { Message more = inner.BeginMessage(5); }
              packet.Finish();
              packet.Discard();
            }),
            Bytes({0x0b, 0x13, 0x04, 0x04}));
}

TEST(PacketEncoderTest, VarintsHaveTheShortestForm) {
  for (int bits = 0; bits <= 64; ++bits) {
    for (int64_t offset : {-1, 0, 1}) {
      const uint64_t base = bits == 64 ? 0 : uint64_t{1} << bits;
      const uint64_t value = base + static_cast<uint64_t>(offset);
      std::string expected = "\x08";
      for (uint64_t rest = value;; rest >>= 7) {
        expected += static_cast<char>((rest & 0x7f) | (rest > 127 ? 0x80 : 0));
        if (rest <= 127) break;
      }
      EXPECT_EQ(Written([&](Packet& packet) { packet.AppendVarint(1, value); }),
                expected)
          << value;
    }
  }
}

TEST(PacketEncoderTest, TagsOfEverySize) {
  for (uint32_t field : {1u, 15u, 16u, 2047u, 2048u, 262143u, 262144u,
                         33554431u, 33554432u, 536870911u}) {
    const auto fields = ParseGroups(Written([&](Packet& packet) {
      packet.AppendVarint(field, 1);
      packet.AppendFixed32(field, 2);
      packet.AppendFixed64(field, 3);
      packet.AppendString(field, "4");
      Message message = packet.BeginMessage(field);
    }));
    ASSERT_TRUE(fields.has_value());
    ASSERT_THAT(*fields, SizeIs(5));
    const uint32_t wire_types[] = {0, 5, 1, 2, 3};
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ((*fields)[i].number, field);
      EXPECT_EQ((*fields)[i].wire_type, wire_types[i]);
    }
  }
}

TEST(PacketEncoderTest, NothingMayBeAppendedFromNull) {
  EXPECT_EQ(Written([](Packet& packet) {
              packet.AppendBytes(1, nullptr, 0);
              packet.AppendString(2, std::string_view());
            }),
            Bytes({0x0a, 0x00, 0x12, 0x00}));
}

TEST(PacketEncoderTest, StringsOfEverySizeAroundTheInPlaceLimit) {
  for (size_t size : {0, 1, 126, 127, 128, 129, 16383, 16384, 40000}) {
    WriterHarness harness(Shape(256));
    auto writer = harness.MakeWriter(1);
    const std::string text(size, '\x04');
    {
      Packet packet = writer->NewPacket();
      packet.AppendString(1, text);
      packet.AppendVarint(2, 7);
    }
    const auto taken = harness.DrainAll();
    ASSERT_THAT(taken, SizeIs(1));
    const auto fields = ParseGroups(taken[0]);
    ASSERT_TRUE(fields.has_value() && fields->size() == 2) << size;
    EXPECT_TRUE((*fields)[0].bytes == text);
    EXPECT_EQ((*fields)[1].value, 7u);
  }
}

template <typename Out>
void Nest(Out& out, int levels) {
  if (levels == 0) return;
  Message child = out.BeginMessage(1);
  Nest(child, levels - 1);
}

TEST(PacketEncoderTest, ThousandLevelsOfMessages) {
  WriterHarness harness(Shape(16));
  auto writer = harness.MakeWriter(1);
  {
    Packet packet = writer->NewPacket();
    Nest(packet, 1000);
  }
  EXPECT_THAT(harness.DrainAll(), ElementsAre(std::string(1000, '\x0b') +
                                              std::string(1000, '\x04')));
}

// --- Packets around the size of a fragment, a chunk and a ring ---

// Writes a packet of exactly `size` bytes in appends of a few bytes.
std::string WritePacketOf(TraceWriter& writer, size_t size) {
  std::string expected;
  Packet packet = writer.NewPacket();
  while (expected.size() < size) {
    const size_t left = size - expected.size();
    // Never leave a single byte, which no field has.
    const size_t piece = left <= 129 ? left : left - 100 < 2 ? 98 : 100;
    const char fill = static_cast<char>('a' + expected.size() % 26);
    AppendSized(packet, piece, fill);
    expected += PacketBytes(piece, fill);
  }
  return expected;
}

TEST(PacketEncoderTest, LargestFragmentAndItsNeighbours) {
  for (uint32_t chunk_size : {256u, 512u, 4096u, 32768u}) {
    const size_t largest = chunk_size - 6 - (chunk_size == 256 ? 1 : 2);
    for (size_t size : {largest - 1, largest, largest + 1, largest + 2}) {
      SCOPED_TRACE(testing::Message() << chunk_size << " " << size);
      WriterHarness harness(Shape(4, chunk_size));
      auto writer = harness.MakeWriter(1);
      const std::string expected = WritePacketOf(*writer, size);
      WriteSized(*writer, 10, 'n');
      const auto taken = harness.DrainAll();
      ASSERT_THAT(taken, SizeIs(2));
      EXPECT_TRUE(taken[0] == expected);
      EXPECT_EQ(taken[1], PacketBytes(10, 'n'));
      EXPECT_EQ(harness.reader().joiner().packets()[0].num_fragments,
                size > largest ? 2u : 1u);
      EXPECT_THAT(harness.reader().violations(), IsEmpty());
    }
  }
}

TEST(PacketEncoderTest, PacketOfExactlyTheRing) {
  // Each chunk holds one fragment of 249 bytes.
  for (size_t size : {4 * 249 - 1, 4 * 249, 4 * 249 + 1}) {
    SCOPED_TRACE(size);
    WriterHarness harness(Shape(4));
    harness.AttachConsumer();
    auto writer = harness.MakeWriter(1);
    const std::string expected = WritePacketOf(*writer, size);
    const bool fits = size <= 4 * 249;
    const auto first = harness.DrainAll();
    EXPECT_EQ(first.size(), fits ? 1u : 0u);
    EXPECT_TRUE(!fits || first.at(0) == expected);
    WriteSized(*writer, 10, 'n');
    const auto taken = harness.DrainAll();
    EXPECT_EQ(taken.back(), PacketBytes(10, 'n'));
    EXPECT_EQ(harness.reader().joiner().packets().back().after_loss, !fits);
    const WriterStats stats = writer->ReadStats();
    EXPECT_EQ(stats.lost, fits ? 0u : 1u);
    ExpectBalanced(stats);
    // Its head was published: the reader knows.
    EXPECT_EQ(harness.image().WriterLoss(), 0u);
  }
}

TEST(PacketEncoderTest, PacketOfFourRingsWhileTheReaderDrains) {
  WriterHarness harness(Shape(4));
  auto writer = harness.MakeWriter(1);
  std::string expected;
  {
    Packet packet = writer->NewPacket();
    while (expected.size() < 4 * 4 * 256) {
      AppendSized(packet, 120, 'x');
      expected += PacketBytes(120, 'x');
      harness.reader().Drain();
      // Takes what was acknowledged and burned meanwhile.
      harness.reader().Drain();
    }
  }
  const auto taken = harness.DrainAll();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_TRUE(taken[0] == expected);
  EXPECT_THAT(harness.reader().violations(), IsEmpty());
  EXPECT_EQ(writer->ReadStats().lost, 0u);
}

TEST(PacketEncoderTest, LostPacketSwallowsEveryKindOfAppend) {
  WriterHarness harness(Shape(2));
  harness.FillWithReservations();
  auto writer = harness.MakeWriter(1);
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    AllTypes message;
    FillRandomly(&message, random, 3);
    Packet packet = writer->NewPacket();
    WriteMessage(packet, message);
    packet.AppendString(1, std::string(100'000, 'x'));
    Nest(packet, 500);
  }
  EXPECT_EQ(LostBy(writer->ReadStats(), LossCause::kRingFull), 100u);
  ExpectBalanced(writer->ReadStats());
}

}  // namespace
}  // namespace tracering::test
