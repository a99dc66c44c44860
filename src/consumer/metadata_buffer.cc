// Keys of descriptors, and who makes room for whom; see metadata_buffer.h.
#include "src/consumer/metadata_buffer.h"

#include <iterator>
#include <unordered_set>
#include <utility>

#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

// Goes through the fields of a packet, in the ring's encoding or in plain
// protobuf, without looking into what is length-delimited.
class FieldWalker {
 public:
  struct Field {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    size_t depth = 0;                // messages open around it
    uint64_t value = 0;              // of a varint
    const uint8_t* bytes = nullptr;  // of a length-delimited field
    size_t size = 0;
  };

  FieldWalker(const uint8_t* data, size_t size)
      : next_(data), end_(data + size) {}

  // False at the end, and where the bytes make no sense.
  bool Next(Field* field);
  // After Next() returned false: whether everything was well-formed.
  bool complete() const { return complete_; }

 private:
  bool Parse(Field* field);
  bool Take(size_t size) {
    if (static_cast<size_t>(end_ - next_) < size) return false;
    next_ += size;
    return true;
  }

  const uint8_t* next_;
  const uint8_t* const end_;
  size_t depth_ = 0;
  bool complete_ = false;
};

bool FieldWalker::Next(Field* field) {
  for (; next_ != end_ && *next_ == kCloseMessage; ++next_) {
    if (depth_ == 0) return false;
    --depth_;
  }
  if (next_ == end_) {
    complete_ = depth_ == 0;
    return false;
  }
  return Parse(field);
}

bool FieldWalker::Parse(Field* field) {
  uint64_t tag = 0;
  if (!ReadVarint(&next_, end_, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > kMaxFieldNumber) return false;
  field->number = static_cast<uint32_t>(tag >> 3);
  field->type = static_cast<WireType>(tag & 7);
  field->depth = depth_;
  switch (field->type) {
    case WireType::kVarint:
      return ReadVarint(&next_, end_, &field->value);
    case WireType::kFixed64:
      return Take(8);
    case WireType::kLengthDelimited: {
      uint64_t size = 0;
      if (!ReadVarint(&next_, end_, &size)) return false;
      field->bytes = next_;
      field->size = size;
      return Take(size);
    }
    case WireType::kStartGroup:
      ++depth_;
      return true;
    case WireType::kFixed32:
      return Take(4);
    case WireType::kEndGroup:
      break;
  }
  return false;
}

MetadataKey::Kind KindOf(uint32_t field) {
  switch (field) {
    case trace_packet::kTrackDescriptor:
      return MetadataKey::Kind::kTrack;
    case trace_packet::kProcessDescriptor:
      return MetadataKey::Kind::kProcess;
    case trace_packet::kThreadDescriptor:
      return MetadataKey::Kind::kThread;
    default:
      return MetadataKey::Kind::kNone;
  }
}

// The field of the descriptor that tells it from others of its kind.
uint32_t IdFieldOf(MetadataKey::Kind kind) {
  switch (kind) {
    case MetadataKey::Kind::kTrack:
      return track_descriptor::kUuid;
    case MetadataKey::Kind::kProcess:
      return process_descriptor::kPid;
    case MetadataKey::Kind::kThread:
      return thread_descriptor::kTid;
    case MetadataKey::Kind::kNone:
      break;
  }
  return 0;
}

void TakeId(const FieldWalker::Field& field, MetadataKey* key) {
  if (field.type == WireType::kVarint && field.number == IdFieldOf(key->kind)) {
    key->id = field.value;
  }
}

}  // namespace

MetadataKey MetadataKeyOf(const uint8_t* packet, size_t size) {
  MetadataKey key;
  bool in_descriptor = false;
  FieldWalker walker(packet, size);
  for (FieldWalker::Field field; walker.Next(&field);) {
    if (field.depth == 1 && in_descriptor) TakeId(field, &key);
    if (field.depth != 0) continue;
    const MetadataKey::Kind kind = KindOf(field.number);
    // The first descriptor of a packet decides.
    if (key.kind == MetadataKey::Kind::kNone) key.kind = kind;
    in_descriptor = kind != MetadataKey::Kind::kNone && kind == key.kind;
    if (!in_descriptor || field.type != WireType::kLengthDelimited) continue;
    FieldWalker inner(field.bytes, field.size);
    for (FieldWalker::Field inside; inner.Next(&inside);) {
      if (inside.depth == 0) TakeId(inside, &key);
    }
  }
  return walker.complete() ? key : MetadataKey();
}

MetadataOutcome MetadataBuffer::Store(const SequenceInfo& sequence,
                                      const uint8_t* packet, size_t size) {
  if (size > kMaxPacketSize) {
    ++stats_.packets_too_large;
    return MetadataOutcome::kTooLarge;
  }
  const MetadataKey key = MetadataKeyOf(packet, size);
  if (key.kind == MetadataKey::Kind::kNone) {
    ++stats_.packets_not_descriptor;
    return MetadataOutcome::kNotDescriptor;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(packet), size);
  if (Entry* const old = Find(sequence.producer, key); old != nullptr) {
    return Replace(sequence, bytes, old);
  }
  const size_t cost = size + kEntryOverhead;
  if (!MakeRoom(sequence.producer, cost, nullptr)) {
    ++stats_.packets_refused;
    return MetadataOutcome::kFull;
  }
  Producer& producer = producers_[sequence.producer];
  Entry entry;
  entry.key = key;
  entry.packet = {++generation_, sequence, std::string(bytes)};
  const auto added = entries_.insert(entries_.end(), std::move(entry));
  added->in_producer = producer.order.insert(producer.order.end(), added);
  producer.by_key.emplace(key, added);
  Charge(sequence.producer, &producer, static_cast<ptrdiff_t>(cost));
  ++stats_.packets_stored;
  return MetadataOutcome::kStored;
}

