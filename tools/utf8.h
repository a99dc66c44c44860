// What of a text that came from anywhere may be shown as it is.
//
// Knows no terminal: bytes above ASCII are good if they are UTF-8 and control
// nothing. Pure functions.
#ifndef TRACERING_TOOLS_UTF8_H_
#define TRACERING_TOOLS_UTF8_H_

#include <cstddef>
#include <string_view>

namespace tracering::tools {

// Bytes of the UTF-8 character at the start of `text`; 0 if there is none, and
// for control characters beyond ASCII.
inline size_t Utf8Size(std::string_view text) {
  const auto at = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0 && follows(1)) {
    return first == 0xc2 && at(1) < 0xa0 ? 0 : 2;
  }
  if (first >= 0xe0 && first < 0xf0 && follows(1) && follows(2)) {
    const unsigned code = (first & 15) << 12 | (at(1) & 63) << 6 | (at(2) & 63);
    return code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 0 : 3;
  }
  if (first >= 0xf0 && first < 0xf5 && follows(1) && follows(2) && follows(3)) {
    const unsigned high = (first & 7) << 6 | (at(1) & 63);
    return high < 0x10 || high >= 0x110 ? 0 : 4;
  }
  return 0;
}

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_UTF8_H_
