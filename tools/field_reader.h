// Splits the bytes of one protobuf message into its fields, reading nothing
// beyond them.
//
// Knows no message; the bytes may be anything. Pure functions.
#ifndef TRACERING_TOOLS_FIELD_READER_H_
#define TRACERING_TOOLS_FIELD_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace tracering::tools {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kFixed32 = 5,
};

inline constexpr size_t kMaxVarintSize = 10;
inline constexpr uint64_t kMaxFieldNumber = (uint64_t{1} << 29) - 1;

// Takes a varint off the start of *rest. False, with nothing changed, if it
// does not end there, has more than 10 bytes or does not fit 64 bits.
inline bool ReadVarint(std::string_view* rest, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < rest->size() && i < kMaxVarintSize; ++i) {
    const auto byte = static_cast<unsigned char>((*rest)[i]);
    if (i == kMaxVarintSize - 1 && byte > 1) return false;
    result |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      rest->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

// Takes `size` bytes, at most 8, off the start of *rest as a number. False,
// with nothing changed, if there are not so many.
inline bool ReadFixed(std::string_view* rest, size_t size, uint64_t* value) {
  if (rest->size() < size) return false;
  *value = 0;  // the machine is little-endian, as the format is
  std::memcpy(value, rest->data(), size);
  rest->remove_prefix(size);
  return true;
}

struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of a varint, and of the fixed types
  std::string_view bytes;  // of a length-delimited field
};

// The next field at the start of *rest, which moves behind it. False if there
// is none: at the end, and where the bytes are no message; then *rest stays,
// and is not empty.
inline bool ReadField(std::string_view* rest, Field* field) {
  std::string_view next = *rest;
  uint64_t tag = 0;
  if (!ReadVarint(&next, &tag)) return false;
  if ((tag >> 3) == 0 || (tag >> 3) > kMaxFieldNumber) return false;
  field->number = static_cast<uint32_t>(tag >> 3);
  field->type = static_cast<WireType>(tag & 7);
  field->value = 0;
  field->bytes = {};
  bool is_good = false;
  switch (field->type) {
    case WireType::kVarint:
      is_good = ReadVarint(&next, &field->value);
      break;
    case WireType::kFixed64:
      is_good = ReadFixed(&next, 8, &field->value);
      break;
    case WireType::kFixed32:
      is_good = ReadFixed(&next, 4, &field->value);
      break;
    case WireType::kLengthDelimited: {
      uint64_t length = 0;
      if (!ReadVarint(&next, &length) || length > next.size()) return false;
      field->bytes = next.substr(0, static_cast<size_t>(length));
      next.remove_prefix(static_cast<size_t>(length));
      is_good = true;
      break;
    }
  }
  if (is_good) *rest = next;
  return is_good;
}

// All fields of `message`; false, with those before it, where it is broken.
inline bool ReadFields(std::string_view message, std::vector<Field>* fields) {
  fields->clear();
  Field field;
  while (ReadField(&message, &field)) fields->push_back(field);
  return message.empty();
}

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_FIELD_READER_H_
