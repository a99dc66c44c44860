// Records of the profile buffer into PerfSample packets.
//
// Each packet stands alone: it clears the incremental state and brings the
// names, mappings and frames that it refers to, so that a lost packet takes
// nothing but itself along. On the profiler's background thread.
#ifndef TRACERING_SRC_PRODUCER_PROFILE_DRAIN_H_
#define TRACERING_SRC_PRODUCER_PROFILE_DRAIN_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/producer/symbolizer.h"
#include "tracering/profile_buffer.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

class ProfileDrain {
 public:
  // The writer is used by Write and WriteLoss only.
  ProfileDrain(TraceWriter* writer, pid_t pid) : writer_(*writer), pid_(pid) {}

  // What ProfileBuffer::Read returned.
  void Write(const ProfileRecords& records);
  // So many samples are missing; the first since `time`. Allocates nothing.
  void WriteLoss(uint64_t time, uint64_t count);
  // Samples for whose names there was no memory. Any thread.
  uint64_t lost_memory() const {
    return lost_memory_.load(std::memory_order_relaxed);
  }

 private:
  struct Frame {
    // Point into the symbolizer's cache or the table of labels.
    std::string_view function;
    const ResolvedPc* code;
    size_t function_id = 0;  // 0: none
    size_t mapping_id = 0;
  };

  void WriteSample(uint64_t time, const uint64_t* header, uint64_t tag,
                   const uint64_t* stack, size_t stack_words);
  // The InternedData of such samples, encoded. Valid until the next call.
  const std::string& Interned(uint64_t tag, const uint64_t* stack,
                              size_t stack_words);
  void Resolve(const uint64_t* stack, size_t stack_words);
  void AddFrame(const ResolvedPc* code, std::string_view function);
  std::string EncodeInterned() const;
  void ForgetEncoded();

  TraceWriter& writer_;
  const pid_t pid_;
  Symbolizer symbolizer_;
  std::atomic<uint64_t> lost_memory_{0};
  // Expiries of the sampling timers until now: what timebase_count counts.
  uint64_t expiries_ = 0;
  // By tag and stack: a program that is busy is so in few places.
  std::unordered_map<std::string, std::string> encoded_;
  size_t encoded_bytes_ = 0;
  std::string key_;
  // Of the stack that is being encoded. The iid of an item is its index + 1.
  std::vector<Frame> frames_;  // innermost first
  std::vector<std::string_view> functions_;
  std::vector<const ResolvedPc*> mappings_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PROFILE_DRAIN_H_
