// Straightforward on purpose: no table, no bound other than the input's end.
#include "tests/support/group_codec.h"

#include <google/protobuf/descriptor.h>

#include <utility>

namespace tracering::test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kClose = 0x04;

void PutVarint(std::string* out, uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void PutFixed(std::string* out, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view input) : rest_(input) {}

  bool done() const { return rest_.empty(); }
  const std::string& error() const { return error_; }

  bool Fail(const char* what) {
    if (error_.empty()) error_ = what;
    return false;
  }

  bool Varint(uint64_t* value) {
    *value = 0;
    for (int i = 0; i < 10; ++i) {
      if (rest_.empty()) return Fail("varint past the end");
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (i == 9 && byte > 1) return Fail("varint of more than 64 bits");
      *value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return true;
    }
    return Fail("varint of more than 10 bytes");
  }

  bool Fixed(int size, uint64_t* value) {
    if (rest_.size() < static_cast<size_t>(size)) {
      return Fail("number past the end");
    }
    *value = 0;
    for (int i = 0; i < size; ++i) {
      *value |= uint64_t{static_cast<uint8_t>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(size);
    return true;
  }

  bool Bytes(std::string* bytes) {
    uint64_t length;
    if (!Varint(&length)) return false;
    if (length > rest_.size()) return Fail("length past the end");
    *bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  // Fields up to the closing byte; at depth 0 up to the end.
  bool Fields(int depth, int max_depth, std::vector<GroupField>* fields) {
    for (;;) {
      if (rest_.empty()) return depth == 0 || Fail("message never closed");
      if (rest_.front() == kClose) {
        if (depth == 0) return Fail("closing byte at the root");
        rest_.remove_prefix(1);
        return true;
      }
      uint64_t tag;
      if (!Varint(&tag)) return false;
      if (tag >> 3 == 0) return Fail("field number 0");
      if (tag >> 3 > 0x1fffffff) return Fail("field number above 2^29-1");
      GroupField field;
      field.number = static_cast<uint32_t>(tag >> 3);
      field.wire_type = static_cast<uint32_t>(tag & 7);
      bool good = false;
      switch (field.wire_type) {
        case 0:
          good = Varint(&field.value);
          break;
        case 1:
          good = Fixed(8, &field.value);
          break;
        case 2:
          good = Bytes(&field.bytes);
          break;
        case 3:
          if (depth == max_depth) return Fail("nested too deeply");
          good = Fields(depth + 1, max_depth, &field.children);
          break;
        case 5:
          good = Fixed(4, &field.value);
          break;
        default:
          return Fail("wire type that has no meaning");
      }
      if (!good) return false;
      fields->push_back(std::move(field));
    }
  }

 private:
  std::string_view rest_;
  std::string error_;
};

void EncodeFields(const Descriptor* descriptor, std::string_view canonical,
                  std::string* out) {
  Parser parser(canonical);
  while (!parser.done()) {
    uint64_t tag = 0;
    uint64_t value = 0;
    std::string bytes;
    parser.Varint(&tag);
    const auto number = static_cast<int>(tag >> 3);
    const FieldDescriptor* field = descriptor->FindFieldByNumber(number);
    switch (tag & 7) {
      case 0:
        parser.Varint(&value);
        PutVarint(out, tag);
        PutVarint(out, value);
        break;
      case 1:
        parser.Fixed(8, &value);
        PutVarint(out, tag);
        PutFixed(out, value, 8);
        break;
      case 2:
        parser.Bytes(&bytes);
        if (field != nullptr &&
            field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          PutVarint(out, (tag & ~uint64_t{7}) | 3);
          EncodeFields(field->message_type(), bytes, out);
          out->push_back(kClose);
        } else {
          PutVarint(out, tag);
          PutVarint(out, bytes.size());
          *out += bytes;
        }
        break;
      default:
        parser.Fixed(4, &value);
        PutVarint(out, tag);
        PutFixed(out, value, 4);
        break;
    }
  }
}

// Mostly small, at times any 64-bit value.
uint64_t RandomNumber(std::mt19937_64& random) {
  return random() >> (random() % 64);
}

std::string RandomText(std::mt19937_64& random) {
  std::string text;
  const uint64_t size = random() % 8 == 0 ? random() % 300 : random() % 20;
  for (uint64_t i = 0; i < size; ++i) {
    // Closing bytes often, since a string may be full of them.
    text += random() % 4 == 0 ? kClose : static_cast<char>(random() % 128);
  }
  return text;
}

// The value of one field, handed to `set` or `add` of Reflection alike.
#define TRACERING_PUT(Type, value)                  \
  do {                                              \
    if (field->is_repeated()) {                     \
      reflection->Add##Type(message, field, value); \
    } else {                                        \
      reflection->Set##Type(message, field, value); \
    }                                               \
  } while (false)

void PutRandomValue(Message* message, const FieldDescriptor* field,
                    std::mt19937_64& random, int max_depth) {
  const Reflection* reflection = message->GetReflection();
  const uint64_t number = RandomNumber(random);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      TRACERING_PUT(Int32, static_cast<int32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      TRACERING_PUT(Int64, static_cast<int64_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      TRACERING_PUT(UInt32, static_cast<uint32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      TRACERING_PUT(UInt64, number);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      TRACERING_PUT(Double, static_cast<double>(number) / 3);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      TRACERING_PUT(Float, static_cast<float>(number) / 3);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      TRACERING_PUT(Bool, number % 2 == 1);
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* type = field->enum_type();
      const int index = static_cast<int>(number % type->value_count());
      TRACERING_PUT(Enum, type->value(index));
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      TRACERING_PUT(String, RandomText(random));
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (max_depth == 0) break;
      Message* child = field->is_repeated()
                           ? reflection->AddMessage(message, field)
                           : reflection->MutableMessage(message, field);
      FillRandomly(child, random, max_depth - 1);
      break;
    }
  }
}

#undef TRACERING_PUT

}  // namespace

std::optional<std::vector<GroupField>> ParseGroups(std::string_view packet,
                                                   std::string* error,
                                                   int max_depth) {
  Parser parser(packet);
  std::vector<GroupField> fields;
  if (parser.Fields(0, max_depth, &fields)) return fields;
  if (error != nullptr) *error = parser.error();
  return std::nullopt;
}

std::string ToProtobuf(const std::vector<GroupField>& fields) {
  std::string out;
  for (const GroupField& field : fields) {
    const bool nested = field.wire_type == 3;
    PutVarint(&out,
              uint64_t{field.number} << 3 | (nested ? 2 : field.wire_type));
    switch (field.wire_type) {
      case 0:
        PutVarint(&out, field.value);
        break;
      case 1:
        PutFixed(&out, field.value, 8);
        break;
      case 5:
        PutFixed(&out, field.value, 4);
        break;
      default: {
        const std::string body =
            nested ? ToProtobuf(field.children) : field.bytes;
        PutVarint(&out, body.size());
        out += body;
        break;
      }
    }
  }
  return out;
}

std::optional<std::string> GroupsToProtobuf(std::string_view packet,
                                            std::string* error, int max_depth) {
  const auto fields = ParseGroups(packet, error, max_depth);
  if (!fields.has_value()) return std::nullopt;
  return ToProtobuf(*fields);
}

std::string EncodeWithGroups(const Message& message) {
  std::string out;
  EncodeFields(message.GetDescriptor(), message.SerializeAsString(), &out);
  return out;
}

void FillRandomly(Message* message, std::mt19937_64& random, int max_depth) {
  const Descriptor* descriptor = message->GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    // Oneofs: a later member replaces an earlier one, which is fine.
    const uint64_t count = field->is_repeated() ? random() % 3 : random() % 2;
    for (uint64_t k = 0; k < count; ++k) {
      PutRandomValue(message, field, random, max_depth);
    }
  }
}

}  // namespace tracering::test
