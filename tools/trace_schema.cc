// The tables, from the inside out; see trace_schema.h.
#include "tools/trace_schema.h"

#include <algorithm>

namespace tracering::tools {
namespace {

template <size_t kNumFields>
constexpr MessageSchema Schema(const FieldSchema (&fields)[kNumFields]) {
  return {fields, kNumFields};
}

// Messages of which nothing is known but that they may be there.
constexpr MessageSchema kOpaque = {nullptr, 0};

// It holds others of its kind.
extern const MessageSchema kDebugAnnotation;

constexpr FieldSchema kClockSnapshotClockFields[] = {
    {1, "clock_id", FieldKind::kUint32},
    {2, "timestamp", FieldKind::kUint64},
    {3, "is_incremental", FieldKind::kBool},
    {4, "unit_multiplier_ns", FieldKind::kUint64},
};
constexpr MessageSchema kClockSnapshotClock = Schema(kClockSnapshotClockFields);

constexpr EnumValue kBuiltinClockValues[] = {
    {0, "BUILTIN_CLOCK_UNKNOWN"},   {1, "BUILTIN_CLOCK_REALTIME"},
    {3, "BUILTIN_CLOCK_MONOTONIC"}, {5, "BUILTIN_CLOCK_MONOTONIC_RAW"},
    {6, "BUILTIN_CLOCK_BOOTTIME"},  {0, ""}};

constexpr FieldSchema kClockSnapshotFields[] = {
    {1, "clocks", FieldKind::kMessage, true, &kClockSnapshotClock},
    {2, "primary_trace_clock", FieldKind::kEnum, false, nullptr,
     kBuiltinClockValues},
};
constexpr MessageSchema kClockSnapshot = Schema(kClockSnapshotFields);

constexpr FieldSchema kDebugAnnotationFields[] = {
    {2, "bool_value", FieldKind::kBool},
    {3, "uint_value", FieldKind::kUint64},
    {4, "int_value", FieldKind::kInt64},
    {5, "double_value", FieldKind::kDouble},
    {6, "string_value", FieldKind::kString},
    {7, "pointer_value", FieldKind::kUint64},
    {10, "name", FieldKind::kString},
    {11, "dict_entries", FieldKind::kMessage, true, &kDebugAnnotation},
    {12, "array_values", FieldKind::kMessage, true, &kDebugAnnotation},
};
const MessageSchema kDebugAnnotation = Schema(kDebugAnnotationFields);

constexpr FieldSchema kTrackEventCallstackFrameFields[] = {
    {1, "function_name", FieldKind::kString},
    {2, "source_file", FieldKind::kString},
    {3, "line_number", FieldKind::kUint32},
};
constexpr MessageSchema kTrackEventCallstackFrame =
    Schema(kTrackEventCallstackFrameFields);

constexpr FieldSchema kTrackEventCallstackFields[] = {
    {1, "frames", FieldKind::kMessage, true, &kTrackEventCallstackFrame},
};
constexpr MessageSchema kTrackEventCallstack =
    Schema(kTrackEventCallstackFields);

constexpr EnumValue kTrackEventTypeValues[] = {
    {0, "TYPE_UNSPECIFIED"}, {1, "TYPE_SLICE_BEGIN"}, {2, "TYPE_SLICE_END"},
    {3, "TYPE_INSTANT"},     {4, "TYPE_COUNTER"},     {0, ""}};

constexpr FieldSchema kTrackEventFields[] = {
    {4, "debug_annotations", FieldKind::kMessage, true, &kDebugAnnotation},
    {9, "type", FieldKind::kEnum, false, nullptr, kTrackEventTypeValues},
    {11, "track_uuid", FieldKind::kUint64},
    {22, "categories", FieldKind::kString, true},
    {23, "name", FieldKind::kString},
    {30, "counter_value", FieldKind::kInt64},
    {44, "double_counter_value", FieldKind::kDouble},
    {47, "flow_ids", FieldKind::kFixed64, true},
    {48, "terminating_flow_ids", FieldKind::kFixed64, true},
    {55, "callstack", FieldKind::kMessage, false, &kTrackEventCallstack},
};
constexpr MessageSchema kTrackEvent = Schema(kTrackEventFields);

constexpr FieldSchema kInternedStringFields[] = {
    {1, "iid", FieldKind::kUint64},
    {2, "str", FieldKind::kBytes},
};
constexpr MessageSchema kInternedString = Schema(kInternedStringFields);

constexpr FieldSchema kFrameFields[] = {
    {1, "iid", FieldKind::kUint64},
    {2, "function_name_id", FieldKind::kUint64},
    {3, "mapping_id", FieldKind::kUint64},
    {4, "rel_pc", FieldKind::kUint64},
};
constexpr MessageSchema kFrame = Schema(kFrameFields);

constexpr FieldSchema kCallstackFields[] = {
    {1, "iid", FieldKind::kUint64},
    {2, "frame_ids", FieldKind::kUint64, true},
};
constexpr MessageSchema kCallstack = Schema(kCallstackFields);

constexpr FieldSchema kMappingFields[] = {
    {1, "iid", FieldKind::kUint64},
    {2, "build_id", FieldKind::kUint64},
    {3, "start_offset", FieldKind::kUint64},
    {4, "start", FieldKind::kUint64},
    {5, "end", FieldKind::kUint64},
    {6, "load_bias", FieldKind::kUint64},
    {7, "path_string_ids", FieldKind::kUint64, true},
    {8, "exact_offset", FieldKind::kUint64},
};
constexpr MessageSchema kMapping = Schema(kMappingFields);

constexpr FieldSchema kInternedDataFields[] = {
    {5, "function_names", FieldKind::kMessage, true, &kInternedString},
    {6, "frames", FieldKind::kMessage, true, &kFrame},
    {7, "callstacks", FieldKind::kMessage, true, &kCallstack},
    {16, "build_ids", FieldKind::kMessage, true, &kInternedString},
    {17, "mapping_paths", FieldKind::kMessage, true, &kInternedString},
    {19, "mappings", FieldKind::kMessage, true, &kMapping},
};
constexpr MessageSchema kInternedData = Schema(kInternedDataFields);

constexpr FieldSchema kTraceStatsBufferStatsFields[] = {
    {1, "bytes_written", FieldKind::kUint64},
    {2, "chunks_written", FieldKind::kUint64},
    {3, "chunks_overwritten", FieldKind::kUint64},
    {4, "write_wrap_count", FieldKind::kUint64},
    {9, "abi_violations", FieldKind::kUint64},
    {12, "buffer_size", FieldKind::kUint64},
    {13, "bytes_overwritten", FieldKind::kUint64},
    {14, "bytes_read", FieldKind::kUint64},
    {17, "chunks_read", FieldKind::kUint64},
    {18, "chunks_discarded", FieldKind::kUint64},
    {19, "trace_writer_packet_loss", FieldKind::kUint64},
};
constexpr MessageSchema kTraceStatsBufferStats =
    Schema(kTraceStatsBufferStatsFields);

constexpr EnumValue kTraceStatsFinalFlushOutcomeValues[] = {
    {0, "FINAL_FLUSH_UNSPECIFIED"},
    {1, "FINAL_FLUSH_SUCCEEDED"},
    {2, "FINAL_FLUSH_FAILED"},
    {0, ""}};

constexpr FieldSchema kTraceStatsFields[] = {
    {1, "buffer_stats", FieldKind::kMessage, true, &kTraceStatsBufferStats},
    {2, "producers_connected", FieldKind::kUint32},
    {3, "producers_seen", FieldKind::kUint64},
    {7, "total_buffers", FieldKind::kUint32},
    {8, "chunks_discarded", FieldKind::kUint64},
    {10, "invalid_packets", FieldKind::kUint64},
    {12, "flushes_requested", FieldKind::kUint64},
    {13, "flushes_succeeded", FieldKind::kUint64},
    {14, "flushes_failed", FieldKind::kUint64},
    {15, "final_flush_outcome", FieldKind::kEnum, false, nullptr,
     kTraceStatsFinalFlushOutcomeValues},
};
constexpr MessageSchema kTraceStats = Schema(kTraceStatsFields);

constexpr FieldSchema kProcessDescriptorFields[] = {
    {1, "pid", FieldKind::kInt32},
    {2, "cmdline", FieldKind::kString, true},
    {6, "process_name", FieldKind::kString},
    {7, "start_timestamp_ns", FieldKind::kInt64},
};
constexpr MessageSchema kProcessDescriptor = Schema(kProcessDescriptorFields);

constexpr FieldSchema kThreadDescriptorFields[] = {
    {1, "pid", FieldKind::kInt32},
    {2, "tid", FieldKind::kInt32},
    {5, "thread_name", FieldKind::kString},
};
constexpr MessageSchema kThreadDescriptor = Schema(kThreadDescriptorFields);

constexpr FieldSchema kPerfSampleDefaultsFields[] = {
    {1, "timebase", FieldKind::kMessage, false, &kOpaque},
};
constexpr MessageSchema kPerfSampleDefaults = Schema(kPerfSampleDefaultsFields);

constexpr FieldSchema kTracePacketDefaultsFields[] = {
    {12, "perf_sample_defaults", FieldKind::kMessage, false,
     &kPerfSampleDefaults},
};
constexpr MessageSchema kTracePacketDefaults =
    Schema(kTracePacketDefaultsFields);

constexpr EnumValue kCounterDescriptorUnitValues[] = {{0, "UNIT_UNSPECIFIED"},
                                                      {1, "UNIT_TIME_NS"},
                                                      {2, "UNIT_COUNT"},
                                                      {3, "UNIT_SIZE_BYTES"},
                                                      {0, ""}};

constexpr FieldSchema kCounterDescriptorFields[] = {
    {3, "unit", FieldKind::kEnum, false, nullptr, kCounterDescriptorUnitValues},
    {4, "unit_multiplier", FieldKind::kInt64},
    {5, "is_incremental", FieldKind::kBool},
    {6, "unit_name", FieldKind::kString},
};
constexpr MessageSchema kCounterDescriptor = Schema(kCounterDescriptorFields);

constexpr FieldSchema kTrackDescriptorFields[] = {
    {1, "uuid", FieldKind::kUint64},
    {2, "name", FieldKind::kString},
    {3, "process", FieldKind::kMessage, false, &kProcessDescriptor},
    {4, "thread", FieldKind::kMessage, false, &kThreadDescriptor},
    {5, "parent_uuid", FieldKind::kUint64},
    {8, "counter", FieldKind::kMessage, false, &kCounterDescriptor},
};
constexpr MessageSchema kTrackDescriptor = Schema(kTrackDescriptorFields);

constexpr EnumValue kPerfSampleCpuModeValues[] = {
    {0, "MODE_UNKNOWN"}, {1, "MODE_KERNEL"}, {2, "MODE_USER"}, {0, ""}};

constexpr FieldSchema kPerfSampleFields[] = {
    {1, "cpu", FieldKind::kUint32},
    {2, "pid", FieldKind::kUint32},
    {3, "tid", FieldKind::kUint32},
    {4, "callstack_iid", FieldKind::kUint64},
    {5, "cpu_mode", FieldKind::kEnum, false, nullptr, kPerfSampleCpuModeValues},
    {6, "timebase_count", FieldKind::kUint64},
    {16, "unwind_error", FieldKind::kUint32},
    {17, "kernel_records_lost", FieldKind::kUint64},
};
constexpr MessageSchema kPerfSample = Schema(kPerfSampleFields);

constexpr FieldSchema kTraceUuidFields[] = {
    {1, "msb", FieldKind::kInt64},
    {2, "lsb", FieldKind::kInt64},
};
constexpr MessageSchema kTraceUuid = Schema(kTraceUuidFields);

constexpr FieldSchema kTestEventFields[] = {
    {1, "str", FieldKind::kString},
};
constexpr MessageSchema kTestEvent = Schema(kTestEventFields);

constexpr FieldSchema kTracePacketFields[] = {
    {3, "trusted_uid", FieldKind::kInt32},
    {6, "clock_snapshot", FieldKind::kMessage, false, &kClockSnapshot},
    {8, "timestamp", FieldKind::kUint64},
    {10, "trusted_packet_sequence_id", FieldKind::kUint32},
    {11, "track_event", FieldKind::kMessage, false, &kTrackEvent},
    {12, "interned_data", FieldKind::kMessage, false, &kInternedData},
    {13, "sequence_flags", FieldKind::kUint32},
    {33, "trace_config", FieldKind::kMessage, false, &kOpaque},
    {35, "trace_stats", FieldKind::kMessage, false, &kTraceStats},
    {36, "synchronization_marker", FieldKind::kBytes},
    {42, "previous_packet_dropped", FieldKind::kUint32},
    {43, "process_descriptor", FieldKind::kMessage, false, &kProcessDescriptor},
    {44, "thread_descriptor", FieldKind::kMessage, false, &kThreadDescriptor},
    {50, "compressed_packets", FieldKind::kBytes},
    {54, "streaming_profile_packet", FieldKind::kMessage, false, &kOpaque},
    {58, "timestamp_clock_id", FieldKind::kUint32},
    {59, "trace_packet_defaults", FieldKind::kMessage, false,
     &kTracePacketDefaults},
    {60, "track_descriptor", FieldKind::kMessage, false, &kTrackDescriptor},
    {66, "perf_sample", FieldKind::kMessage, false, &kPerfSample},
    {79, "trusted_pid", FieldKind::kInt32},
    {87, "first_packet_on_sequence", FieldKind::kBool},
    {89, "trace_uuid", FieldKind::kMessage, false, &kTraceUuid},
    {98, "machine_id", FieldKind::kUint32},
    {900, "for_testing", FieldKind::kMessage, false, &kTestEvent},
};
constexpr MessageSchema kTracePacket = Schema(kTracePacketFields);

}  // namespace

const FieldSchema* MessageSchema::Find(uint32_t number) const {
  const FieldSchema* const end = fields + num_fields;
  const FieldSchema* const found = std::lower_bound(
      fields, end, number, [](const FieldSchema& field, uint32_t wanted) {
        return field.number < wanted;
      });
  return found != end && found->number == number ? found : nullptr;
}

const MessageSchema& TracePacketSchema() { return kTracePacket; }

}  // namespace tracering::tools
