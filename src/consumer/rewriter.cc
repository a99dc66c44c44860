// The pass over the fields of a packet; see rewriter.h for what it rejects.
#include "src/consumer/rewriter.h"

#include <array>
#include <cstring>
#include <initializer_list>

#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

// Lengths and their sums are kept in 32 bits.
constexpr size_t kMaxInput = size_t{1} << 30;
constexpr uint32_t kNoParent = UINT32_MAX;
// The largest body whose length is one byte.
constexpr size_t kMaxOneByteLength = 127;
// Scratch that is kept from one packet to the next, in entries.
constexpr size_t kKeptScratch = 4096;

using FieldSet = std::array<uint64_t, 2>;

constexpr FieldSet MakeFieldSet(std::initializer_list<uint32_t> fields) {
  uint64_t low = 0;
  uint64_t high = 0;
  for (const uint32_t field : fields) {
    (field < 64 ? low : high) |= uint64_t{1} << (field % 64);
  }
  return {low, high};
}

constexpr FieldSet kServiceOnlyFields = MakeFieldSet(
    {trace_packet::kTrustedUid, trace_packet::kTrustedPacketSequenceId,
     trace_packet::kTraceConfig, trace_packet::kTraceStats,
     trace_packet::kSynchronizationMarker, trace_packet::kPreviousPacketDropped,
     trace_packet::kCompressedPackets, trace_packet::kServiceEvent,
     trace_packet::kTrustedPid, trace_packet::kMachineId,
     trace_packet::kService124, trace_packet::kService125});

constexpr bool IsServiceOnly(uint32_t field) {
  return field < 128 &&
         ((kServiceOnlyFields[field / 64] >> (field % 64)) & 1) != 0;
}

// Keeps the state of a pass in registers: a call that is not inlined would need
// its address.
#define TRACERING_ALWAYS_INLINE [[gnu::always_inline]] inline

struct Varint {
  uint64_t value;
  uint32_t size;  // bytes that it took
  RewriteOutcome outcome;
};

// Any varint, with the reason if it is not one.
[[gnu::noinline]] Varint DecodeVarint(const uint8_t* at, const uint8_t* end) {
  const uint8_t* next = at;
  uint64_t value = 0;
  if (ReadVarint(&next, end, &value)) {
    return {value, static_cast<uint32_t>(next - at), RewriteOutcome::kOk};
  }
  size_t size = 0;
  while (size < kMaxVarintSize && at + size != end && at[size] >= 0x80) ++size;
  if (size == kMaxVarintSize) return {0, 0, RewriteOutcome::kVarintTooLong};
  if (at + size == end) return {0, 0, RewriteOutcome::kTruncated};
  return {0, 0, RewriteOutcome::kVarintOverflow};
}

// The size of the varint at `at`, which is followed by at least 9 more bytes,
// or 0 if it is malformed or longer than its value needs.
inline size_t MinimalVarintSize(const uint8_t* at) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  uint64_t bytes;
  std::memcpy(&bytes, at, sizeof(bytes));
  const uint64_t stops = ~bytes & 0x8080'8080'8080'8080;
  if (stops != 0) {
    const auto bit = static_cast<uint32_t>(__builtin_ctzll(stops));
    const bool padded = ((bytes >> (bit - 7)) & 0x7f) == 0 && bit != 7;
    return padded ? 0 : bit / 8 + 1;
  }
  if (at[8] < 0x80) return at[8] == 0 ? 0 : 9;
  return at[9] == 1 ? 10 : 0;
}

// memcpy for sizes that are mostly small and known to the branch predictor.
inline void CopyShort(uint8_t* to, const uint8_t* from, size_t size) {
  if (size > 32) {
    std::memcpy(to, from, size);
  } else if (size >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8) {
    uint64_t head;
    uint64_t tail;
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + size - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + size - 8, &tail, 8);
  } else {
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

}  // namespace

std::string_view RewriteOutcomeName(RewriteOutcome outcome) {
  constexpr std::array<std::string_view, kNumRewriteOutcomes> kNames = {
      "ok",
      "truncated",
      "length past the end",
      "varint of more than 10 bytes",
      "varint of more than 64 bits",
      "bad field number",
      "bad wire type",
      "closing byte at the root",
      "unclosed message",
      "nested too deeply",
      "field that only the service may write",
      "too large"};
  const auto index = static_cast<size_t>(outcome);
  return index < kNames.size() ? kNames[index] : "unknown";
}

// The forward pass. It writes the packet with one byte for each length, which
// is final for all but large messages: those are left in `nested`, in the order
// in which they open, with their true lengths.
//
// Bytes that stay as they are, which is nearly all of them, are copied in spans
// that end where a message opens or closes.
class Rewriter::Pass {
 public:
  // `out` has room for size bytes and for one more per message that can be open
  // at the same time.
  Pass(const uint8_t* packet, size_t size, uint32_t max_depth, uint8_t* out,
       std::vector<Nested>* nested)
      : next_(packet),
        end_(packet + size),
        span_(packet),
        begin_(out),
        out_(out),
        max_depth_(max_depth),
        nested_(*nested) {}

