// The rewriter on any bytes against the oracle of tests/support, its output
// against libprotobuf, and on messages of every type that libprotobuf made of
// the same bytes.
//
//   input := depth limit, output limit (one byte each), packet
#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/consumer/rewriter.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/support/all_types.pb.h"
#include "tests/support/group_codec.h"

namespace tracering::test {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using google::protobuf::util::DefaultFieldComparator;
using google::protobuf::util::MessageDifferencer;
using internal::ByteBuffer;
using internal::RewriteOutcome;
using internal::Rewriter;
using internal::RewriterOptions;

constexpr std::string_view kBefore = "before";

struct Rewritten {
  RewriteOutcome outcome = RewriteOutcome::kOk;
  std::string bytes;
  bool kept_before = false;
};

// The packet sits in memory of exactly its size, so that a read past its end is
// seen; the output goes behind bytes that must survive.
Rewritten Run(Rewriter* rewriter, std::string_view packet) {
  const auto exact = std::make_unique<uint8_t[]>(packet.size());
  std::copy(packet.begin(), packet.end(), exact.get());
  ByteBuffer out;
  out.Append(kBefore.data(), kBefore.size());
  Rewritten result;
  result.outcome = rewriter->Rewrite(exact.get(), packet.size(), &out);
  const std::string_view all(reinterpret_cast<const char*>(out.data()),
                             out.size());
  result.kept_before = all.substr(0, kBefore.size()) == kBefore;
  if (result.kept_before) result.bytes = all.substr(kBefore.size());
  return result;
}

bool HasServiceField(const std::vector<GroupField>& fields) {
  static const std::set<uint32_t> kServiceOnly = {3,  10, 33, 35, 36,  42,
                                                  50, 69, 79, 98, 124, 125};
  return std::any_of(fields.begin(), fields.end(), [](const GroupField& f) {
    return kServiceOnly.count(f.number) != 0;
  });
}

// Whether libprotobuf reads `fields` out of `bytes`, at every level.
bool ProtobufReads(const std::string& bytes,
                   const std::vector<GroupField>& fields) {
  UnknownFieldSet set;
  if (!set.ParseFromString(bytes)) return false;
  if (set.field_count() != static_cast<int>(fields.size())) return false;
  for (int i = 0; i < set.field_count(); ++i) {
    const UnknownField& read = set.field(i);
    const GroupField& expected = fields[static_cast<size_t>(i)];
    if (read.number() != static_cast<int>(expected.number)) return false;
    bool same = false;
    switch (expected.wire_type) {
      case 0:
        same = read.type() == UnknownField::TYPE_VARINT &&
               read.varint() == expected.value;
        break;
      case 1:
        same = read.type() == UnknownField::TYPE_FIXED64 &&
               read.fixed64() == expected.value;
        break;
      case 2:
        same = read.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
               read.length_delimited() == expected.bytes;
        break;
      case 3:
        same = read.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
               ProtobufReads(read.length_delimited(), expected.children);
        break;
      case 5:
        same = read.type() == UnknownField::TYPE_FIXED32 &&
               read.fixed32() == expected.value;
        break;
    }
    if (!same) return false;
  }
  return true;
}

std::string CheckAnyBytes(const RewriterOptions& options,
                          std::string_view packet) {
  Rewriter rewriter(options);
  const Rewritten result = Run(&rewriter, packet);
  if (!result.kept_before) return "what stood before the output is gone";
  const auto outcome = internal::RewriteOutcomeName(result.outcome);
  std::string error;
  const std::optional<std::vector<GroupField>> fields =
      ParseGroups(packet, &error, static_cast<int>(options.max_depth));
  if (result.outcome != RewriteOutcome::kOk) {
    if (!result.bytes.empty()) return "output on rejection";
    // The rewriter stops at the first reason, the oracle knows only one kind.
    if (!fields.has_value()) return "";
    if (result.outcome == RewriteOutcome::kServiceOnlyField) {
      return HasServiceField(*fields) ? "" : "no field is the service's";
    }
    if (result.outcome == RewriteOutcome::kTooLarge) {
      return ToProtobuf(*fields).size() > options.max_output
                 ? ""
                 : "rejected as too large, and is not";
    }
    return fmt::format("rejected a good packet: {}", outcome);
  }
  if (!fields.has_value()) return "accepted a packet: " + error;
  if (HasServiceField(*fields)) return "accepted a field of the service";
  if (result.bytes != ToProtobuf(*fields)) return "not the canonical form";
  if (result.bytes.size() > options.max_output) return "too much output";
  if (!ProtobufReads(result.bytes, *fields))
    return "protobuf reads other things";
  // Scratch that is kept must not matter.
  return Run(&rewriter, packet).bytes == result.bytes ? ""
                                                      : "not the same again";
}

std::string CheckMessage(std::string_view bytes) {
  AllTypes wrapper;
  // In a message of its own: some of the numbers are the service's at the top.
  if (!wrapper.mutable_child()->ParsePartialFromArray(
          bytes.data(), static_cast<int>(bytes.size()))) {
    return "";
  }
  wrapper.mutable_child()->DiscardUnknownFields();
  Rewriter rewriter;
  const Rewritten result = Run(&rewriter, EncodeWithGroups(wrapper));
  if (result.outcome != RewriteOutcome::kOk) return "rejected a message";
  AllTypes parsed;
  if (!parsed.ParsePartialFromString(result.bytes))
    return "no message any more";
  // A float may be no number.
  DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  if (!differencer.Compare(parsed, wrapper)) return "another message";
  return result.bytes.size() == wrapper.ByteSizeLong() ? "" : "not minimal";
}

}  // namespace

std::string FuzzRewriter(const uint8_t* bytes, size_t size) {
  FuzzInput input(bytes, size);
  RewriterOptions options;
  const uint8_t depth = input.Byte();
  options.max_depth = depth < 128 ? depth : 1024;
  const uint8_t output = input.Byte();
  if (output < 128) options.max_output = output * 16u;
  std::string wrong = CheckAnyBytes(options, input.rest());
  if (wrong.empty()) wrong = CheckMessage(input.rest());
  return wrong;
}

}  // namespace tracering::test
