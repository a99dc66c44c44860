// Field numbers of docs/control.proto, for the encoder and the decoder only.
//
// constexpr; a test holds them against that file.
#ifndef TRACERING_SRC_COMMON_CONTROL_FIELD_NUMBERS_H_
#define TRACERING_SRC_COMMON_CONTROL_FIELD_NUMBERS_H_

#include <cstdint>
#include <type_traits>
#include <variant>

#include "src/common/control/messages.h"

namespace tracering::control {

namespace field {
inline constexpr uint32_t kHello = 1;
inline constexpr uint32_t kAddRings = 2;
inline constexpr uint32_t kAddBuffers = 3;
inline constexpr uint32_t kTrigger = 4;
inline constexpr uint32_t kGoodbye = 5;
inline constexpr uint32_t kStatsRequest = 6;

inline constexpr uint32_t kWelcome = 1;
inline constexpr uint32_t kReject = 2;
inline constexpr uint32_t kSetEnabled = 3;
inline constexpr uint32_t kServiceStats = 4;

inline constexpr uint32_t kRingNumChunks = 1;
inline constexpr uint32_t kRingChunkSize = 2;
inline constexpr uint32_t kRingRole = 3;
inline constexpr uint32_t kRingIndex = 4;

inline constexpr uint32_t kBufferId = 1;
inline constexpr uint32_t kBufferName = 2;

inline constexpr uint32_t kHelloAbiVersionMin = 1;
inline constexpr uint32_t kHelloAbiVersionMax = 2;
inline constexpr uint32_t kHelloProcessName = 3;
inline constexpr uint32_t kHelloPid = 4;
inline constexpr uint32_t kHelloRings = 5;
inline constexpr uint32_t kHelloBuffers = 6;

inline constexpr uint32_t kAddRingsRings = 1;
inline constexpr uint32_t kAddBuffersBuffers = 1;
inline constexpr uint32_t kTriggerName = 1;

inline constexpr uint32_t kWelcomeAbiVersion = 1;
inline constexpr uint32_t kWelcomeUnknownBuffers = 2;
inline constexpr uint32_t kWelcomeEnabledCategories = 3;

inline constexpr uint32_t kRejectReason = 1;
inline constexpr uint32_t kSetEnabledPatterns = 1;

inline constexpr uint32_t kStatsRequestAfterProducer = 1;

inline constexpr uint32_t kPacketDelivered = 1;
inline constexpr uint32_t kPacketDeliveredBytes = 2;
inline constexpr uint32_t kPacketLost = 3;

inline constexpr uint32_t kLoadNumChunks = 1;
inline constexpr uint32_t kLoadOutstanding = 2;
inline constexpr uint32_t kLoadStopped = 3;

inline constexpr uint32_t kProducerId = 1;
inline constexpr uint32_t kProducerName = 2;
inline constexpr uint32_t kProducerPid = 3;
inline constexpr uint32_t kProducerUid = 4;
inline constexpr uint32_t kProducerPackets = 5;
inline constexpr uint32_t kProducerRings = 6;

inline constexpr uint32_t kServiceStatsProducers = 1;
inline constexpr uint32_t kServiceStatsMore = 2;
inline constexpr uint32_t kServiceStatsGone = 3;
inline constexpr uint32_t kServiceStatsProducersSeen = 4;
inline constexpr uint32_t kServiceStatsProducersRefused = 5;
inline constexpr uint32_t kServiceStatsRingsStopped = 6;
}  // namespace field

// Members of the two top-level oneofs: alternative i of the variant is field i.
template <uint32_t kNumber, typename Variant, typename Content>
inline constexpr bool kIsMember =
    std::is_same_v<std::variant_alternative_t<kNumber, Variant>, Content>;

static_assert(kIsMember<field::kHello, ProducerMessage, Hello>);
static_assert(kIsMember<field::kAddRings, ProducerMessage, AddRings>);
static_assert(kIsMember<field::kAddBuffers, ProducerMessage, AddBuffers>);
static_assert(kIsMember<field::kTrigger, ProducerMessage, Trigger>);
static_assert(kIsMember<field::kGoodbye, ProducerMessage, Goodbye>);
static_assert(kIsMember<field::kStatsRequest, ProducerMessage, StatsRequest>);
static_assert(std::variant_size_v<ProducerMessage> == 7);
static_assert(kIsMember<field::kWelcome, ConsumerMessage, Welcome>);
static_assert(kIsMember<field::kReject, ConsumerMessage, Reject>);
static_assert(kIsMember<field::kSetEnabled, ConsumerMessage, SetEnabled>);
static_assert(kIsMember<field::kServiceStats, ConsumerMessage, ServiceStats>);
static_assert(std::variant_size_v<ConsumerMessage> == 5);

}  // namespace tracering::control

#endif  // TRACERING_SRC_COMMON_CONTROL_FIELD_NUMBERS_H_