  RewriteOutcome Run();

  size_t compact_size() const { return static_cast<size_t>(out_ - begin_); }
  size_t growth() const { return growth_; }
  // How many entries of `nested` are left.
  uint32_t num_large() const { return num_nested_; }

 private:
  size_t left() const { return static_cast<size_t>(end_ - next_); }

  // Copies what is pending of the input up to `to`, exclusive.
  TRACERING_ALWAYS_INLINE void FlushSpan(const uint8_t* to) {
    const auto size = static_cast<size_t>(to - span_);
    CopyShort(out_, span_, size);
    out_ += size;
    span_ = to;
  }

  RewriteOutcome ReadTag(uint32_t* tag, uint32_t* tag_size);
  RewriteOutcome ReadLongTag(uint32_t* tag, uint32_t* tag_size);
  RewriteOutcome SkipVarint();
  RewriteOutcome ReadVarintField(uint64_t* value);
  RewriteOutcome SkipBytes();
  RewriteOutcome SkipFixed(size_t size);
  RewriteOutcome Open(uint32_t tag_size);
  RewriteOutcome Close();

  const uint8_t* next_;
  const uint8_t* const end_;
  const uint8_t* span_;
  uint8_t* const begin_;
  uint8_t* out_;
  const uint32_t max_depth_;
  uint32_t depth_ = 0;
  uint32_t current_ = kNoParent;
  uint32_t num_nested_ = 0;
  uint32_t growth_ = 0;
  std::vector<Nested>& nested_;
};

// Reads a varint that may be longer than needed, and writes it as short as it
// can be.
TRACERING_ALWAYS_INLINE RewriteOutcome
Rewriter::Pass::ReadVarintField(uint64_t* value) {
  const Varint varint = DecodeVarint(next_, end_);
  if (varint.outcome != RewriteOutcome::kOk) return varint.outcome;
  *value = varint.value;
  if (varint.size != VarintSize(varint.value)) {
    FlushSpan(next_);
    out_ = WriteVarint(out_, varint.value);
    span_ = next_ + varint.size;
  }
  next_ += varint.size;
  return RewriteOutcome::kOk;
}

TRACERING_ALWAYS_INLINE RewriteOutcome
Rewriter::Pass::ReadLongTag(uint32_t* tag, uint32_t* tag_size) {
  uint64_t value = 0;
  if (const RewriteOutcome outcome = ReadVarintField(&value);
      outcome != RewriteOutcome::kOk) {
    return outcome;
  }
  // The closing byte may not be padded: it would have field number 0.
  if (value >> 3 == 0 || value >> 3 > kMaxFieldNumber) {
    return RewriteOutcome::kBadFieldNumber;
  }
  *tag = static_cast<uint32_t>(value);
  *tag_size = static_cast<uint32_t>(VarintSize(value));
  return RewriteOutcome::kOk;
}

