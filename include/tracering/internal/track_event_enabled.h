// What the macros of track_event.h stand for, and the same as functions, for
// categories that are known at run time only.
//
// All of it is inlined into the traced program, so it is kept small: the check,
// and calls of event_packet.h. Threading as in track_event.h.
#ifndef TRACERING_INTERNAL_TRACK_EVENT_ENABLED_H_
#define TRACERING_INTERNAL_TRACK_EVENT_ENABLED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tracering/event_arguments.h"
#include "tracering/event_tracks.h"
#include "tracering/export.h"
#include "tracering/internal/event_packet.h"
#include "tracering/internal/event_site.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/trace_fields.h"
#include "tracering/tracing.h"

namespace tracering {

namespace internal {

// Whether the text of a macro argument is string literals and nothing else.
template <size_t kSize>
constexpr bool IsLiteral(const char (&text)[kSize]) {
  bool inside = false;
  bool any = false;
  for (size_t i = 0; i + 1 < kSize; ++i) {
    if (text[i] == '"') {
      inside = !inside;
      any = true;
    } else if (!inside && text[i] != ' ') {
      return false;
    } else if (inside && text[i] == '\\') {
      ++i;
    }
  }
  return any && !inside;
}

// An open event; ends it, also where an argument's own code has thrown.
class EventEnd {
 public:
  [[gnu::always_inline]] explicit EventEnd(const OpenEvent& open)
      : encoder_(open.writer, open.cur, open.end, kEventDepth) {}
  [[gnu::always_inline]] ~EventEnd() {
    encoder_.EndMessage(kEventDepth + 1);
    FinishEvent(encoder_.writer(), encoder_.cur(), encoder_.end());
  }
  EventEnd(const EventEnd&) = delete;
  EventEnd& operator=(const EventEnd&) = delete;

  PacketEncoder& encoder() { return encoder_; }

 private:
  PacketEncoder encoder_;
};

template <typename... Arguments>
[[gnu::always_inline]] inline void FinishWith(const OpenEvent& open,
                                              const Arguments&... arguments) {
  EventEnd event(open);
  AddAll(event.encoder(), arguments...);
}

// The macros pass their whole argument list, and so the category once more.
template <bool kLiteral, typename Name, typename... Arguments>
[[gnu::always_inline]] inline void WriteThreadEvent(
    EventSite& site, uint64_t type, const char*, const Name& name,
    const Arguments&... arguments) {
  const std::string_view text = TextOf(name);
  if constexpr (kLiteral && sizeof...(Arguments) == 0) {
    WriteLiteralEvent(site, type, text.data(), text.size());
  } else if constexpr (kLiteral) {
    FinishWith(OpenLiteralEvent(site, type, text.data(), text.size()),
               arguments...);
  } else {
    FinishWith(OpenNamedEvent(site, type, 0, text.data(), text.size()),
               arguments...);
  }
}

template <typename Name, typename... Arguments>
[[gnu::always_inline]] inline void WriteAsyncEvent(
    EventSite& site, uint64_t type, AsyncTrack& track, const Name& name,
    const Arguments&... arguments) {
  const std::string_view text = TextOf(name);
  FinishWith(OpenNamedEvent(site, type, track.uuid(), text.data(), text.size()),
             arguments...);
}

// Returns the session in which the slice began.
template <bool kLiteral, typename... Arguments>
[[gnu::always_inline]] inline uint32_t BeginScope(
    EventSite& site, const char* category, const Arguments&... arguments) {
  const uint32_t session = current_session.load(std::memory_order_relaxed);
  WriteThreadEvent<kLiteral>(site, track_event::kTypeSliceBegin, category,
                             arguments...);
  return session;
}

template <bool kLiteral, typename... Arguments>
[[gnu::always_inline]] inline void BeginNested(EventSite& site,
                                               const char* category,
                                               const Arguments&... arguments) {
  if (!NoteSliceBegin(site)) return;
  WriteThreadEvent<kLiteral>(site, track_event::kTypeSliceBegin, category,
                             arguments...);
}

template <typename... Arguments>
[[gnu::always_inline]] inline void EndNested(EventSite& site, const char*,
                                             const Arguments&... arguments) {
  if (!NoteSliceEnd(site)) return;
  FinishWith(OpenBareEvent(track_event::kTypeSliceEnd, 0), arguments...);
}

// After NoteEnd.
template <typename... Arguments>
[[gnu::always_inline]] inline void EndAsync(AsyncTrack& track,
                                            const Arguments&... arguments) {
  FinishWith(OpenBareEvent(track_event::kTypeSliceEnd, track.uuid()),
             arguments...);
}

template <bool kLiteral, size_t kSize>
CounterTrack* CounterOf(std::atomic<CounterTrack*>& known,
                        const char (&name)[kSize]) {
  static_assert(kLiteral,
                "make a tracering::Counter for a name that is no literal");
  CounterTrack* counter = known.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = FindOrAddCounter(name, CounterUnit::kUnspecified, {});
    known.store(counter, std::memory_order_release);
  }
  return counter;
}
template <bool kLiteral>
CounterTrack* CounterOf(std::atomic<CounterTrack*>&, const Counter& counter) {
  return counter.track();
}

// Ends a slice that began, whatever has been switched meanwhile.
class [[nodiscard]] Scope {
 public:
  explicit Scope(uint32_t session) : session_(session) {}
  ~Scope() {
    if (session_ != 0) WriteSliceEnd(session_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const uint32_t session_;  // 0: it did not begin
};

struct CategorySites {
  constexpr explicit CategorySites(const char* name)
      : events(name, SiteKind::kBegin), ends(name, SiteKind::kEnd) {}

  EventSite events;
  EventSite ends;
};
// The ones of that category. Never null, never freed; without memory some that
// are always off.
TRACERING_EXPORT CategorySites* FindOrAddCategory(
    std::string_view name) noexcept;

}  // namespace internal

// A category that is named at run time. Copied at will; names are kept for
// ever, and cut at 1024 bytes.
class Category {
 public:
  explicit Category(std::string_view name)
      : sites_(internal::FindOrAddCategory(name)) {}

