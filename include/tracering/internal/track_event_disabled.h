// What stands in for track_event.h where TRACERING_DISABLE is defined: code
// that uses it compiles, and nothing of it is left. A macro's arguments are
// looked at by the compiler, so that what they name counts as used, and never
// evaluated.
//
// In a namespace of its own, so that files of one program may differ. Knows
// nothing of the libraries, which need not be linked. No threading rules.
#ifndef TRACERING_INTERNAL_TRACK_EVENT_DISABLED_H_
#define TRACERING_INTERNAL_TRACK_EVENT_DISABLED_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tracering/counter_unit.h"

namespace tracering {

class Producer;

inline namespace disabled {

// Inlined without optimisation, too, and so nowhere else.
#define TRACERING_NOTHING [[gnu::always_inline]] inline

// Takes any value, a list of them, a list of texts in a value, or items.
struct Ignored {
  template <typename T>
  TRACERING_NOTHING const Ignored& operator=(const T&) const {
    return *this;
  }
  template <typename T>
  TRACERING_NOTHING const Ignored& operator=(std::initializer_list<T>) const {
    return *this;
  }
  TRACERING_NOTHING const Ignored& operator=(
      std::initializer_list<std::initializer_list<std::string_view>>) const {
    return *this;
  }
  template <typename T>
  TRACERING_NOTHING void push_back(const T&) const {}
};

enum class TraceClock { kBoottime, kTsc };

struct TracingOptions {
  struct {
    Ignored name, socket_path, ring_size, chunk_size, buffers, ring_file,
        startup, allowed_service_uids, own_thread, on_session_start,
        on_categories;
    struct {
      Ignored policy, stall_timeout;
      template <typename T>
      TRACERING_NOTHING void operator=(const T&) const {}
    } writer_options;
  } producer;
  Ignored buffer, categories, clock;
};

struct TracingStats {
  TraceClock clock;
  uint64_t slices_too_deep;
};

// There is none, as a condition says; what is asked of it does nothing.
struct NoProducer {
  TRACERING_NOTHING explicit operator bool() const { return false; }
  TRACERING_NOTHING operator std::shared_ptr<Producer>() const {
    return nullptr;
  }
  TRACERING_NOTHING const NoProducer* operator->() const { return this; }
  TRACERING_NOTHING Producer* get() const { return nullptr; }
  TRACERING_NOTHING bool operator==(std::nullptr_t) const { return true; }
  TRACERING_NOTHING bool operator!=(std::nullptr_t) const { return false; }

  TRACERING_NOTHING bool WaitForConsumer(std::chrono::nanoseconds) const {
    return false;
  }
  TRACERING_NOTHING bool consumer_attached() const { return false; }
  TRACERING_NOTHING absl::Status Flush(std::chrono::nanoseconds) const {
    return absl::OkStatus();
  }
  TRACERING_NOTHING absl::Status Trigger(std::string_view) const {
    return absl::OkStatus();
  }
  TRACERING_NOTHING int poll_fd() const { return -1; }
  TRACERING_NOTHING void ProcessReady() const {}
  TRACERING_NOTHING uint64_t process_track() const { return 0; }
  template <typename... T>
  TRACERING_NOTHING uint64_t ThreadTrack(const T&...) const {
    return 0;
  }
  template <typename... T>
  TRACERING_NOTHING uint64_t AddTrack(const T&...) const {
    return 0;
  }
  TRACERING_NOTHING void RemoveTrack(uint64_t) const {}
};

TRACERING_NOTHING absl::Status StartTracing() { return absl::OkStatus(); }
TRACERING_NOTHING absl::Status StartTracing(const TracingOptions&) {
  return absl::OkStatus();
}
TRACERING_NOTHING void StopTracing() {}
TRACERING_NOTHING absl::Status FlushTracing(std::chrono::nanoseconds) {
  return absl::OkStatus();
}
TRACERING_NOTHING NoProducer TracingProducer() { return {}; }
TRACERING_NOTHING void SetEnabledCategories(const std::vector<std::string>&) {}
TRACERING_NOTHING bool CategoryEnabled(std::string_view) { return false; }
TRACERING_NOTHING void SetThreadName(std::string_view) {}
TRACERING_NOTHING TracingStats tracing_stats() {
  return {TraceClock::kBoottime, 0};
}

struct Flow {
  template <typename Id>
  TRACERING_NOTHING static Flow Local(const Id&) {
    return {};
  }
  template <typename Id>
  TRACERING_NOTHING static Flow Global(const Id&) {
    return {};
  }
  TRACERING_NOTHING uint64_t id() const { return 0; }
};

struct TerminatingFlow {
  TRACERING_NOTHING explicit TerminatingFlow(Flow) {}
  template <typename Id>
  TRACERING_NOTHING static TerminatingFlow Local(const Id&) {
    return TerminatingFlow(Flow());
  }
  template <typename Id>
  TRACERING_NOTHING static TerminatingFlow Global(const Id&) {
    return TerminatingFlow(Flow());
  }
  TRACERING_NOTHING uint64_t id() const { return 0; }
};

// Functions that are passed in are not called.
struct AnyWriter {
  template <typename... T>
  TRACERING_NOTHING void Add(const T&...) {}
  template <typename F>
  TRACERING_NOTHING void AddDict(std::string_view, const F&) {}
  template <typename F>
  TRACERING_NOTHING void AddArray(std::string_view, const F&) {}
  template <typename T>
  TRACERING_NOTHING void Append(const T&) {}
  template <typename F>
  TRACERING_NOTHING void AppendDict(const F&) {}
  template <typename F>
  TRACERING_NOTHING void AppendArray(const F&) {}
  template <typename T>
  TRACERING_NOTHING void Write(const T&) {}
  template <typename F>
  TRACERING_NOTHING void WriteDict(const F&) {}
  template <typename F>
  TRACERING_NOTHING void WriteArray(const F&) {}
};
class EventWriter : public AnyWriter {};
class DictWriter : public AnyWriter {};
class ArrayWriter : public AnyWriter {};
class ValueWriter : public AnyWriter {};

struct Counter {
  template <typename... T>
  TRACERING_NOTHING explicit Counter(std::string_view, const T&...) {}
};

class AsyncTrack {
 public:
  TRACERING_NOTHING explicit AsyncTrack(std::string_view) {}
  TRACERING_NOTHING AsyncTrack(std::string_view, AsyncTrack&) {}
  // For -Wunused-variable.
  TRACERING_NOTHING ~AsyncTrack() {}
  AsyncTrack(const AsyncTrack&) = delete;
  AsyncTrack& operator=(const AsyncTrack&) = delete;
};

struct Category {
  TRACERING_NOTHING explicit Category(std::string_view) {}
  TRACERING_NOTHING bool enabled() const { return false; }
};

template <typename... T>
TRACERING_NOTHING void TraceInstant(const T&...) {}
template <typename... T>
TRACERING_NOTHING void BeginSlice(const T&...) {}
template <typename... T>
TRACERING_NOTHING void EndSlice(const T&...) {}
template <typename... T>
TRACERING_NOTHING void TraceCounter(const T&...) {}

class ScopedSlice {
 public:
  template <typename... T>
  TRACERING_NOTHING explicit ScopedSlice(const Category&, const T&...) {}
  TRACERING_NOTHING ~ScopedSlice() {}
  ScopedSlice(const ScopedSlice&) = delete;
  ScopedSlice& operator=(const ScopedSlice&) = delete;
  template <typename... T>
  TRACERING_NOTHING void End(const T&...) {}
};

// The arguments of a macro, in code that is never reached.
template <typename... T>
TRACERING_NOTHING void LookAt(const T&...) {}

#undef TRACERING_NOTHING

}  // namespace disabled
}  // namespace tracering