// Reads a tag other than the closing byte.
TRACERING_ALWAYS_INLINE RewriteOutcome
Rewriter::Pass::ReadTag(uint32_t* tag, uint32_t* tag_size) {
  const uint32_t first = *next_;
  if (first < 0x80) {
    if (first < 8) return RewriteOutcome::kBadFieldNumber;
    *tag = first;
    *tag_size = 1;
    ++next_;
    return RewriteOutcome::kOk;
  }
  if (left() >= 2 && next_[1] - 1u < 0x7f) {
    *tag = (first & 0x7f) | (uint32_t{next_[1]} << 7);
    *tag_size = 2;
    next_ += 2;
    return RewriteOutcome::kOk;
  }
  return ReadLongTag(tag, tag_size);
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::SkipVarint() {
  if (left() >= kMaxVarintSize) {
    if (*next_ < 0x80) {
      ++next_;
      return RewriteOutcome::kOk;
    }
    if (const size_t size = MinimalVarintSize(next_); size != 0) {
      next_ += size;
      return RewriteOutcome::kOk;
    }
  }
  uint64_t ignored = 0;
  return ReadVarintField(&ignored);
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::SkipBytes() {
  uint64_t size = 0;
  if (left() != 0 && *next_ < 0x80) {
    size = *next_++;
  } else if (const RewriteOutcome outcome = ReadVarintField(&size);
             outcome != RewriteOutcome::kOk) {
    return outcome;
  }
  if (size > left()) return RewriteOutcome::kLengthPastEnd;
  next_ += size;
  return RewriteOutcome::kOk;
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::SkipFixed(size_t size) {
  if (left() < size) return RewriteOutcome::kTruncated;
  next_ += size;
  return RewriteOutcome::kOk;
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::Open(uint32_t tag_size) {
  if (depth_ == max_depth_) return RewriteOutcome::kTooDeep;
  ++depth_;
  FlushSpan(next_);
  // Start-group becomes length-delimited: 3 becomes 2.
  static_assert((static_cast<uint32_t>(WireType::kStartGroup) ^ 1) ==
                static_cast<uint32_t>(WireType::kLengthDelimited));
  *(out_ - tag_size) ^= 1;
  if (num_nested_ == nested_.size()) nested_.resize(num_nested_ * 2 + 16);
  nested_[num_nested_] = {static_cast<uint32_t>(out_ - begin_), 0, current_, 0};
  current_ = num_nested_++;
  ++out_;
  return RewriteOutcome::kOk;
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::Close() {
  if (depth_ == 0) return RewriteOutcome::kCloseAtRoot;
  --depth_;
  FlushSpan(next_);
  span_ = ++next_;
  Nested& closed = nested_[current_];
  uint8_t* const body = begin_ + closed.length_at + 1;
  const auto compact = static_cast<size_t>(out_ - body);
  if (compact <= kMaxOneByteLength) {
    // Nothing inside is large either, so this is the last entry.
    body[-1] = static_cast<uint8_t>(compact);
    num_nested_ = current_;
  } else {
    closed.length = static_cast<uint32_t>(compact) + closed.growth;
    const auto growth =
        static_cast<uint32_t>(closed.growth + VarintSize(closed.length) - 1);
    (closed.parent == kNoParent ? growth_ : nested_[closed.parent].growth) +=
        growth;
  }
  current_ = closed.parent;
  return RewriteOutcome::kOk;
}

TRACERING_ALWAYS_INLINE RewriteOutcome Rewriter::Pass::Run() {
  while (next_ != end_) {
    RewriteOutcome outcome = RewriteOutcome::kOk;
    if (*next_ == kCloseMessage) {
      outcome = Close();
    } else {
      uint32_t tag = 0;
      uint32_t tag_size = 0;
      outcome = ReadTag(&tag, &tag_size);
      if (outcome != RewriteOutcome::kOk) return outcome;
      if (depth_ == 0 && IsServiceOnly(tag >> 3)) {
        return RewriteOutcome::kServiceOnlyField;
      }
      switch (static_cast<WireType>(tag & 7)) {
        case WireType::kVarint:
          outcome = SkipVarint();
          break;
        case WireType::kFixed64:
          outcome = SkipFixed(8);
          break;
        case WireType::kLengthDelimited:
          outcome = SkipBytes();
          break;
        case WireType::kStartGroup:
          outcome = Open(tag_size);
          break;
        case WireType::kFixed32:
          outcome = SkipFixed(4);
          break;
        case WireType::kEndGroup:
        default:
          return RewriteOutcome::kBadWireType;
      }
    }
    if (outcome != RewriteOutcome::kOk) return outcome;
  }
  if (depth_ != 0) return RewriteOutcome::kUnclosedMessage;
  FlushSpan(end_);
  return RewriteOutcome::kOk;
}

Rewriter::Rewriter(const RewriterOptions& options) : options_(options) {}

RewriteOutcome Rewriter::Rewrite(const uint8_t* packet, size_t size,
                                 ByteBuffer* out) {
  if (size > kMaxInput) return RewriteOutcome::kTooLarge;
  // An open message has taken a tag of at least one byte, and has written one
  // more than it has read.
  const size_t most_open =
      size < options_.max_depth ? size : options_.max_depth;
  Pass pass(packet, size, options_.max_depth, out->EnsureRoom(size + most_open),
            &nested_);
  RewriteOutcome outcome = pass.Run();
  const size_t before = out->size();
  const size_t compact = pass.compact_size();
  if (outcome == RewriteOutcome::kOk &&
      compact + pass.growth() > options_.max_output) {
    outcome = RewriteOutcome::kTooLarge;
  }
  if (outcome == RewriteOutcome::kOk) {
    out->SetSize(before + compact);
    if (pass.growth() != 0) {
      out->EnsureRoom(pass.growth());
      Expand(out->data() + before, compact, pass.growth(), pass.num_large());
      out->SetSize(before + compact + pass.growth());
    }
  }
  if (nested_.size() > kKeptScratch) {
    nested_.resize(kKeptScratch);
    nested_.shrink_to_fit();
  }
  return outcome;
}

// Moves what follows each one-byte length of a large message up, from the last
// to the first, so that the true length fits. Each byte moves at most once.
void Rewriter::Expand(uint8_t* begin, size_t compact_size, size_t growth,
                      uint32_t num_large) const {
  uint8_t* from_end = begin + compact_size;
  uint8_t* to_end = from_end + growth;
  for (uint32_t i = num_large; i-- != 0;) {
    uint8_t* const body = begin + nested_[i].length_at + 1;
    const auto size = static_cast<size_t>(from_end - body);
    to_end -= size;
    std::memmove(to_end, body, size);
    to_end -= VarintSize(nested_[i].length);
    WriteVarint(to_end, nested_[i].length);
    from_end = body - 1;
  }
}

#undef TRACERING_ALWAYS_INLINE

}  // namespace tracering::internal
