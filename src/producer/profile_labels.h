// The texts of ScopedProfileLabel, and the one that the calling thread is
// under: what the signal handler puts beside a sample.
//
// Texts are never freed, so that a sample may refer to one for as long as it
// likes; hence the bound. Lock-free, and so usable in forked children. Current
// is async-signal-safe.
#ifndef TRACERING_SRC_PRODUCER_PROFILE_LABELS_H_
#define TRACERING_SRC_PRODUCER_PROFILE_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tracering::internal {

struct ProfileLabel {
  std::string text;
};

class ProfileLabels {
 public:
  static constexpr size_t kMaxLabels = 4096;
  static constexpr size_t kMaxBytes = 255;

  // The one label with this text. Null and counted where there is no room.
  static const ProfileLabel* Intern(std::string_view text);
  static uint64_t dropped();

  static const ProfileLabel* Current();
  static void SetCurrent(const ProfileLabel* label);
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_PROFILE_LABELS_H_
