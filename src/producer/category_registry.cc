// The lists of sites and the patterns in force; see category_registry.h.
#include "src/producer/category_registry.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "src/common/os/fork_safe.h"
#include "src/common/os/no_cancellation.h"
#include "src/producer/category_patterns.h"
#include "src/producer/fork_safe_lock.h"

namespace tracering::internal {

struct SiteGroup {
  std::atomic<bool> taken{true};
  // Both ends of a list are marked, as a null `next` means something else.
  std::atomic<EventSite*> first{nullptr};
  SiteGroup* next = nullptr;  // immutable once it is in the list
};

namespace {

using Patterns = std::vector<std::string>;

// Constant-initialised and trivially destroyed, for sites that are reached
// before and after everything else.
ForkSafeLock registry_lock;
std::atomic<SiteGroup*> groups{nullptr};
// Stands for the end of a list.
EventSite list_end("");

// Guarded by registry_lock. Lists are never changed, only replaced: a fork
// finds them whole.
bool tracing_started = false;
const Patterns* own_patterns = nullptr;
const Patterns* patterns_in_force = nullptr;

bool IsOn(std::string_view category) {
  return tracing_started && patterns_in_force != nullptr &&
         EnablesCategory(*patterns_in_force, category);
}

// What *list was, to be deleted after that.
std::unique_ptr<const Patterns> ReplacePatterns(
    const Patterns** list, std::unique_ptr<const Patterns> by) {
  return std::unique_ptr<const Patterns>(std::exchange(*list, by.release()));
}

std::unique_ptr<const Patterns> CopyOf(const Patterns& patterns) {
  return std::make_unique<const Patterns>(patterns);
}

// FNV-1a; never 0.
uint32_t HashOf(std::string_view category) {
  uint32_t hash = 2166136261;
  for (const char c : category) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  }
  return hash | 1;
}

class RegistryLock {
 public:
  RegistryLock() : lock_(registry_lock) {}

 private:
  const os::NoCancellation no_cancellation_;
  const std::lock_guard<ForkSafeLock> lock_;
};

}  // namespace

SiteGroup* AddSiteGroup() noexcept { return CategoryRegistry::AddGroup(); }
void RemoveSiteGroup(SiteGroup* group) noexcept {
  CategoryRegistry::RemoveGroup(group);
}
bool ResolveSite(EventSite* site, SiteGroup* group) noexcept {
  return CategoryRegistry::Resolve(site, group);
}

void CategoryRegistry::Start(std::optional<Patterns> patterns,
                             Patterns otherwise) {
  const RegistryLock locked;
  const Patterns& chosen = patterns.has_value()      ? *patterns
                           : own_patterns != nullptr ? *own_patterns
                                                     : otherwise;
  auto copy = CopyOf(chosen);
  const auto old = ReplacePatterns(&patterns_in_force, CopyOf(chosen));
  const auto old_own = ReplacePatterns(&own_patterns, std::move(copy));
  tracing_started = true;
  Apply();
}

void CategoryRegistry::Stop() {
  const RegistryLock locked;
  tracing_started = false;
  Apply();
}

void CategoryRegistry::SetOwn(Patterns patterns) {
  const RegistryLock locked;
  auto copy = CopyOf(patterns);
  const auto old = ReplacePatterns(&patterns_in_force, CopyOf(patterns));
  const auto old_own = ReplacePatterns(&own_patterns, std::move(copy));
  Apply();
}

void CategoryRegistry::SetConsumers(std::optional<Patterns> patterns) {
  const RegistryLock locked;
  if (!patterns.has_value() && own_patterns != nullptr)
    patterns = *own_patterns;
  const auto old = ReplacePatterns(
      &patterns_in_force, CopyOf(std::move(patterns).value_or(Patterns())));
  Apply();
}

bool CategoryRegistry::IsEnabled(std::string_view category) {
  const RegistryLock locked;
  return IsOn(category);
}

// --- Sites ---

SiteGroup* CategoryRegistry::AddGroup() {
  for (SiteGroup* group = groups.load(std::memory_order_acquire);
       group != nullptr; group = group->next) {
    bool expected = false;
    if (group->taken.compare_exchange_strong(expected, true,
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return group;
    }
  }
  auto* const group = new (std::nothrow) SiteGroup;
  if (group == nullptr) return nullptr;
  group->first.store(&list_end, std::memory_order_relaxed);
  os::PushFront(&groups, group);
  return group;
}

void CategoryRegistry::RemoveGroup(SiteGroup* group) {
  if (group == nullptr) return;
  // Whoever walks the sites is in the middle of it, or finds none of them.
  const RegistryLock locked;
  group->first.store(&list_end, std::memory_order_relaxed);
  group->taken.store(false, std::memory_order_release);
}

bool CategoryRegistry::Resolve(EventSite* site, SiteGroup* group) {
  // Not initialised yet, destroyed, or without memory.
  if (group == nullptr || !group->taken.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::unique_lock<ForkSafeLock> lock(registry_lock, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (site->state_.load(std::memory_order_relaxed) == EventSite::State::kNew) {
    site->category_hash_.store(HashOf(site->category()),
                               std::memory_order_relaxed);
    // In the list already: a fork has interrupted this.
    if (site->next_.load(std::memory_order_relaxed) == nullptr ||
        !Contains(*group, site)) {
      site->next_.store(group->first.load(std::memory_order_relaxed),
                        std::memory_order_relaxed);
      group->first.store(site, std::memory_order_release);
    }
    if (site->kind_ == SiteKind::kEnd) site->was_on_ = MayBeLeftOpen(*site);
    Switch(site, IsOn(site->category()));
  }
  return site->state_.load(std::memory_order_relaxed) == EventSite::State::kOn;
}

bool CategoryRegistry::Contains(const SiteGroup& group, const EventSite* site) {
  for (const EventSite* i = group.first.load(std::memory_order_relaxed);
       i != &list_end; i = i->next_.load(std::memory_order_relaxed)) {
    if (i == site) return true;
  }
  return false;
}

// Whether a slice of its category may be open, which began before the site that
// ends it was ever reached.
bool CategoryRegistry::MayBeLeftOpen(const EventSite& end) {
  for (const SiteGroup* group = groups.load(std::memory_order_acquire);
       group != nullptr; group = group->next) {
    for (const EventSite* i = group->first.load(std::memory_order_relaxed);
         i != &list_end; i = i->next_.load(std::memory_order_relaxed)) {
      if (i->kind_ == SiteKind::kBegin && i->was_on_ &&
          i->category() == end.category()) {
        return true;
      }
    }
  }
  return false;
}

void CategoryRegistry::Apply() {
  for (const SiteGroup* group = groups.load(std::memory_order_acquire);
       group != nullptr; group = group->next) {
    for (EventSite* site = group->first.load(std::memory_order_relaxed);
         site != &list_end;
         site = site->next_.load(std::memory_order_relaxed)) {
      Switch(site, IsOn(site->category()));
    }
  }
}

void CategoryRegistry::Switch(EventSite* site, bool on) {
  using State = EventSite::State;
  site->was_on_ |= on;
  State next = State::kOff;
  if (on) {
    next = State::kOn;
  } else if (site->kind_ == SiteKind::kEnd && site->was_on_) {
    next = State::kLeftOpen;
  }
  site->state_.store(next, std::memory_order_relaxed);
}

}  // namespace tracering::internal
