// The packets of a trace file, one after the other, those that it holds
// compressed included, whatever state the file is in.
//
// Trust: the file may be anything. Memory is bounded by one packet, which is
// refused beyond kMaxPacketSize, and what a compressed one holds.
#ifndef TRACERING_TOOLS_TRACE_READER_H_
#define TRACERING_TOOLS_TRACE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tracering::tools {

inline constexpr size_t kMaxPacketSize = size_t{256} << 20;

class TraceReader {
 public:
  // `path` may be "-" for standard input.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(
      const std::string& path);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  // The next packet, valid until the next call. False at the end: see status
  // and cut_bytes.
  bool Next(std::string_view* packet);

  // Not OK where reading ended at something that is no packet. What came before
  // is good.
  const absl::Status& status() const { return status_; }
  // How much there is of a last packet that is not all there.
  uint64_t cut_bytes() const { return cut_bytes_; }
  // Where the present packet, or the one that held it, begins in the file.
  uint64_t offset() const { return offset_; }
  // What was taken from the file so far; at its end its size.
  uint64_t bytes_read() const { return buffer_offset_ + buffer_.size(); }

 private:
  TraceReader(std::string path, int fd);

  // Makes at least `size` bytes available at next_, if there are so many.
  bool Fill(size_t size);
  bool NextInFile(std::string_view* packet);
  bool NextCompressed(std::string_view* packet);
  bool Inflate(std::string_view deflated);
  bool Fail(std::string_view what);

  const std::string path_;
  const int fd_;
  std::string buffer_;
  size_t next_ = 0;  // in the buffer
  bool at_end_ = false;
  uint64_t buffer_offset_ = 0;  // of the buffer in the file
  uint64_t offset_ = 0;
  std::string inflated_;
  std::string_view inflated_rest_;
  absl::Status status_;
  uint64_t cut_bytes_ = 0;
};

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_TRACE_READER_H_
