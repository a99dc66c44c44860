// Two printers over one way to read fields; see packet_printer.h.
#include "tools/packet_printer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "tools/field_reader.h"
#include "tools/trace_schema.h"
#include "tools/utf8.h"

namespace tracering::tools {
namespace {

// Of messages in messages; parsers of what we print stop at 100.
constexpr int kMaxDepth = 64;

// One value of a field, checked against the schema.
struct Value {
  uint32_t number = 0;
  const FieldSchema* schema = nullptr;  // null: printed by its number
  Field field;
  std::vector<Field> fields;  // of a message that is well-formed
};

WireType WireTypeOf(FieldKind kind) {
  switch (kind) {
    case FieldKind::kFixed64:
    case FieldKind::kDouble:
      return WireType::kFixed64;
    case FieldKind::kString:
    case FieldKind::kBytes:
    case FieldKind::kMessage:
      return WireType::kLengthDelimited;
    default:
      return WireType::kVarint;
  }
}

// Repeated numbers may come as one field, packed.
bool Unpack(const FieldSchema& schema, const Field& field,
            std::vector<Value>* values) {
  const WireType type = WireTypeOf(schema.kind);
  if (!schema.repeated || type == WireType::kLengthDelimited) return false;
  std::vector<Value> unpacked;
  std::string_view rest = field.bytes;
  while (!rest.empty()) {
    Value value;
    value.number = field.number;
    value.schema = &schema;
    value.field.number = field.number;
    value.field.type = type;
    const bool is_good = type == WireType::kVarint
                             ? ReadVarint(&rest, &value.field.value)
                             : ReadFixed(&rest, 8, &value.field.value);
    if (!is_good) return false;
    unpacked.push_back(value);
  }
  values->insert(values->end(), unpacked.begin(), unpacked.end());
  return true;
}

std::vector<Value> ToValues(const std::vector<Field>& fields,
                            const MessageSchema* message, int depth) {
  std::vector<Value> values;
  for (const Field& field : fields) {
    Value value;
    value.number = field.number;
    value.field = field;
    const FieldSchema* schema =
        message == nullptr ? nullptr : message->Find(field.number);
    if (schema != nullptr && field.type == WireType::kLengthDelimited &&
        Unpack(*schema, field, &values)) {
      continue;
    }
    if (schema != nullptr && field.type != WireTypeOf(schema->kind)) {
      schema = nullptr;
    }
    if (schema != nullptr && schema->kind == FieldKind::kMessage &&
        (depth == kMaxDepth || !ReadFields(field.bytes, &value.fields))) {
      schema = nullptr;
    }
    value.schema = schema;
    values.push_back(std::move(value));
  }
  return values;
}

std::string_view NameOfEnum(const FieldSchema& schema, uint64_t value) {
  for (const EnumValue* entry = schema.values; !entry->name.empty(); ++entry) {
    if (entry->value == value) return entry->name;
  }
  return "";
}

// A number as decimal digits, as its kind has it.
std::string Decimal(const Value& value) {
  const uint64_t bits = value.field.value;
  switch (value.schema == nullptr ? FieldKind::kUint64 : value.schema->kind) {
    case FieldKind::kUint32:
      return fmt::to_string(static_cast<uint32_t>(bits));
    case FieldKind::kInt32:
    case FieldKind::kEnum:
      return fmt::to_string(static_cast<int32_t>(bits));
    case FieldKind::kInt64:
      return fmt::to_string(static_cast<int64_t>(bits));
    default:
      return fmt::to_string(bits);
  }
}

double AsDouble(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

class TextPrinter {
 public:
  explicit TextPrinter(std::string* out) : out_(out) {}

  void Message(std::string_view name, const std::vector<Field>& fields,
               const MessageSchema* schema, int depth) {
    Line(depth, "{} {{", name);
    for (const Value& value : ToValues(fields, schema, depth)) {
      Print(value, depth + 1);
    }
    Line(depth, "}}");
  }

 private:
  template <typename... Args>
  void Line(int depth, fmt::format_string<Args...> format, Args&&... args) {
    out_->append(static_cast<size_t>(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(*out_), format,
                   std::forward<Args>(args)...);
    *out_ += '\n';
  }

  void Print(const Value& value, int depth) {
    if (value.schema == nullptr) return PrintUnknown(value, depth);
    const std::string_view name = value.schema->name;
    const uint64_t bits = value.field.value;
    switch (value.schema->kind) {
      case FieldKind::kMessage:
        return Message(name, value.fields, value.schema->message, depth);
      case FieldKind::kString:
      case FieldKind::kBytes:
        return Line(depth, "{}: \"{}\"", name,
                    Escaped(value.field.bytes,
                            value.schema->kind == FieldKind::kString));
      case FieldKind::kBool:
        return Line(depth, "{}: {}", name, bits != 0);
      case FieldKind::kDouble:
        return Line(depth, "{}: {}", name, AsDouble(bits));
      case FieldKind::kEnum: {
        const std::string_view text = NameOfEnum(*value.schema, bits);
        return text.empty() ? Line(depth, "{}: {}", name, Decimal(value))
                            : Line(depth, "{}: {}", name, text);
      }
      default:
        return Line(depth, "{}: {}", name, Decimal(value));
    }
  }

  void PrintUnknown(const Value& value, int depth) {
    switch (value.field.type) {
      case WireType::kLengthDelimited:
        return Line(depth, "{}: \"{}\"", value.number,
                    Escaped(value.field.bytes, false));
      case WireType::kFixed32:
        return Line(depth, "{}: {:#010x}", value.number, value.field.value);
      case WireType::kFixed64:
        return Line(depth, "{}: {:#018x}", value.number, value.field.value);
      default:
        return Line(depth, "{}: {}", value.number, value.field.value);
    }
  }

  static std::string Escaped(std::string_view bytes, bool keep_utf8) {
    std::string escaped;
    while (!bytes.empty()) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      size_t size = 1;
      if (byte == '"' || byte == '\\') {
        escaped += '\\';
        escaped += bytes.front();
      } else if (byte == '\n') {
        escaped += "\\n";
      } else if (byte >= 0x20 && byte < 0x7f) {
        escaped += bytes.front();
      } else if (byte >= 0x80 && keep_utf8 && Utf8Size(bytes) != 0) {
        size = Utf8Size(bytes);
        escaped += bytes.substr(0, size);
      } else {
        fmt::format_to(std::back_inserter(escaped), "\\{:03o}", byte);
      }
      bytes.remove_prefix(size);
    }
    return escaped;
  }

  std::string* const out_;
};

class JsonPrinter {
 public:
  explicit JsonPrinter(std::string* out) : out_(out) {}

  void Message(const std::vector<Field>& fields, const MessageSchema* schema,
               int depth) {
    const std::vector<Value> values = ToValues(fields, schema, depth);
    std::vector<bool> done(values.size());
    const char* separator = "{";
    for (size_t i = 0; i < values.size(); ++i) {
      if (done[i]) continue;
      *out_ += separator;
      separator = ",";
      PrintAll(values, i, &done, depth);
    }
    *out_ += *separator == '{' ? "{}" : "}";
  }

 private:
  static bool SameKey(const Value& a, const Value& b) {
    return a.number == b.number && a.schema == b.schema;
  }

  // The field of values[first] with all its values, which may lie apart.
  void PrintAll(const std::vector<Value>& values, size_t first,
                std::vector<bool>* done, int depth) {
    const Value& value = values[first];
    if (value.schema != nullptr) {
      fmt::format_to(std::back_inserter(*out_), "\"{}\":", value.schema->name);
    } else {
      fmt::format_to(std::back_inserter(*out_), "\"{}\":", value.number);
    }
    const bool single = value.schema != nullptr && !value.schema->repeated;
    // Of a field that should be there once the last value counts.
    size_t last = first;
    if (!single) *out_ += '[';
    for (size_t i = first; i < values.size(); ++i) {
      if (!SameKey(value, values[i])) continue;
      (*done)[i] = true;
      last = i;
      if (single) continue;
      if (i != first) *out_ += ',';
      Print(values[i], depth);
    }
    if (single) {
      Print(values[last], depth);
    } else {
      *out_ += ']';
    }
  }

  void Print(const Value& value, int depth) {
    const uint64_t bits = value.field.value;
    if (value.schema == nullptr) {
      if (value.field.type == WireType::kLengthDelimited) {
        return Base64(value.field.bytes);
      }
      return Quoted(fmt::to_string(bits));
    }
    switch (value.schema->kind) {
      case FieldKind::kMessage:
        return Message(value.fields, value.schema->message, depth + 1);
      case FieldKind::kString:
        return String(value.field.bytes);
      case FieldKind::kBytes:
        return Base64(value.field.bytes);
      case FieldKind::kBool:
        *out_ += bits != 0 ? "true" : "false";
        return;
      case FieldKind::kDouble:
        return Double(AsDouble(bits));
      case FieldKind::kEnum: {
        const std::string_view name = NameOfEnum(*value.schema, bits);
        if (!name.empty()) return Quoted(name);
        *out_ += Decimal(value);
        return;
      }
      case FieldKind::kUint32:
      case FieldKind::kInt32:
        *out_ += Decimal(value);
        return;
      default:
        return Quoted(Decimal(value));
    }
  }

  void Quoted(std::string_view text) {
    fmt::format_to(std::back_inserter(*out_), "\"{}\"", text);
  }

  void Double(double value) {
    if (std::isnan(value)) return Quoted("NaN");
    if (std::isinf(value)) return Quoted(value < 0 ? "-Infinity" : "Infinity");
    *out_ += fmt::to_string(value);
  }

  void String(std::string_view text) {
    *out_ += '"';
    while (!text.empty()) {
      const auto byte = static_cast<unsigned char>(text.front());
      size_t size = 1;
      if (byte == '"' || byte == '\\') {
        *out_ += '\\';
        *out_ += text.front();
      } else if (byte < 0x20 || byte == 0x7f) {
        fmt::format_to(std::back_inserter(*out_), "\\u{:04x}", byte);
      } else if (Utf8Size(text) != 0) {
        size = Utf8Size(text);
        *out_ += text.substr(0, size);
      } else if (byte == 0xc2 && text.size() > 1 &&
                 (text[1] & 0xc0) == 0x80) {  // a control character
        size = 2;
        fmt::format_to(std::back_inserter(*out_), "\\u{:04x}",
                       static_cast<unsigned char>(text[1]));
      } else {
        *out_ += "\\ufffd";
      }
      text.remove_prefix(size);
    }
    *out_ += '"';
  }

  void Base64(std::string_view bytes) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    *out_ += '"';
    for (size_t i = 0; i < bytes.size(); i += 3) {
      const auto at = [&](size_t k) {
        return i + k < bytes.size()
                   ? uint32_t{static_cast<unsigned char>(bytes[i + k])}
                   : 0;
      };
      const uint32_t group = at(0) << 16 | at(1) << 8 | at(2);
      *out_ += kDigits[group >> 18];
      *out_ += kDigits[(group >> 12) & 63];
      *out_ += i + 1 < bytes.size() ? kDigits[(group >> 6) & 63] : '=';
      *out_ += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
    }
    *out_ += '"';
  }

  std::string* const out_;
};

// A packet that is broken half-way ends with the last field that is whole, and
// a field of number 0, which there is none of, with the rest.
std::vector<Field> FieldsOf(std::string_view packet) {
  std::vector<Field> fields;
  Field field;
  while (ReadField(&packet, &field)) fields.push_back(field);
  if (!packet.empty()) {
    field = Field();
    field.type = WireType::kLengthDelimited;
    field.bytes = packet;
    fields.push_back(field);
  }
  return fields;
}

}  // namespace

void PrintText(std::string_view packet, std::string* out) {
  TextPrinter(out).Message("packet", FieldsOf(packet), &TracePacketSchema(), 0);
}

void PrintJson(std::string_view packet, std::string* out) {
  JsonPrinter(out).Message(FieldsOf(packet), &TracePacketSchema(), 0);
  *out += '\n';
}

}  // namespace tracering::tools
