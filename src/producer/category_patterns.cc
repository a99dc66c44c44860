// Matching; see category_patterns.h.
#include "src/producer/category_patterns.h"

#include <cstddef>

namespace tracering::internal {

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  // Where to go on when what follows the last `*` does not fit: with one byte
  // more in it.
  size_t star = std::string_view::npos;
  size_t star_end = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> SplitPatterns(std::string_view list) {
  std::vector<std::string> patterns;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    if (!item.empty()) patterns.emplace_back(item);
    list.remove_prefix(item.size());
    if (!list.empty()) list.remove_prefix(1);
  }
  return patterns;
}

bool EnablesCategory(const std::vector<std::string>& patterns,
                     std::string_view category) {
  for (auto i = patterns.rbegin(); i != patterns.rend(); ++i) {
    std::string_view pattern = *i;
    const bool disables = !pattern.empty() && pattern.front() == '-';
    if (disables) pattern.remove_prefix(1);
    if (MatchesGlob(pattern, category)) return !disables;
  }
  return false;
}

}  // namespace tracering::internal