MetadataBuffer::Entry* MetadataBuffer::Find(uint64_t producer,
                                            const MetadataKey& key) {
  const auto owner = producers_.find(producer);
  if (owner == producers_.end()) return nullptr;
  const auto entry = owner->second.by_key.find(key);
  return entry == owner->second.by_key.end() ? nullptr : &*entry->second;
}

MetadataOutcome MetadataBuffer::Replace(const SequenceInfo& sequence,
                                        std::string_view bytes, Entry* entry) {
  NoteTold(&producers_[sequence.producer], *entry);
  std::string& old = entry->packet.bytes;
  if (old == bytes &&
      entry->packet.sequence.sequence_id == sequence.sequence_id) {
    ++stats_.packets_stored;
    return MetadataOutcome::kUnchanged;
  }
  const size_t old_size = old.size();
  if (bytes.size() > old_size &&
      !MakeRoom(sequence.producer, bytes.size() - old_size, entry)) {
    ++stats_.packets_refused;
    return MetadataOutcome::kFull;
  }
  old.assign(bytes);
  old.shrink_to_fit();
  entry->packet.sequence = sequence;
  entry->packet.generation = ++generation_;
  Charge(
      sequence.producer, &producers_[sequence.producer],
      static_cast<ptrdiff_t>(bytes.size()) - static_cast<ptrdiff_t>(old_size));
  ++stats_.packets_stored;
  ++stats_.packets_replaced;
  return MetadataOutcome::kStored;
}

uint64_t MetadataBuffer::CopySince(uint64_t generation,
                                   std::vector<MetadataPacket>* out) const {
  for (const Entry& entry : entries_) {
    if (entry.packet.generation > generation) out->push_back(entry.packet);
  }
  return generation_;
}

void MetadataBuffer::Reject(const std::vector<uint64_t>& generations) {
  const std::unordered_set<uint64_t> rejected(generations.begin(),
                                              generations.end());
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto current = entry++;
    if (rejected.count(current->packet.generation) == 0) continue;
    Erase(current);
    ++stats_.packets_rejected;
  }
}

bool MetadataBuffer::MakeRoom(uint64_t producer, size_t bytes,
                              const Entry* keep) {
  if (HasRoom(bytes)) return true;
  EvictForgotten(producer, bytes);
  if (HasRoom(bytes)) return true;
  const auto mine = producers_.find(producer);
  const bool is_new = mine == producers_.end();
  const size_t share = size_ / (producers_.size() + (is_new ? 1 : 0));
  if ((is_new ? 0 : mine->second.bytes) + bytes > share) {
    return !is_new && DisplaceOwn(mine->second, bytes, keep);
  }
  // With this one below its share, somebody else is above.
  while (!HasRoom(bytes)) {
    DisplaceOldest(producers_[by_bytes_.rbegin()->second]);
  }
  return true;
}

void MetadataBuffer::Forget(uint64_t producer) {
  if (producers_.count(producer) != 0) forgotten_.insert(producer);
}

void MetadataBuffer::EvictForgotten(uint64_t producer, size_t bytes) {
  for (auto next = forgotten_.begin(); next != forgotten_.end();) {
    const uint64_t candidate = *next++;
    if (candidate == producer) continue;
    // Erasing the last entry of a producer erases the producer.
    const Producer& account = producers_[candidate];
    for (size_t left = account.order.size(); left != 0; --left) {
      if (HasRoom(bytes)) return;
      Erase(account.order.front());
      ++stats_.packets_evicted;
    }
  }
}

bool MetadataBuffer::DisplaceOwn(const Producer& producer, size_t bytes,
                                 const Entry* keep) {
  if (keeps_oldest_) return false;
  const auto cost = [](const Entry& entry) {
    return entry.packet.bytes.size() + kEntryOverhead;
  };
  const Entry& first = *producer.order.front();
  size_t spare = producer.bytes - cost(first);
  if (keep != nullptr && keep != &first) spare -= cost(*keep);
  if (bytes > size_ - bytes_used_ + spare) return false;
  while (!HasRoom(bytes)) DisplaceOldest(producer);
  return true;
}

void MetadataBuffer::DisplaceOldest(const Producer& producer) {
  const auto first = producer.order.begin();
  Erase(producer.order.size() > 1 ? *std::next(first) : *first);
  ++stats_.packets_displaced;
}

void MetadataBuffer::NoteTold(Producer* producer, const Entry& entry) {
  if (entry.in_producer == producer->order.begin()) return;
  producer->order.splice(producer->order.end(), producer->order,
                         entry.in_producer);
}

void MetadataBuffer::Erase(Entries::iterator entry) {
  const uint64_t owner = entry->packet.sequence.producer;
  const size_t cost = entry->packet.bytes.size() + kEntryOverhead;
  Producer& producer = producers_[owner];
  producer.by_key.erase(entry->key);
  producer.order.erase(entry->in_producer);
  Charge(owner, &producer, -static_cast<ptrdiff_t>(cost));
  if (producer.order.empty()) {
    producers_.erase(owner);
    forgotten_.erase(owner);
  }
  entries_.erase(entry);
}

void MetadataBuffer::Charge(uint64_t producer, Producer* account,
                            ptrdiff_t bytes) {
  by_bytes_.erase({account->bytes, producer});
  account->bytes += static_cast<size_t>(bytes);
  bytes_used_ += static_cast<size_t>(bytes);
  if (account->bytes != 0) by_bytes_.insert({account->bytes, producer});
}

}  // namespace tracering::internal
