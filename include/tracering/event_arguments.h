// What a track event carries beside its name: arguments of any type, nested
// ones, and flows. Arguments become debug annotations of the event.
//
//   TRACERING_INSTANT("net", "sent", "bytes", size, "peer", peer_name,
//                     tracering::Flow::Local(request_id));
//   TRACERING_INSTANT("net", "sent", [&](tracering::EventWriter& event) {
//     event.Add("headers", headers);
//     event.AddDict("peer", [&](tracering::DictWriter& peer) {
//       peer.Add("host", host);
//       peer.Add("port", port);
//     });
//   });
//
// A type of your own becomes an argument by an overload next to it:
//
//   void WriteTraceValue(tracering::ValueWriter& out, const Point& point) {
//     out.WriteDict([&](tracering::DictWriter& dict) {
//       dict.Add("x", point.x);
//       dict.Add("y", point.y);
//     });
//   }
//
// Writers live as long as the call that they are passed to, on its thread. The
// event's packet is open meanwhile: track events that the same thread writes
// within such a call are lost, and counted.
#ifndef TRACERING_EVENT_ARGUMENTS_H_
#define TRACERING_EVENT_ARGUMENTS_H_

#ifdef TRACERING_DISABLE
#include "tracering/internal/track_event_disabled.h"
#else

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "tracering/internal/event_packet.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/trace_fields.h"

namespace tracering {

// Connects events, over threads and processes, to one arrow: those that carry
// the same flow, in the order of time.
class Flow {
 public:
  // Whatever distinguishes it within the process, such as a request's number.
  static Flow Local(uint64_t id) { return Flow(internal::LocalFlowId(id)); }
  static Flow Local(const void* object) {
    return Local(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(object)));
  }
  // The same in every process that says the same number.
  static Flow Global(uint64_t id) { return Flow(id); }

  uint64_t id() const { return id_; }

 private:
  explicit Flow(uint64_t id) : id_(id) {}

  uint64_t id_;
};

// The last event of a flow. A later event may begin another flow of this id.
class TerminatingFlow {
 public:
  explicit TerminatingFlow(Flow flow) : id_(flow.id()) {}
  static TerminatingFlow Local(uint64_t id) {
    return TerminatingFlow(Flow::Local(id));
  }
  static TerminatingFlow Local(const void* object) {
    return TerminatingFlow(Flow::Local(object));
  }
  static TerminatingFlow Global(uint64_t id) {
    return TerminatingFlow(Flow::Global(id));
  }

  uint64_t id() const { return id_; }

 private:
  uint64_t id_;
};

class ValueWriter;
class DictWriter;
class ArrayWriter;

namespace internal {

template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T> >;

template <typename T, typename = void>
inline constexpr bool kHasWriteTraceValue = false;
template <typename T>
inline constexpr bool kHasWriteTraceValue<
    T, std::void_t<decltype(WriteTraceValue(
           std::declval<ValueWriter&>(), std::declval<const T&>()))> > = true;

// Not a path of std::filesystem, whose elements are paths again.
template <typename T, typename = void>
inline constexpr bool kIsRange = false;
template <typename T>
inline constexpr bool kIsRange<
    T, std::void_t<decltype(std::begin(std::declval<const T&>())),
                   decltype(std::end(std::declval<const T&>()))> > =
    !std::is_same_v<Bare<decltype(*std::begin(std::declval<const T&>()))>, T>;

template <typename T, typename = void>
inline constexpr bool kIsMap = false;
template <typename T>
inline constexpr bool
    kIsMap<T, std::void_t<typename T::key_type, typename T::mapped_type> > =
        std::is_convertible_v<const typename T::key_type&, std::string_view>;

template <typename T>
inline constexpr bool kIsText =
    std::is_convertible_v<const T&, std::string_view> &&
    !std::is_same_v<T, std::nullptr_t>;

// Something to be called for the value.
template <typename T>
inline constexpr bool kIsLazy =
    std::is_invocable_v<const T&> && !std::is_pointer_v<std::decay_t<T> >;

template <typename>
inline constexpr bool kAlwaysFalse = false;

// A null pointer is a legal argument, and no text.
template <typename T>
[[gnu::always_inline]] inline std::string_view TextOf(const T& text) {
  if constexpr (std::is_pointer_v<T>) {
    if (text == nullptr) return "(null)";
  }
  return text;
}

template <typename T>
void WriteValue(PacketEncoder& encoder, const T& value);

// A whole annotation. The types that are cheap to write take one call each.
template <typename T>
[[gnu::always_inline]] inline void AddArgument(PacketEncoder& encoder,
                                               std::string_view name,
                                               const T& value) {
  uint8_t* end = encoder.end();
  uint8_t* cur = encoder.cur();
  const auto number = [&](uint32_t field, uint64_t bits) {
    cur = AppendNumberArgument(encoder.writer(), cur, &end, name.data(),
                               name.size(), field, bits);
    encoder.GoOn(cur, end);
  };
  if constexpr (kHasWriteTraceValue<T> || kIsLazy<T>) {
    const uint32_t depth = encoder.BeginMessage(track_event::kDebugAnnotations);
    encoder.AppendBytes(debug_annotation::kName, name.data(), name.size());
    WriteValue(encoder, value);
    encoder.EndMessage(depth);
  } else if constexpr (std::is_same_v<T, bool>) {
    number(debug_annotation::kBoolValue, value ? 1 : 0);
  } else if constexpr (std::is_enum_v<T>) {
    AddArgument(encoder, name, static_cast<std::underlying_type_t<T> >(value));
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    number(debug_annotation::kIntValue,
           static_cast<uint64_t>(static_cast<int64_t>(value)));
  } else if constexpr (std::is_integral_v<T>) {
    number(debug_annotation::kUintValue, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    cur = AppendDoubleArgument(encoder.writer(), cur, &end, name.data(),
                               name.size(), static_cast<double>(value));
    encoder.GoOn(cur, end);
  } else if constexpr (kIsText<T>) {
    const std::string_view text = TextOf(value);
    cur = AppendTextArgument(encoder.writer(), cur, &end, name.data(),
                             name.size(), text.data(), text.size());
    encoder.GoOn(cur, end);
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    number(debug_annotation::kPointerValue, 0);
  } else if constexpr (std::is_pointer_v<T>) {
    number(debug_annotation::kPointerValue, reinterpret_cast<uintptr_t>(value));
  } else {
    const uint32_t depth = encoder.BeginMessage(track_event::kDebugAnnotations);
    encoder.AppendBytes(debug_annotation::kName, name.data(), name.size());
    WriteValue(encoder, value);
    encoder.EndMessage(depth);
  }
}

}  // namespace internal

// The entries of a dictionary.
class DictWriter {
 public:
  DictWriter(const DictWriter&) = delete;
  DictWriter& operator=(const DictWriter&) = delete;

