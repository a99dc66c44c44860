// The lookups; see profile_sample.h.
#include "tests/support/profile_sample.h"

#include <map>
#include <stdexcept>
#include <utility>

namespace tracering::test {
namespace {

void Expect(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

template <typename Items>
auto ByIid(const Items& items) {
  std::map<uint64_t, typename Items::value_type> result;
  for (const auto& item : items) {
    Expect(item.iid() != 0, "an iid is 0");
    Expect(result.emplace(item.iid(), item).second, "an iid is used twice");
  }
  return result;
}

template <typename Item>
const Item& At(const std::map<uint64_t, Item>& items, uint64_t iid) {
  const auto found = items.find(iid);
  Expect(found != items.end(), "an iid is referred to and not there");
  return found->second;
}

void DecodeFrames(const InternedData& data, uint64_t callstack,
                  ProfileSample* sample) {
  const auto names = ByIid(data.function_names());
  const auto paths = ByIid(data.mapping_paths());
  const auto mappings = ByIid(data.mappings());
  const auto frames = ByIid(data.frames());
  const auto stacks = ByIid(data.callstacks());
  for (const uint64_t id : At(stacks, callstack).frame_ids()) {
    const tracering::test::Frame& frame = At(frames, id);
    const Mapping& mapping = At(mappings, frame.mapping_id());
    Expect(mapping.path_string_ids_size() == 1, "a mapping has not one path");
    ProfileSample::Frame decoded;
    decoded.module = At(paths, mapping.path_string_ids(0)).str();
    Expect(!decoded.module.empty(), "a path is empty");
    if (frame.has_function_name_id()) {
      decoded.function = At(names, frame.function_name_id()).str();
      Expect(!decoded.function.empty(), "a name is empty");
    }
    sample->frames.push_back(std::move(decoded));
  }
  Expect(!sample->frames.empty(), "a callstack is empty");
}

}  // namespace

bool ProfileSample::Has(const std::string& function) const {
  for (const Frame& frame : frames) {
    if (frame.function.rfind(function, 0) == 0) return true;
  }
  return false;
}

std::string ProfileSample::label() const {
  return !frames.empty() && frames[0].module == "[label]" ? frames[0].function
                                                          : "";
}

std::string ToString(const ProfileSample& sample) {
  std::string text;
  for (const ProfileSample::Frame& frame : sample.frames) {
    text += frame.function + " in " + frame.module + '\n';
  }
  return text;
}

ProfileSample DecodeSample(const TracePacket& packet) {
  constexpr int kMaxFramesExceeded = 6;
  const PerfSample& perf = packet.perf_sample();
  Expect(packet.sequence_flags() == 3, "the packet does not stand alone");
  Expect(packet.trace_packet_defaults().perf_sample_defaults().has_timebase(),
         "no time base");
  ProfileSample sample;
  sample.timestamp = packet.timestamp();
  sample.tid = perf.tid();
  sample.lost = perf.kernel_records_lost();
  sample.truncated = perf.unwind_error() == kMaxFramesExceeded;
  if (sample.lost != 0) return sample;
  Expect(perf.cpu_mode() == PerfSample::MODE_USER, "not user mode");
  Expect(perf.timebase_count() > 0, "no count of the time base");
  DecodeFrames(packet.interned_data(), perf.callstack_iid(), &sample);
  return sample;
}

}  // namespace tracering::test
