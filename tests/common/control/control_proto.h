// The messages of src/common/control as messages of docs/control.proto, so that
// a real protobuf library can say whether our bytes are right.
//
// Only tests of the control messages include it.
#ifndef TRACERING_TESTS_COMMON_CONTROL_CONTROL_PROTO_H_
#define TRACERING_TESTS_COMMON_CONTROL_CONTROL_PROTO_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "control.pb.h"
#include "src/common/control/codec.h"
#include "src/common/control/messages.h"

namespace tracering::control {

template <typename Repeated>
void AddProtoRings(const std::vector<RingInfo>& rings, Repeated* out) {
  for (const RingInfo& ring : rings) {
    proto::RingInfo* added = out->Add();
    added->set_num_chunks(ring.num_chunks);
    added->set_chunk_size(ring.chunk_size);
    added->set_role(static_cast<proto::RingRole>(ring.role));
    added->set_index(ring.index);
  }
}

template <typename Repeated>
void AddProtoBuffers(const std::vector<BufferInfo>& buffers, Repeated* out) {
  for (const BufferInfo& buffer : buffers) {
    proto::BufferInfo* added = out->Add();
    added->set_id(buffer.id);
    added->set_name(buffer.name);
  }
}

inline void SetProtoPackets(const PacketInfo& packets, proto::PacketInfo* out) {
  out->set_delivered(packets.delivered);
  out->set_delivered_bytes(packets.delivered_bytes);
  for (const uint64_t count : packets.lost) out->add_lost(count);
}

inline proto::ProducerMessage ToProto(const ProducerMessage& message) {
  proto::ProducerMessage out;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    proto::Hello* content = out.mutable_hello();
    content->set_abi_version_min(hello->abi_version_min);
    content->set_abi_version_max(hello->abi_version_max);
    content->set_process_name(hello->process_name);
    content->set_pid(hello->pid);
    AddProtoRings(hello->rings, content->mutable_rings());
    AddProtoBuffers(hello->buffers, content->mutable_buffers());
  } else if (const auto* rings = std::get_if<AddRings>(&message)) {
    AddProtoRings(rings->rings, out.mutable_add_rings()->mutable_rings());
  } else if (const auto* buffers = std::get_if<AddBuffers>(&message)) {
    AddProtoBuffers(buffers->buffers,
                    out.mutable_add_buffers()->mutable_buffers());
  } else if (const auto* trigger = std::get_if<Trigger>(&message)) {
    out.mutable_trigger()->set_name(trigger->name);
  } else if (std::holds_alternative<Goodbye>(message)) {
    out.mutable_goodbye();
  } else if (const auto* request = std::get_if<StatsRequest>(&message)) {
    out.mutable_stats_request()->set_after_producer(request->after_producer);
  }
  return out;
}

inline proto::ConsumerMessage ToProto(const ConsumerMessage& message) {
  proto::ConsumerMessage out;
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    proto::Welcome* content = out.mutable_welcome();
    content->set_abi_version(welcome->abi_version);
    for (const std::string& name : welcome->unknown_buffers) {
      content->add_unknown_buffers(name);
    }
    for (const std::string& pattern : welcome->enabled_categories) {
      content->add_enabled_categories(pattern);
    }
  } else if (const auto* reject = std::get_if<Reject>(&message)) {
    out.mutable_reject()->set_reason(reject->reason);
  } else if (const auto* set = std::get_if<SetEnabled>(&message)) {
    proto::SetEnabled* content = out.mutable_set_enabled();
    for (const std::string& pattern : set->patterns) {
      content->add_patterns(pattern);
    }
  } else if (const auto* stats = std::get_if<ServiceStats>(&message)) {
    proto::ServiceStats* content = out.mutable_service_stats();
    for (const ProducerInfo& producer : stats->producers) {
      proto::ProducerInfo* added = content->add_producers();
      added->set_id(producer.id);
      added->set_name(producer.name);
      added->set_pid(producer.pid);
      added->set_uid(producer.uid);
      if (producer.packets.has_value()) {
        SetProtoPackets(*producer.packets, added->mutable_packets());
      }
      for (const RingLoad& ring : producer.rings) {
        proto::RingLoad* load = added->add_rings();
        load->set_num_chunks(ring.num_chunks);
        load->set_outstanding(ring.outstanding);
        load->set_stopped(ring.stopped);
      }
    }
    content->set_more(stats->more);
    if (stats->gone.has_value()) {
      SetProtoPackets(*stats->gone, content->mutable_gone());
    }
    content->set_producers_seen(stats->producers_seen);
    content->set_producers_refused(stats->producers_refused);
    content->set_rings_stopped(stats->rings_stopped);
  }
  return out;
}

// `bytes` in a block of just their size, so that AddressSanitizer sees a read
// beyond them.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view bytes)
      : bytes_(bytes.begin(), bytes.end()) {
    bytes_.shrink_to_fit();
  }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::vector<char> bytes_;
};

// One entry point for both directions, so that a test can be written once.
struct ProducerToConsumer {
  using Message = ProducerMessage;
  using Proto = proto::ProducerMessage;
  static CodecOutcome Encode(const Message& message, std::string* bytes) {
    return EncodeProducerMessage(message, bytes);
  }
  static CodecOutcome Decode(std::string_view bytes, Message* message) {
    return DecodeProducerMessage(ExactBytes(bytes).view(), message);
  }
};

struct ConsumerToProducer {
  using Message = ConsumerMessage;
  using Proto = proto::ConsumerMessage;
  static CodecOutcome Encode(const Message& message, std::string* bytes) {
    return EncodeConsumerMessage(message, bytes);
  }
  static CodecOutcome Decode(std::string_view bytes, Message* message) {
    return DecodeConsumerMessage(ExactBytes(bytes).view(), message);
  }
};

}  // namespace tracering::control

#endif  // TRACERING_TESTS_COMMON_CONTROL_CONTROL_PROTO_H_