  // One load, and another one of the object itself.
  bool enabled() const { return sites_->events.enabled(); }

  internal::EventSite& events() const { return sites_->events; }
  internal::EventSite& ends() const { return sites_->ends; }

 private:
  internal::CategorySites* sites_;
};

// What the macros do. Arguments are evaluated in any case: pass a function for
// one that is costly to make, which is called only if the category is enabled.

template <typename Name, typename... Arguments>
void TraceInstant(const Category& category, const Name& name,
                  const Arguments&... arguments) {
  if (!category.events().enabled()) return;
  internal::WriteThreadEvent<false>(category.events(),
                                    track_event::kTypeInstant, nullptr, name,
                                    arguments...);
}

template <typename Name, typename... Arguments>
void BeginSlice(const Category& category, const Name& name,
                const Arguments&... arguments) {
  if (!category.events().enabled()) return;
  internal::BeginNested<false>(category.events(), nullptr, name, arguments...);
}

template <typename... Arguments>
void EndSlice(const Category& category, const Arguments&... arguments) {
  if (!category.ends().may_end()) return;
  internal::EndNested(category.ends(), nullptr, arguments...);
}

template <typename T>
void TraceCounter(const Category& category, const Counter& counter, T value) {
  if (!category.events().enabled()) return;
  internal::WriteCounterValue(category.events(), counter.track(), value);
}

template <typename Name, typename... Arguments>
void TraceInstant(const Category& category, AsyncTrack& track, const Name& name,
                  const Arguments&... arguments) {
  if (!category.events().enabled()) return;
  internal::WriteAsyncEvent(category.events(), track_event::kTypeInstant, track,
                            name, arguments...);
}

template <typename Name, typename... Arguments>
void BeginSlice(const Category& category, AsyncTrack& track, const Name& name,
                const Arguments&... arguments) {
  if (!category.events().enabled() || !track.NoteBegin()) return;
  internal::WriteAsyncEvent(category.events(), track_event::kTypeSliceBegin,
                            track, name, arguments...);
}

template <typename... Arguments>
void EndSlice(AsyncTrack& track, const Arguments&... arguments) {
  if (track.NoteEnd()) internal::EndAsync(track, arguments...);
}

// A slice that lasts as long as the object, on the thread that made it, or to
// an earlier End.
class [[nodiscard]] ScopedSlice {
 public:
  template <typename Name, typename... Arguments>
  explicit ScopedSlice(const Category& category, const Name& name,
                       const Arguments&... arguments) {
    if (!category.events().enabled()) return;
    session_ = internal::BeginScope<false>(category.events(), nullptr, name,
                                           arguments...);
  }
  ~ScopedSlice() { End(); }
  ScopedSlice(const ScopedSlice&) = delete;
  ScopedSlice& operator=(const ScopedSlice&) = delete;

