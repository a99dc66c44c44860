// Reads a trace file with nothing of ours but the framing rule (0x0a, length,
// packet) and a real protobuf parser, and checks what importers of the format
// require of it. Complaints are sentences; none means that the file is good.
#ifndef TRACERING_TESTS_SUPPORT_TRACE_FILE_CHECKER_H_
#define TRACERING_TESTS_SUPPORT_TRACE_FILE_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/trace.pb.h"

namespace tracering::test {

struct TraceFile {
  // Those that were compressed in the place of the packet that held them.
  std::vector<TracePacket> packets;
  // Where each packet's framing begins, or that of the one that held it.
  std::vector<size_t> offsets;
  size_t compressed_packets = 0;  // packets that held others
  // Bytes of a last packet that is not all there; 0 unless the file was cut.
  size_t cut_bytes = 0;
  // Broken framing, packets that do not parse, a file that cannot be read.
  std::vector<std::string> complaints;
};

TraceFile ReadTraceFile(const std::string& path);
TraceFile ReadTraceBytes(std::string_view bytes);

struct TraceCheckOptions {
  // The file was saved in good order: nothing is cut off, and the last packet
  // holds the trace stats.
  bool complete = true;
  // Loss marks are a complaint.
  bool forbid_loss = false;
  // Slices still open at the end are a complaint; for sessions whose threads
  // had all left their slices.
  bool forbid_open_slices = false;
  // Every packet that a producer wrote bears a trusted pid.
  bool require_pid = false;
  // The events of a sequence are in the order of time, as one thread wrote
  // them.
  bool require_order = false;
};

// What is checked of a file (besides its own complaints):
//  - top-level fields are known ones;
//  - every packet has a sequence id, not 0; all packets of a sequence agree on
//    uid and pid; first_packet_on_sequence is set on a first packet only;
//  - apart from descriptors, uuid and config, a clock snapshot comes first; its
//    clocks are distinct, include the primary one, and never run backwards;
//  - events and samples have a timestamp, in a clock that a snapshot defines,
//    and no later than an hour behind the last snapshot;
//  - previous_packet_dropped has its `present` bit, no unknown bit, and stands
//    on no packet of the service;
//  - a packet that needs incremental state comes after one that cleared it;
//  - track uuids that events and parents name are described, each in one way;
//    counters lie on counter tracks and slices do not; an event has a type;
//  - per track, in the order of time, a slice ends only after it began, unless
//    a loss mark explains what is missing.
std::vector<std::string> CheckTrace(const TraceFile& file,
                                    const TraceCheckOptions& options = {});

// ReadTraceFile and CheckTrace in one, for EXPECT_THAT(..., IsEmpty()).
std::vector<std::string> CheckTraceFile(const std::string& path,
                                        const TraceCheckOptions& options = {});

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_TRACE_FILE_CHECKER_H_
