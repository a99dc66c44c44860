// Field numbers and values of the Perfetto trace format that producers and the
// consumer emit, and those that only the service may write.
//
// constexpr constants; use them with the appends of Packet and Message.
#ifndef TRACERING_TRACE_FIELDS_H_
#define TRACERING_TRACE_FIELDS_H_

#include <cstdint>

namespace tracering {

namespace trace_packet {
inline constexpr uint32_t kTrustedUid = 3;  // service only
inline constexpr uint32_t kClockSnapshot = 6;
inline constexpr uint32_t kTimestamp = 8;
inline constexpr uint32_t kTrustedPacketSequenceId = 10;  // service only
inline constexpr uint32_t kTrackEvent = 11;
inline constexpr uint32_t kInternedData = 12;
inline constexpr uint32_t kSequenceFlags = 13;
inline constexpr uint32_t kTraceConfig = 33;            // service only
inline constexpr uint32_t kTraceStats = 35;             // service only
inline constexpr uint32_t kSynchronizationMarker = 36;  // service only
inline constexpr uint32_t kPreviousPacketDropped = 42;  // service only
inline constexpr uint32_t kProcessDescriptor = 43;
inline constexpr uint32_t kThreadDescriptor = 44;
inline constexpr uint32_t kCompressedPackets = 50;  // service only
inline constexpr uint32_t kStreamingProfilePacket = 54;
inline constexpr uint32_t kTimestampClockId = 58;
inline constexpr uint32_t kTracePacketDefaults = 59;
inline constexpr uint32_t kTrackDescriptor = 60;
inline constexpr uint32_t kPerfSample = 66;
inline constexpr uint32_t kServiceEvent = 69;  // service only
inline constexpr uint32_t kTrustedPid = 79;    // service only
inline constexpr uint32_t kFirstPacketOnSequence = 87;
inline constexpr uint32_t kTraceUuid = 89;
inline constexpr uint32_t kMachineId = 98;    // service only
inline constexpr uint32_t kService124 = 124;  // service only
inline constexpr uint32_t kService125 = 125;  // service only
inline constexpr uint32_t kForTesting = 900;
}  // namespace trace_packet

namespace sequence_flags {
inline constexpr uint32_t kIncrementalStateCleared = 1;
inline constexpr uint32_t kNeedsIncrementalState = 2;
}  // namespace sequence_flags

namespace track_event {
inline constexpr uint32_t kDebugAnnotations = 4;
inline constexpr uint32_t kType = 9;
inline constexpr uint32_t kTrackUuid = 11;
inline constexpr uint32_t kCategories = 22;
inline constexpr uint32_t kName = 23;
inline constexpr uint32_t kCounterValue = 30;
inline constexpr uint32_t kDoubleCounterValue = 44;
inline constexpr uint32_t kFlowIds = 47;
inline constexpr uint32_t kTerminatingFlowIds = 48;

inline constexpr uint64_t kTypeSliceBegin = 1;
inline constexpr uint64_t kTypeSliceEnd = 2;
inline constexpr uint64_t kTypeInstant = 3;
inline constexpr uint64_t kTypeCounter = 4;
}  // namespace track_event

namespace debug_annotation {
inline constexpr uint32_t kBoolValue = 2;
inline constexpr uint32_t kUintValue = 3;
inline constexpr uint32_t kIntValue = 4;
inline constexpr uint32_t kDoubleValue = 5;
inline constexpr uint32_t kStringValue = 6;
inline constexpr uint32_t kPointerValue = 7;
inline constexpr uint32_t kName = 10;
inline constexpr uint32_t kDictEntries = 11;
inline constexpr uint32_t kArrayValues = 12;
}  // namespace debug_annotation

namespace track_descriptor {
inline constexpr uint32_t kUuid = 1;
inline constexpr uint32_t kName = 2;
inline constexpr uint32_t kProcess = 3;
inline constexpr uint32_t kThread = 4;
inline constexpr uint32_t kParentUuid = 5;
inline constexpr uint32_t kCounter = 8;
}  // namespace track_descriptor

namespace process_descriptor {
inline constexpr uint32_t kPid = 1;
inline constexpr uint32_t kCmdline = 2;
inline constexpr uint32_t kProcessName = 6;
inline constexpr uint32_t kStartTimestampNs = 7;
}  // namespace process_descriptor

namespace thread_descriptor {
inline constexpr uint32_t kPid = 1;
inline constexpr uint32_t kTid = 2;
inline constexpr uint32_t kThreadName = 5;
}  // namespace thread_descriptor

namespace counter_descriptor {
inline constexpr uint32_t kUnit = 3;
inline constexpr uint32_t kUnitMultiplier = 4;
inline constexpr uint32_t kIsIncremental = 5;
inline constexpr uint32_t kUnitName = 6;

inline constexpr uint64_t kUnitTimeNs = 1;
inline constexpr uint64_t kUnitCount = 2;
inline constexpr uint64_t kUnitSizeBytes = 3;
}  // namespace counter_descriptor

namespace clock_snapshot {
inline constexpr uint32_t kClocks = 1;
inline constexpr uint32_t kPrimaryTraceClock = 2;
}  // namespace clock_snapshot

namespace clock {
inline constexpr uint32_t kClockId = 1;
inline constexpr uint32_t kTimestamp = 2;

inline constexpr uint64_t kRealtime = 1;
inline constexpr uint64_t kMonotonic = 3;
inline constexpr uint64_t kMonotonicRaw = 5;
inline constexpr uint64_t kBoottime = 6;
}  // namespace clock

namespace interned_data {
inline constexpr uint32_t kFunctionNames = 5;
inline constexpr uint32_t kFrames = 6;
inline constexpr uint32_t kCallstacks = 7;
inline constexpr uint32_t kBuildIds = 16;
inline constexpr uint32_t kMappingPaths = 17;
inline constexpr uint32_t kMappings = 19;
}  // namespace interned_data

namespace interned_string {
inline constexpr uint32_t kIid = 1;
inline constexpr uint32_t kStr = 2;
}  // namespace interned_string

namespace mapping {
inline constexpr uint32_t kIid = 1;
inline constexpr uint32_t kBuildId = 2;
inline constexpr uint32_t kStartOffset = 3;
inline constexpr uint32_t kStart = 4;
inline constexpr uint32_t kEnd = 5;
inline constexpr uint32_t kLoadBias = 6;
inline constexpr uint32_t kPathStringIds = 7;
inline constexpr uint32_t kExactOffset = 8;
}  // namespace mapping

namespace frame {
inline constexpr uint32_t kIid = 1;
inline constexpr uint32_t kFunctionNameId = 2;
inline constexpr uint32_t kMappingId = 3;
inline constexpr uint32_t kRelPc = 4;
}  // namespace frame

namespace callstack {
inline constexpr uint32_t kIid = 1;
inline constexpr uint32_t kFrameIds = 2;  // root first
}  // namespace callstack

namespace perf_sample {
inline constexpr uint32_t kCpu = 1;
inline constexpr uint32_t kPid = 2;
inline constexpr uint32_t kTid = 3;
inline constexpr uint32_t kCallstackIid = 4;
inline constexpr uint32_t kCpuMode = 5;
inline constexpr uint32_t kTimebaseCount = 6;
inline constexpr uint32_t kUnwindError = 16;
inline constexpr uint32_t kKernelRecordsLost = 17;

inline constexpr uint64_t kModeUser = 2;
inline constexpr uint64_t kUnwindErrorMaxFramesExceeded = 6;
}  // namespace perf_sample

namespace trace_packet_defaults {
inline constexpr uint32_t kPerfSampleDefaults = 12;
}  // namespace trace_packet_defaults

namespace perf_sample_defaults {
inline constexpr uint32_t kTimebase = 1;
}  // namespace perf_sample_defaults

namespace trace_stats {
inline constexpr uint32_t kBufferStats = 1;
inline constexpr uint32_t kProducersConnected = 2;
inline constexpr uint32_t kProducersSeen = 3;
inline constexpr uint32_t kTotalBuffers = 7;
inline constexpr uint32_t kChunksDiscarded = 8;
inline constexpr uint32_t kInvalidPackets = 10;
inline constexpr uint32_t kFlushesRequested = 12;
inline constexpr uint32_t kFlushesSucceeded = 13;
inline constexpr uint32_t kFlushesFailed = 14;
inline constexpr uint32_t kFinalFlushOutcome = 15;
}  // namespace trace_stats

namespace buffer_stats {
inline constexpr uint32_t kBytesWritten = 1;
inline constexpr uint32_t kChunksWritten = 2;
inline constexpr uint32_t kChunksOverwritten = 3;
inline constexpr uint32_t kWriteWrapCount = 4;
inline constexpr uint32_t kAbiViolations = 9;
inline constexpr uint32_t kBufferSize = 12;
inline constexpr uint32_t kBytesOverwritten = 13;
inline constexpr uint32_t kBytesRead = 14;
inline constexpr uint32_t kChunksRead = 17;
inline constexpr uint32_t kChunksDiscarded = 18;
inline constexpr uint32_t kTraceWriterPacketLoss = 19;
}  // namespace buffer_stats

}  // namespace tracering

#endif  // TRACERING_TRACE_FIELDS_H_