  // With arguments that are known only now. Again: no effect.
  template <typename... Arguments>
  void End(const Arguments&... arguments) {
    if (session_ == 0) return;
    internal::FinishWith(internal::OpenSliceEnd(session_), arguments...);
    session_ = 0;
  }

 private:
  uint32_t session_ = 0;  // 0: it did not begin, or has ended
};

}  // namespace tracering

// --- What the macros are made of ---

#define TRACERING_INTERNAL_FIRST(...) TRACERING_INTERNAL_FIRST_(__VA_ARGS__, 0)
#define TRACERING_INTERNAL_FIRST_(first, ...) first
#define TRACERING_INTERNAL_SECOND(...) \
  TRACERING_INTERNAL_SECOND_(__VA_ARGS__, 0, 0)
#define TRACERING_INTERNAL_SECOND_(first, second, ...) second
#define TRACERING_INTERNAL_CAT(a, b) TRACERING_INTERNAL_CAT_(a, b)
#define TRACERING_INTERNAL_CAT_(a, b) a##b
#define TRACERING_INTERNAL_TEXT(...) TRACERING_INTERNAL_TEXT_(__VA_ARGS__)
#define TRACERING_INTERNAL_TEXT_(...) #__VA_ARGS__
#define TRACERING_INTERNAL_IS_LITERAL(...) \
  ::tracering::internal::IsLiteral(TRACERING_INTERNAL_TEXT(__VA_ARGS__))
// Whether the name, the second argument, is a literal.
#define TRACERING_INTERNAL_LITERAL_NAME(...) \
  TRACERING_INTERNAL_IS_LITERAL(TRACERING_INTERNAL_SECOND(__VA_ARGS__))
// The site of this use of a macro.
#define TRACERING_INTERNAL_SITE(id, kind, ...)                               \
  static ::tracering::internal::EventSite TRACERING_INTERNAL_NAME(site, id)( \
      "" TRACERING_INTERNAL_FIRST(__VA_ARGS__),                              \
      ::tracering::internal::SiteKind::kind)
#define TRACERING_INTERNAL_NAME(what, id) \
  TRACERING_INTERNAL_CAT(tracering_##what##_, id)

#define TRACERING_INTERNAL_SCOPE(id, ...)                                      \
  TRACERING_INTERNAL_SITE(id, kPlain, __VA_ARGS__);                            \
  const ::tracering::internal::Scope TRACERING_INTERNAL_NAME(scope, id)(       \
      TRACERING_INTERNAL_NAME(site, id).enabled()                              \
          ? ::tracering::internal::BeginScope<TRACERING_INTERNAL_LITERAL_NAME( \
                __VA_ARGS__)>(TRACERING_INTERNAL_NAME(site, id), __VA_ARGS__)  \
          : 0u)

#define TRACERING_INTERNAL_BEGIN(id, ...)                                 \
  do {                                                                    \
    TRACERING_INTERNAL_SITE(id, kBegin, __VA_ARGS__);                     \
    if (TRACERING_INTERNAL_NAME(site, id).enabled()) {                    \
      ::tracering::internal::BeginNested<TRACERING_INTERNAL_LITERAL_NAME( \
          __VA_ARGS__)>(TRACERING_INTERNAL_NAME(site, id), __VA_ARGS__);  \
    }                                                                     \
  } while (false)

#define TRACERING_INTERNAL_END(id, ...)                                   \
  do {                                                                    \
    TRACERING_INTERNAL_SITE(id, kEnd, __VA_ARGS__);                       \
    if (TRACERING_INTERNAL_NAME(site, id).may_end()) {                    \
      ::tracering::internal::EndNested(TRACERING_INTERNAL_NAME(site, id), \
                                       __VA_ARGS__);                      \
    }                                                                     \
  } while (false)

#define TRACERING_INTERNAL_INSTANT(id, ...)                                    \
  do {                                                                         \
    TRACERING_INTERNAL_SITE(id, kPlain, __VA_ARGS__);                          \
    if (TRACERING_INTERNAL_NAME(site, id).enabled()) {                         \
      ::tracering::internal::WriteThreadEvent<TRACERING_INTERNAL_LITERAL_NAME( \
          __VA_ARGS__)>(TRACERING_INTERNAL_NAME(site, id),                     \
                        ::tracering::track_event::kTypeInstant, __VA_ARGS__);  \
    }                                                                          \
  } while (false)

#define TRACERING_INTERNAL_COUNTER(id, category, counter, value)          \
  do {                                                                    \
    TRACERING_INTERNAL_SITE(id, kPlain, category);                        \
    if (TRACERING_INTERNAL_NAME(site, id).enabled()) {                    \
      static ::std::atomic<::tracering::internal::CounterTrack*>          \
          TRACERING_INTERNAL_NAME(known, id){nullptr};                    \
      ::tracering::internal::WriteCounterValue(                           \
          TRACERING_INTERNAL_NAME(site, id),                              \
          ::tracering::internal::CounterOf<TRACERING_INTERNAL_IS_LITERAL( \
              counter)>(TRACERING_INTERNAL_NAME(known, id), counter),     \
          value);                                                         \
    }                                                                     \
  } while (false)

#define TRACERING_INTERNAL_ASYNC_BEGIN(id, category, track, ...)        \
  do {                                                                  \
    TRACERING_INTERNAL_SITE(id, kPlain, category);                      \
    if (TRACERING_INTERNAL_NAME(site, id).enabled()) {                  \
      ::tracering::AsyncTrack& TRACERING_INTERNAL_NAME(on, id) = track; \
      if (TRACERING_INTERNAL_NAME(on, id).NoteBegin()) {                \
        ::tracering::internal::WriteAsyncEvent(                         \
            TRACERING_INTERNAL_NAME(site, id),                          \
            ::tracering::track_event::kTypeSliceBegin,                  \
            TRACERING_INTERNAL_NAME(on, id), __VA_ARGS__);              \
      }                                                                 \
    }                                                                   \
  } while (false)

#define TRACERING_INTERNAL_ASYNC_END(...)                    \
  do {                                                       \
    if ((TRACERING_INTERNAL_FIRST(__VA_ARGS__)).NoteEnd()) { \
      ::tracering::internal::EndAsync(__VA_ARGS__);          \
    }                                                        \
  } while (false)

#define TRACERING_INTERNAL_ASYNC_INSTANT(id, category, track, ...)     \
  do {                                                                 \
    TRACERING_INTERNAL_SITE(id, kPlain, category);                     \
    if (TRACERING_INTERNAL_NAME(site, id).enabled()) {                 \
      ::tracering::internal::WriteAsyncEvent(                          \
          TRACERING_INTERNAL_NAME(site, id),                           \
          ::tracering::track_event::kTypeInstant, track, __VA_ARGS__); \
    }                                                                  \
  } while (false)

#define TRACERING_INTERNAL_ENABLED(category)                             \
  ([]() -> bool {                                                        \
    static ::tracering::internal::EventSite tracering_site("" category); \
    return tracering_site.enabled();                                     \
  }())

#endif  // TRACERING_INTERNAL_TRACK_EVENT_ENABLED_H_
