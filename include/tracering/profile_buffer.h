// A lock-free buffer of profiling events between one writer, which may be a
// signal handler, and one reader.
//
// An event is a time, a header of fixed size, a stack of any size and a tag.
// In the data ring it takes 2 + header_words + stack words:
//
//   +-------------+------+-----------------------+-----------------+
//   | record size | time | header (zero-filled)  | stack, 0..n     |
//   | in words    |      | header_words          |                 |
//   +-------------+------+-----------------------+-----------------+
//
// and in the tag ring one word. What finds no room is dropped and counted; one
// record tells how many events were dropped and when the first of them came:
// its header is zero, its stack is the one word with the count, its tag is 0.
//
// Threading: at most one Write and one Read at a time. Write and Close may
// interrupt any code on any thread, Read included. A second writer at the same
// time (signal handlers of several threads) has to be kept out by the caller.
// Nothing here is shared with other processes.
//
// docs/profile-buffer.md argues each atomic operation.
#ifndef TRACERING_PROFILE_BUFFER_H_
#define TRACERING_PROFILE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tracering/export.h"

namespace tracering {

struct ProfileBufferOptions {
  // Words of each record's header.
  size_t header_words = 1;
  // Words of the data ring and of the tag ring, below 2^28 each; rounded up to
  // a power of two. The data ring is at least large enough for one record of
  // dropped events.
  size_t data_words = size_t{1} << 17;
  size_t tags = size_t{1} << 14;
  // A reader that waits is woken when so many words can be read, and always
  // for dropped events and at the end. 0 and 1: by each write.
  size_t wake_threshold_words = 0;
};

enum class ProfileWriteOutcome {
  kWritten,
  kDropped,  // no room: counted, and told to the reader by a record
  kClosed,   // after Close: ignored
  kRefused,  // the header is longer than header_words; counted in the stats
};

enum class ProfileReadMode { kBlocking, kNonBlocking };

enum class ProfileReadOutcome {
  kRecords,    // one or more whole records
  kEmpty,      // kNonBlocking only: nothing now
  kEnd,        // closed, and all was read; now and for good
  kMalformed,  // somebody wrote over the buffer; now and for good
};

// Records and their tags, one each. They lie in the buffer, or beside it, and
// stay as they are until the next Read, which gives their room back.
struct ProfileRecords {
  ProfileReadOutcome outcome = ProfileReadOutcome::kEmpty;
  const uint64_t* data = nullptr;
  size_t data_words = 0;
  const uint64_t* tags = nullptr;
  size_t num_tags = 0;
};

struct ProfileBufferStats {
  uint64_t refused_writes = 0;
  uint64_t ignored_closes = 0;
};

class TRACERING_EXPORT ProfileBuffer {
 public:
  // INVALID_ARGUMENT names the value and the limit that it breaks.
  static absl::StatusOr<std::unique_ptr<ProfileBuffer>> Create(
      const ProfileBufferOptions& options);

  ProfileBuffer(const ProfileBuffer&) = delete;
  ProfileBuffer& operator=(const ProfileBuffer&) = delete;
  // Nobody writes, reads or waits any more.
  ~ProfileBuffer();

  // --- The writer ---
  // Async-signal-safe and lock-free; nothing is allocated or logged, and errno
  // is kept.

  // Adds a record. `tag`: 0 for none. Missing header words are 0.
  ProfileWriteOutcome Write(uint64_t tag, uint64_t time, const uint64_t* header,
                            size_t header_words, const uintptr_t* stack,
                            size_t stack_words) noexcept;

  // Nothing will be written any more: the reader ends when it has read all.
  // Closing again is ignored and counted.
  void Close() noexcept;

  // --- The reader ---

  // Gives back what the last call returned, and returns what there is. Blocks,
  // in a futex, in kBlocking mode only. Events that come while a record of
  // dropped events is due are behind it.
  ProfileRecords Read(ProfileReadMode mode) noexcept;

  // --- Any thread ---

  ProfileBufferStats stats() const noexcept;
  // After rounding.
  size_t data_words() const noexcept;
  size_t tags() const noexcept;

 private:
  class Impl;
  explicit ProfileBuffer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tracering

#endif  // TRACERING_PROFILE_BUFFER_H_