  // `value` is of any type that an argument may have.
  template <typename T>
  void Add(std::string_view name, const T& value) {
    const uint32_t depth = Begin(name);
    internal::WriteValue(encoder_, value);
    encoder_.EndMessage(depth);
  }
  // `write` is called with a DictWriter, or an ArrayWriter, at once.
  template <typename Write>
  void AddDict(std::string_view name, const Write& write);
  template <typename Write>
  void AddArray(std::string_view name, const Write& write);

 protected:
  friend class ValueWriter;
  DictWriter(internal::PacketEncoder& encoder, uint32_t entry_field)
      : encoder_(encoder), entry_field_(entry_field) {}
  ~DictWriter() = default;

  uint32_t Begin(std::string_view name) {
    const uint32_t depth = encoder_.BeginMessage(entry_field_);
    encoder_.AppendBytes(debug_annotation::kName, name.data(), name.size());
    return depth;
  }

  internal::PacketEncoder& encoder_;

 private:
  const uint32_t entry_field_;
};

// The items of an array.
class ArrayWriter {
 public:
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  template <typename T>
  void Append(const T& value) {
    const uint32_t depth = Begin();
    internal::WriteValue(encoder_, value);
    encoder_.EndMessage(depth);
  }
  template <typename Write>
  void AppendDict(const Write& write);
  template <typename Write>
  void AppendArray(const Write& write);

 private:
  friend class ValueWriter;
  explicit ArrayWriter(internal::PacketEncoder& encoder) : encoder_(encoder) {}
  ~ArrayWriter() = default;

  uint32_t Begin() {
    return encoder_.BeginMessage(debug_annotation::kArrayValues);
  }

  internal::PacketEncoder& encoder_;
};

// One value, which is to be written once.
class ValueWriter {
 public:
  ValueWriter(const ValueWriter&) = delete;
  ValueWriter& operator=(const ValueWriter&) = delete;

  template <typename T>
  void Write(const T& value) {
    internal::WriteValue(encoder_, value);
  }
  // `write` is called with a DictWriter, or an ArrayWriter, at once.
  template <typename F>
  void WriteDict(const F& write) {
    DictWriter dict(encoder_, debug_annotation::kDictEntries);
    write(dict);
  }
  template <typename F>
  void WriteArray(const F& write) {
    ArrayWriter array(encoder_);
    write(array);
  }

 private:
  friend class DictWriter;
  friend class ArrayWriter;
  template <typename T>
  friend void internal::WriteValue(internal::PacketEncoder& encoder,
                                   const T& value);
  explicit ValueWriter(internal::PacketEncoder& encoder) : encoder_(encoder) {}
  ~ValueWriter() = default;

  internal::PacketEncoder& encoder_;
};

// All of an event: named arguments, as in a dictionary, and flows.
class EventWriter : public DictWriter {
 public:
  explicit EventWriter(internal::PacketEncoder& encoder)
      : DictWriter(encoder, track_event::kDebugAnnotations) {}