#define TRACERING_INTERNAL_LOOK_AT(...)           \
  do {                                            \
    if (false) {                                  \
      ::tracering::disabled::LookAt(__VA_ARGS__); \
    }                                             \
  } while (false)

#define TRACERING_INTERNAL_SCOPE(id, ...) \
  TRACERING_INTERNAL_LOOK_AT(__VA_ARGS__)
#define TRACERING_INTERNAL_BEGIN(id, ...) \
  TRACERING_INTERNAL_LOOK_AT(__VA_ARGS__)
#define TRACERING_INTERNAL_END(id, ...) TRACERING_INTERNAL_LOOK_AT(__VA_ARGS__)
#define TRACERING_INTERNAL_INSTANT(id, ...) \
  TRACERING_INTERNAL_LOOK_AT(__VA_ARGS__)
#define TRACERING_INTERNAL_COUNTER(id, category, counter, value) \
  TRACERING_INTERNAL_LOOK_AT(category, counter, value)
#define TRACERING_INTERNAL_ASYNC_BEGIN(id, category, track, ...) \
  TRACERING_INTERNAL_LOOK_AT(category, track, __VA_ARGS__)
#define TRACERING_INTERNAL_ASYNC_END(...) \
  TRACERING_INTERNAL_LOOK_AT(__VA_ARGS__)
#define TRACERING_INTERNAL_ASYNC_INSTANT(id, category, track, ...) \
  TRACERING_INTERNAL_LOOK_AT(category, track, __VA_ARGS__)
#define TRACERING_INTERNAL_ENABLED(category) (false)

#endif  // TRACERING_INTERNAL_TRACK_EVENT_DISABLED_H_
