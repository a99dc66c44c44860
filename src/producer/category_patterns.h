// Which categories of track events a list of patterns enables.
//
// A pattern is a glob over the whole name of a category: `*` stands for any
// bytes, `?` for one. With a `-` in front it disables what it matches. The last
// pattern that matches decides; without any a category is off.
//
// Functions without state. Patterns may come from a peer: matching takes at
// most the product of both lengths, and no recursion.
#ifndef TRACERING_SRC_PRODUCER_CATEGORY_PATTERNS_H_
#define TRACERING_SRC_PRODUCER_CATEGORY_PATTERNS_H_

#include <string>
#include <string_view>
#include <vector>

namespace tracering::internal {

bool MatchesGlob(std::string_view pattern, std::string_view text);

// The items of a list such as "net,render.*,-render.verbose"; empty ones are
// left out.
std::vector<std::string> SplitPatterns(std::string_view list);

bool EnablesCategory(const std::vector<std::string>& patterns,
                     std::string_view category);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CATEGORY_PATTERNS_H_
