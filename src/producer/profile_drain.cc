// The packets; see profile_drain.h.
#include "src/producer/profile_drain.h"

#include <algorithm>
#include <utility>

#include "src/producer/containment.h"
#include "src/producer/profile_labels.h"
#include "src/producer/profile_signal.h"
#include "tracering/internal/wire_format.h"
#include "tracering/trace_fields.h"

namespace tracering::internal {
namespace {

constexpr uint64_t kCallstackIid = 1;

// Where the frame of a label belongs.
const ResolvedPc& LabelModule() {
  static const auto* const module = [] {
    auto* const label = new ResolvedPc;
    label->known = true;
    label->module = "[label]";
    return label;
  }();
  return *module;
}

void BeginPacket(Packet& packet, uint64_t time) {
  packet.AppendVarint(trace_packet::kTimestamp, time);
  packet.AppendVarint(trace_packet::kSequenceFlags,
                      sequence_flags::kIncrementalStateCleared |
                          sequence_flags::kNeedsIncrementalState);
  Message defaults = packet.BeginMessage(trace_packet::kTracePacketDefaults);
  Message sample =
      defaults.BeginMessage(trace_packet_defaults::kPerfSampleDefaults);
  Message timebase = sample.BeginMessage(perf_sample_defaults::kTimebase);
}

// Canonical protobuf: the consumer takes it as it is.
void AppendVarint(std::string* out, uint64_t value) {
  uint8_t bytes[kMaxVarintSize];
  const auto size = static_cast<size_t>(WriteVarint(bytes, value) - bytes);
  out->append(reinterpret_cast<const char*>(bytes), size);
}

void AppendField(std::string* out, uint32_t field, uint64_t value) {
  AppendVarint(out, MakeTag(field, WireType::kVarint));
  AppendVarint(out, value);
}

void AppendField(std::string* out, uint32_t field, std::string_view bytes) {
  AppendVarint(out, MakeTag(field, WireType::kLengthDelimited));
  AppendVarint(out, bytes.size());
  out->append(bytes);
}

void AppendString(std::string* out, uint32_t field, size_t iid,
                  std::string_view text) {
  std::string string;
  AppendField(&string, interned_string::kIid, iid);
  AppendField(&string, interned_string::kStr, text);
  AppendField(out, field, string);
}

}  // namespace

void ProfileDrain::Write(const ProfileRecords& records) {
  const bool same_names = Contain([this] { return symbolizer_.BeginBatch(); },
                                  [] { return false; });
  if (!same_names) ForgetEncoded();
  const uint64_t* record = records.data;
  const uint64_t* const end = records.data + records.data_words;
  for (size_t i = 0; i < records.num_tags; ++i) {
    const auto left = static_cast<size_t>(end - record);
    if (left < SampleHeader::kRecordWords ||
        record[0] < SampleHeader::kRecordWords || record[0] > left) {
      return;  // not what the buffer promises
    }
    const uint64_t* header = record + 2;
    const uint64_t* stack = record + SampleHeader::kRecordWords;
    const size_t stack_words = record[0] - SampleHeader::kRecordWords;
    if (header[0] != 0) {
      Contain(
          [&] {
            WriteSample(record[1], header, records.tags[i], stack, stack_words);
          },
          [&] {
            lost_memory_.fetch_add(1, std::memory_order_relaxed);
            WriteLoss(record[1], 1);
          });
    } else if (stack_words == 1) {
      WriteLoss(record[1], stack[0]);
    }
    record += record[0];
  }
}

void ProfileDrain::WriteLoss(uint64_t time, uint64_t count) {
  Packet packet = writer_.NewPacket();
  BeginPacket(packet, time);
  Message sample = packet.BeginMessage(trace_packet::kPerfSample);
  // Importers count what is lost by CPU; of ours nobody knows it.
  sample.AppendVarint(perf_sample::kCpu, 0);
  sample.AppendVarint(perf_sample::kPid, static_cast<uint64_t>(pid_));
  sample.AppendVarint(perf_sample::kKernelRecordsLost, count);
}

void ProfileDrain::WriteSample(uint64_t time, const uint64_t* header_words,
                               uint64_t tag, const uint64_t* stack,
                               size_t stack_words) {
  const SampleHeader header = SampleHeader::Decode(header_words);
  expiries_ += uint64_t{1} + header.overruns;
  const std::string& interned = Interned(tag, stack, stack_words);
  Packet packet = writer_.NewPacket();
  BeginPacket(packet, time);
  packet.AppendString(trace_packet::kInternedData, interned);
  Message sample = packet.BeginMessage(trace_packet::kPerfSample);
  sample.AppendVarint(perf_sample::kCpu, header.cpu);
  sample.AppendVarint(perf_sample::kPid, static_cast<uint64_t>(pid_));
  sample.AppendVarint(perf_sample::kTid, header.thread_id);
  sample.AppendVarint(perf_sample::kCallstackIid, kCallstackIid);
  sample.AppendVarint(perf_sample::kCpuMode, perf_sample::kModeUser);
  sample.AppendVarint(perf_sample::kTimebaseCount, expiries_);
  if (header.truncated) {
    sample.AppendVarint(perf_sample::kUnwindError,
                        perf_sample::kUnwindErrorMaxFramesExceeded);
  }
}

const std::string& ProfileDrain::Interned(uint64_t tag, const uint64_t* stack,
                                          size_t stack_words) {
  constexpr size_t kMaxEncodedBytes = size_t{4} << 20;
  key_.assign(reinterpret_cast<const char*>(&tag), sizeof(tag));
  key_.append(reinterpret_cast<const char*>(stack),
              stack_words * sizeof(*stack));
  const auto found = encoded_.find(key_);
  if (found != encoded_.end()) return found->second;
  Resolve(stack, stack_words);
  if (tag != 0) {
    // A label's address, as Sampler::Take wrote it; they are never freed.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto* const label = reinterpret_cast<const ProfileLabel*>(tag);
    AddFrame(&LabelModule(), label->text);
  }
  if (encoded_bytes_ > kMaxEncodedBytes) ForgetEncoded();
  std::string encoded = EncodeInterned();
  const size_t bytes = key_.size() + encoded.size();
  const auto added = encoded_.emplace(key_, std::move(encoded)).first;
  encoded_bytes_ += bytes;
  return added->second;
}

void ProfileDrain::ForgetEncoded() {
  encoded_.clear();
  encoded_bytes_ = 0;
}

void ProfileDrain::Resolve(const uint64_t* stack, size_t stack_words) {
  frames_.clear();
  functions_.clear();
  mappings_.clear();
  for (size_t i = 0; i < stack_words; ++i) {
    // The call lies before the address that it returns to, which may belong to
    // the next function already.
    const ResolvedPc& code =
        symbolizer_.Resolve(i == 0 ? stack[0] : stack[i] - 1);
    // Where there is no code, the chain of frames had come off its track.
    if (i != 0 && !code.known) break;
    AddFrame(&code, code.function);
  }
}

void ProfileDrain::AddFrame(const ResolvedPc* code, std::string_view function) {
  Frame frame{function, code};
  if (!function.empty()) {
    const auto found =
        std::find(functions_.begin(), functions_.end(), function);
    frame.function_id = static_cast<size_t>(found - functions_.begin()) + 1;
    if (found == functions_.end()) functions_.push_back(function);
  }
  const auto same = [code](const ResolvedPc* other) {
    return other->start == code->start && other->module == code->module &&
           other->load_bias == code->load_bias;
  };
  const auto found = std::find_if(mappings_.begin(), mappings_.end(), same);
  frame.mapping_id = static_cast<size_t>(found - mappings_.begin()) + 1;
  if (found == mappings_.end()) mappings_.push_back(code);
  frames_.push_back(frame);
}

std::string ProfileDrain::EncodeInterned() const {
  std::string data;
  for (size_t i = 0; i < functions_.size(); ++i) {
    AppendString(&data, interned_data::kFunctionNames, i + 1, functions_[i]);
  }
  for (size_t i = 0; i < mappings_.size(); ++i) {
    const std::string_view module = mappings_[i]->module;
    AppendString(&data, interned_data::kMappingPaths, i + 1,
                 module.empty() ? "[unknown]" : module);
  }
  std::string message;
  for (size_t i = 0; i < mappings_.size(); ++i) {
    const ResolvedPc& code = *mappings_[i];
    message.clear();
    AppendField(&message, mapping::kIid, i + 1);
    AppendField(&message, mapping::kStartOffset, code.file_offset);
    AppendField(&message, mapping::kExactOffset, code.file_offset);
    AppendField(&message, mapping::kStart, code.start);
    AppendField(&message, mapping::kEnd, code.end);
    AppendField(&message, mapping::kLoadBias, code.load_bias);
    AppendField(&message, mapping::kPathStringIds, i + 1);
    AppendField(&data, interned_data::kMappings, message);
  }
  for (size_t i = 0; i < frames_.size(); ++i) {
    message.clear();
    AppendField(&message, frame::kIid, i + 1);
    if (frames_[i].function_id != 0) {
      AppendField(&message, frame::kFunctionNameId, frames_[i].function_id);
    }
    AppendField(&message, frame::kMappingId, frames_[i].mapping_id);
    AppendField(&message, frame::kRelPc, frames_[i].code->relative_pc);
    AppendField(&data, interned_data::kFrames, message);
  }
  message.clear();
  AppendField(&message, callstack::kIid, kCallstackIid);
  for (size_t i = frames_.size(); i > 0; --i) {
    AppendField(&message, callstack::kFrameIds, i);
  }
  AppendField(&data, interned_data::kCallstacks, message);
  return data;
}

}  // namespace tracering::internal
