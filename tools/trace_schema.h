// Names and types of the fields of a trace file that this program can print:
// the part of the Perfetto trace format that is written here.
//
// Constant tables. Whatever is not in them is printed by its number.
#ifndef TRACERING_TOOLS_TRACE_SCHEMA_H_
#define TRACERING_TOOLS_TRACE_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tracering::tools {

enum class FieldKind : uint8_t {
  kUint32,
  kUint64,
  kInt32,
  kInt64,
  kBool,
  kEnum,
  kFixed64,
  kDouble,
  kString,
  kBytes,
  kMessage,
};

struct EnumValue {
  uint64_t value;
  std::string_view name;
};

struct MessageSchema;

struct FieldSchema {
  uint32_t number;
  std::string_view name;
  FieldKind kind;
  bool repeated = false;
  const MessageSchema* message = nullptr;  // of kMessage
  const EnumValue* values = nullptr;       // of kEnum, ended by an empty name
};

struct MessageSchema {
  const FieldSchema* fields;  // in order of their numbers
  size_t num_fields;

  // Null if it is not known.
  const FieldSchema* Find(uint32_t number) const;
};

// Of TracePacket.
const MessageSchema& TracePacketSchema();

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_TRACE_SCHEMA_H_
