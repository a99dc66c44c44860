// One place in the program that writes track events: which category it belongs
// to, and whether that is enabled.
//
// A site is a constant-initialised static, registered when it is first reached,
// so that the registry can switch it from any thread. The registry forgets the
// sites of a shared object that is unloaded. Any thread; after the end of
// static objects a site keeps its last state.
#ifndef TRACERING_INTERNAL_EVENT_SITE_H_
#define TRACERING_INTERNAL_EVENT_SITE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tracering/export.h"

namespace tracering::internal {

enum class SiteKind : uint8_t {
  kPlain,
  kBegin,  // of slices that another site ends
  kEnd,
};

class EventSite {
 public:
  // `category` stays where it is as long as the site.
  constexpr explicit EventSite(const char* category,
                               SiteKind kind = SiteKind::kPlain)
      : kind_(kind), category_(category) {}
  EventSite(const EventSite&) = delete;
  EventSite& operator=(const EventSite&) = delete;

  // One relaxed load and one branch where it is off.
  bool enabled() {
    const State state = state_.load(std::memory_order_relaxed);
    if (__builtin_expect(state == State::kOff, 1)) return false;
    return state == State::kOn || EnabledCold(state);
  }

  // Of a kEnd site: whether a slice that began while the category was enabled
  // may have to be ended.
  bool may_end() {
    const State state = state_.load(std::memory_order_relaxed);
    if (__builtin_expect(state == State::kOff, 1)) return false;
    return state != State::kNew || EnabledCold(state) ||
           state_.load(std::memory_order_relaxed) == State::kLeftOpen;
  }

  std::string_view category() const { return category_; }
  // Tells categories apart, also those of sites that are gone. Valid once the
  // site was enabled.
  uint32_t category_hash() const {
    return category_hash_.load(std::memory_order_relaxed);
  }

  // --- For the event writer ---

  // What all events of a site with a literal name have in common, encoded once.
  static constexpr size_t kMaxEncoded = 64;
  // 0: not there, or too long.
  uint32_t encoded_size() const {
    return encoded_size_.load(std::memory_order_acquire);
  }
  const uint8_t* encoded() const { return encoded_; }
  // Calls `encode(bytes)`, which returns how many of kMaxEncoded it has
  // written, unless that was done before.
  template <typename Encode>
  void EncodeOnce(const Encode& encode) {
    if (encoding_.exchange(true, std::memory_order_relaxed)) return;
    encoded_size_.store(encode(encoded_), std::memory_order_release);
  }

 private:
  friend class CategoryRegistry;

  enum class State : uint8_t {
    kOff,
    kOn,
    kNew,       // nobody has looked yet
    kLeftOpen,  // a kEnd site whose category was enabled once and is not now
  };

  // Its first use, and kLeftOpen.
  bool EnabledCold(State state);

  std::atomic<State> state_{State::kNew};
  const SiteKind kind_;
  // Guarded by the registry's lock.
  bool was_on_ = false;
  std::atomic<bool> encoding_{false};
  std::atomic<uint32_t> encoded_size_{0};
  std::atomic<uint32_t> category_hash_{0};
  const char* const category_;
  // Null as long as the site is in no list.
  std::atomic<EventSite*> next_{nullptr};
  uint8_t encoded_[kMaxEncoded] = {};
};

// The sites of one executable or shared object. Never freed; taken again.
struct SiteGroup;
// Null if there is no memory.
TRACERING_EXPORT SiteGroup* AddSiteGroup() noexcept;
TRACERING_EXPORT void RemoveSiteGroup(SiteGroup* group) noexcept;
// Puts the site in the group's list and returns whether it is on. A site that
// cannot be put there now is off, and tried again.
TRACERING_EXPORT bool ResolveSite(EventSite* site, SiteGroup* group) noexcept;

// Hidden, so that each shared object has its own, whose destructor runs when it
// is unloaded.
class ModuleSites {
 public:
  ModuleSites() : group_(AddSiteGroup()) {}
  ~ModuleSites() { RemoveSiteGroup(group_); }
  ModuleSites(const ModuleSites&) = delete;
  ModuleSites& operator=(const ModuleSites&) = delete;

  SiteGroup* group() const { return group_; }

 private:
  SiteGroup* group_;
};
[[gnu::visibility("hidden")]] inline ModuleSites module_sites;

[[gnu::visibility("hidden"), gnu::noinline, gnu::cold]] inline bool
ResolveSiteOfModule(EventSite* site) noexcept {
  return ResolveSite(site, module_sites.group());
}

inline bool EventSite::EnabledCold(State state) {
  return state == State::kNew && ResolveSiteOfModule(this);
}

}  // namespace tracering::internal

#endif  // TRACERING_INTERNAL_EVENT_SITE_H_