  void Add(Flow flow) {
    encoder_.AppendFixed64(track_event::kFlowIds, flow.id());
  }
  void Add(TerminatingFlow flow) {
    encoder_.AppendFixed64(track_event::kTerminatingFlowIds, flow.id());
  }
  using DictWriter::Add;
};

template <typename Write>
void DictWriter::AddDict(std::string_view name, const Write& write) {
  const uint32_t depth = Begin(name);
  ValueWriter(encoder_).WriteDict(write);
  encoder_.EndMessage(depth);
}
template <typename Write>
void DictWriter::AddArray(std::string_view name, const Write& write) {
  const uint32_t depth = Begin(name);
  ValueWriter(encoder_).WriteArray(write);
  encoder_.EndMessage(depth);
}
template <typename Write>
void ArrayWriter::AppendDict(const Write& write) {
  const uint32_t depth = Begin();
  ValueWriter(encoder_).WriteDict(write);
  encoder_.EndMessage(depth);
}
template <typename Write>
void ArrayWriter::AppendArray(const Write& write) {
  const uint32_t depth = Begin();
  ValueWriter(encoder_).WriteArray(write);
  encoder_.EndMessage(depth);
}

namespace internal {

// The value of the annotation that is open.
template <typename T>
void WriteValue(PacketEncoder& encoder, const T& value) {
  ValueWriter out(encoder);
  if constexpr (kHasWriteTraceValue<T>) {
    WriteTraceValue(out, value);
  } else if constexpr (kIsLazy<T>) {
    out.Write(value());
  } else if constexpr (std::is_same_v<T, bool>) {
    encoder.AppendVarint(debug_annotation::kBoolValue, value ? 1 : 0);
  } else if constexpr (std::is_enum_v<T>) {
    out.Write(static_cast<std::underlying_type_t<T> >(value));
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    encoder.AppendVarint(debug_annotation::kIntValue,
                         static_cast<uint64_t>(static_cast<int64_t>(value)));
  } else if constexpr (std::is_integral_v<T>) {
    encoder.AppendVarint(debug_annotation::kUintValue, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto number = static_cast<double>(value);
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    encoder.AppendFixed64(debug_annotation::kDoubleValue, bits);
  } else if constexpr (kIsText<T>) {
    const std::string_view text = TextOf(value);
    encoder.AppendBytes(debug_annotation::kStringValue, text.data(),
                        text.size());
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    encoder.AppendVarint(debug_annotation::kPointerValue, 0);
  } else if constexpr (std::is_pointer_v<T>) {
    encoder.AppendVarint(debug_annotation::kPointerValue,
                         reinterpret_cast<uintptr_t>(value));
  } else if constexpr (kIsMap<T>) {
    out.WriteDict([&value](DictWriter& dict) {
      for (const auto& [name, entry] : value) dict.Add(name, entry);
    });
  } else if constexpr (kIsRange<T>) {
    out.WriteArray([&value](ArrayWriter& array) {
      for (const auto& item : value) array.Append(item);
    });
  } else {
    static_assert(kAlwaysFalse<T>,
                  "an argument of a type of your own needs an overload of "
                  "WriteTraceValue(tracering::ValueWriter&, const T&)");
  }
}

// What follows the name of an event: pairs of a name and a value, flows, and
// functions that take an EventWriter.
[[gnu::always_inline]] inline void AddAll(PacketEncoder&) {}

template <typename First, typename... Rest>
[[gnu::always_inline]] inline void AddAll(PacketEncoder& encoder,
                                          const First& first,
                                          const Rest&... rest);

template <typename Value, typename... Rest>
[[gnu::always_inline]] inline void AddPair(PacketEncoder& encoder,
                                           std::string_view name,
                                           const Value& value,
                                           const Rest&... rest) {
  AddArgument(encoder, name, value);
  AddAll(encoder, rest...);
}

template <typename First, typename... Rest>
[[gnu::always_inline]] inline void AddAll(PacketEncoder& encoder,
                                          const First& first,
                                          const Rest&... rest) {
  if constexpr (std::is_same_v<First, Flow>) {
    encoder.AppendFixed64(track_event::kFlowIds, first.id());
    AddAll(encoder, rest...);
  } else if constexpr (std::is_same_v<First, TerminatingFlow>) {
    encoder.AppendFixed64(track_event::kTerminatingFlowIds, first.id());
    AddAll(encoder, rest...);
  } else if constexpr (std::is_invocable_v<const First&, EventWriter&>) {
    EventWriter event(encoder);
    first(event);
    AddAll(encoder, rest...);
  } else {
    static_assert(kIsText<First> && sizeof...(Rest) > 0,
                  "arguments of an event are pairs of a name and a value, "
                  "flows, and functions that take an EventWriter&");
    AddPair(encoder, TextOf(first), rest...);
  }
}

}  // namespace internal
}  // namespace tracering

#endif  // TRACERING_DISABLE

#endif  // TRACERING_EVENT_ARGUMENTS_H_
