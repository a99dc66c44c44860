// The buffer for descriptors: the keys of any bytes against the oracle of
// tests/support, and its accounts over packets of several producers that come,
// go, and are rejected.
//
//   input := size of the buffer, then operations of a byte and what they need
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/consumer/metadata_buffer.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/support/group_codec.h"

namespace tracering::test {
namespace {

using internal::MetadataBuffer;
using internal::MetadataKey;
using internal::MetadataKeyOf;
using internal::MetadataOutcome;
using internal::MetadataPacket;
using internal::MetadataStats;
using internal::SequenceInfo;
using Kind = MetadataKey::Kind;

MetadataKey KeyOf(const std::string& packet) {
  return MetadataKeyOf(reinterpret_cast<const uint8_t*>(packet.data()),
                       packet.size());
}

// The key by the oracle; nothing where the packet holds a descriptor in plain
// protobuf, which the oracle does not look into.
std::optional<MetadataKey> ExpectedKey(const std::string& packet) {
  const auto fields = ParseGroups(packet, nullptr, 1 << 20);
  if (!fields.has_value()) return MetadataKey();
  struct Descriptor {
    uint32_t field;
    Kind kind;
    uint32_t id_field;
  };
  const Descriptor descriptors[] = {
      {60, Kind::kTrack, 1}, {43, Kind::kProcess, 1}, {44, Kind::kThread, 2}};
  MetadataKey key;
  for (const GroupField& field : *fields) {
    for (const Descriptor& descriptor : descriptors) {
      if (field.number != descriptor.field) continue;
      if (key.kind == Kind::kNone) key.kind = descriptor.kind;
      if (key.kind != descriptor.kind) continue;
      if (field.wire_type == 2) return std::nullopt;
      for (const GroupField& inside : field.children) {
        if (inside.number == descriptor.id_field && inside.wire_type == 0) {
          key.id = inside.value;
        }
      }
    }
  }
  return key;
}

// Any bytes, or a descriptor of that kind, id and size.
std::string ReadPacket(FuzzInput* input) {
  const uint8_t form = input->Byte();
  if (form >= 0xc0) return input->Bytes(input->Byte());
  GroupField descriptor;
  constexpr uint32_t kFields[] = {60, 43, 44};
  descriptor.number = kFields[form % 3];
  descriptor.wire_type = 3;
  GroupField id;
  id.number = form % 3 == 2 ? 2 : 1;
  id.value = form / 3 % 8;
  descriptor.children = {id};
  GroupField padding;
  padding.number = 7;
  padding.wire_type = 2;
  padding.bytes =
      std::string(input->Byte() * size_t{(form & 0x40) ? 160u : 4u}, 'p');
  descriptor.children.push_back(padding);
  if ((form & 0x80) == 0) return ToProtobuf({descriptor});
  // As it lies in a ring: ToProtobuf knows no groups.
  std::string packet;
  for (uint32_t tag = descriptor.number << 3 | 3; tag != 0; tag >>= 7) {
    packet.push_back(static_cast<char>((tag & 0x7f) | (tag > 0x7f ? 0x80 : 0)));
  }
  return packet + ToProtobuf(descriptor.children) + '\x04';
}

class Session {
 public:
  explicit Session(size_t size) : buffer_(size) {}

  std::string Store(uint64_t producer, uint32_t sequence,
                    const std::string& packet) {
    const auto expected = ExpectedKey(packet);
    const MetadataKey key = KeyOf(packet);
    if (expected.has_value() && !(key == *expected)) {
      return fmt::format("key {}.{}, not {}.{}", static_cast<int>(key.kind),
                         key.id, static_cast<int>(expected->kind),
                         expected->id);
    }
    SequenceInfo info;
    info.producer = producer;
    info.sequence_id = sequence;
    const std::vector<uint8_t> exact(packet.begin(), packet.end());
    const MetadataOutcome outcome =
        buffer_.Store(info, exact.data(), exact.size());
    ++attempted_;
    if (packet.size() <= MetadataBuffer::kMaxPacketSize &&
        (outcome == MetadataOutcome::kNotDescriptor) !=
            (key.kind == Kind::kNone)) {
      return "a packet is a descriptor and is not";
    }
    if (outcome == MetadataOutcome::kStored ||
        outcome == MetadataOutcome::kUnchanged) {
      std::vector<MetadataPacket> all;
      buffer_.CopySince(0, &all);
      for (const MetadataPacket& copy : all) {
        if (copy.bytes == packet && copy.sequence.producer == producer &&
            copy.sequence.sequence_id == sequence) {
          return "";
        }
      }
      return "what was stored is not there";
    }
    return "";
  }
  void Forget(uint64_t producer) { buffer_.Forget(producer); }
  void Reject(uint64_t generation) { buffer_.Reject({generation}); }

  std::string Check() {
    std::vector<MetadataPacket> all;
    const uint64_t generation = buffer_.CopySince(0, &all);
    if (all.size() != buffer_.num_packets()) return "not all are copied";
    if (buffer_.bytes_used() > buffer_.size()) return "more than its size";
    size_t bytes = 0;
    std::set<std::pair<uint64_t, MetadataKey>> keys;
    std::set<uint64_t> generations;
    for (const MetadataPacket& packet : all) {
      bytes += packet.bytes.size() + MetadataBuffer::kEntryOverhead;
      keys.emplace(packet.sequence.producer, KeyOf(packet.bytes));
      generations.insert(packet.generation);
      if (packet.generation > generation) return "from the future";
    }
    if (bytes != buffer_.bytes_used()) return "bytes do not add up";
    if (keys.size() != all.size()) return "a key is there twice";
    if (generations.size() != all.size()) return "a generation is there twice";
    std::vector<MetadataPacket> newer;
    buffer_.CopySince(generation, &newer);
    if (!newer.empty()) return "a stream gets the same again";
    const MetadataStats& stats = buffer_.stats();
    if (stats.packets_stored + stats.packets_not_descriptor +
            stats.packets_too_large + stats.packets_refused !=
        attempted_) {
      return "packets do not add up";
    }
    return "";
  }

 private:
  MetadataBuffer buffer_;
  uint64_t attempted_ = 0;
};

}  // namespace

std::string FuzzMetadata(const uint8_t* bytes, size_t size) {
  FuzzInput input(bytes, size);
  Session session(input.Byte() * size_t{64});
  std::string wrong;
  while (wrong.empty() && !input.done()) {
    const uint8_t what = input.Byte();
    const uint64_t producer = what % 5;
    switch (what / 5 % 8) {
      case 0:
        session.Forget(producer);
        break;
      case 1:
        session.Reject(input.Byte());
        break;
      default:
        wrong = session.Store(producer, what / 40, ReadPacket(&input));
    }
    if (wrong.empty()) wrong = session.Check();
  }
  return wrong;
}

}  // namespace tracering::test
