// All event sites of the process, and who says which of them are on.
//
//   patterns of the program (StartTracing, SetEnabledCategories, environment)
//   patterns of the consumer (while one is attached)
//     -> the last word counts; when the consumer goes, the program's
//     -> nothing unless tracing has been started
//
// Process-wide and never destroyed. Any thread, also in a forked child; not in
// signal handlers, except ResolveSite.
#ifndef TRACERING_SRC_PRODUCER_CATEGORY_REGISTRY_H_
#define TRACERING_SRC_PRODUCER_CATEGORY_REGISTRY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracering/internal/event_site.h"

namespace tracering::internal {

class CategoryRegistry {
 public:
  // Tracing begins: with `patterns`, else with those of an earlier SetOwn, else
  // with `otherwise`.
  static void Start(std::optional<std::vector<std::string>> patterns,
                    std::vector<std::string> otherwise);
  static void Stop();

  // The program's patterns, from now on.
  static void SetOwn(std::vector<std::string> patterns);
  // What the consumer says; nothing: there is none.
  static void SetConsumers(std::optional<std::vector<std::string>> patterns);

  // Whether events of a category would be written now.
  static bool IsEnabled(std::string_view category);

  // See event_site.h.
  static SiteGroup* AddGroup();
  static void RemoveGroup(SiteGroup* group);
  static bool Resolve(EventSite* site, SiteGroup* group);

 private:
  static void Apply();
  static void Switch(EventSite* site, bool on);
  static bool Contains(const SiteGroup& group, const EventSite* site);
  static bool MayBeLeftOpen(const EventSite& end);
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_CATEGORY_REGISTRY_H_
