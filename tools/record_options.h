// What `tracering record` was asked for.
//
// Parsing and checking only; complaints end the program.
#ifndef TRACERING_TOOLS_RECORD_OPTIONS_H_
#define TRACERING_TOOLS_RECORD_OPTIONS_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tracering/buffer_config.h"
#include "tracering/consumer.h"

namespace tracering::tools {

// What a program may pull, and how long after that the snapshot is saved.
struct SnapshotTrigger {
  std::string name;
  std::chrono::milliseconds grace{0};
};

struct RecordOptions {
  std::string output = "trace.pftrace";
  std::string socket_path;  // empty: one of our own, or the usual one
  std::vector<BufferConfig> buffers;
  std::vector<std::string> categories;  // empty: all
  bool compress = false;
  std::optional<StreamOptions> stream;
  std::vector<SnapshotTrigger> triggers;
  std::optional<std::chrono::milliseconds> duration;
  bool quiet = false;
  std::vector<std::string> command;
};

RecordOptions ParseRecordOptions(std::vector<std::string> arguments);

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_RECORD_OPTIONS_H_
