// Packets as text, in the text format of protobuf, or as JSON, in its mapping
// to JSON (64-bit numbers as strings, bytes in base64) with the names of the
// fields as they are.
//
// Trust: packets may hold anything. What is not in the schema, or is not as the
// schema says, is printed by its number; nesting beyond a limit as bytes. What
// is printed never moves a terminal's cursor. One thread.
#ifndef TRACERING_TOOLS_PACKET_PRINTER_H_
#define TRACERING_TOOLS_PACKET_PRINTER_H_

#include <string>
#include <string_view>

namespace tracering::tools {

// Appends "packet { ... }", a field a line.
void PrintText(std::string_view packet, std::string* out);

// Appends one object on one line.
void PrintJson(std::string_view packet, std::string* out);

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_PACKET_PRINTER_H_
