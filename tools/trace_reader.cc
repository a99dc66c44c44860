// Framing and inflating; see trace_reader.h.
#include "tools/trace_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#ifdef TRACERING_WITH_ZLIB
#include <zlib.h>
#endif

#include "tools/field_reader.h"
#include "tracering/trace_fields.h"

namespace tracering::tools {
namespace {

constexpr size_t kReadSize = 256 * 1024;
constexpr char kPacketTag = 0x0a;

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(
    const std::string& path) {
  const int fd = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot open '{}'", path));
  }
  return std::unique_ptr<TraceReader>(new TraceReader(path, fd));
}

TraceReader::TraceReader(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

TraceReader::~TraceReader() { close(fd_); }

bool TraceReader::Next(std::string_view* packet) {
  while (status_.ok()) {
    if (!inflated_rest_.empty()) return NextCompressed(packet);
    if (!NextInFile(packet)) return false;
    std::string_view rest = *packet;
    Field field;
    if (!ReadField(&rest, &field) ||
        field.number != trace_packet::kCompressedPackets ||
        field.type != WireType::kLengthDelimited) {
      return true;
    }
    if (!Inflate(field.bytes)) return false;
  }
  return false;
}

bool TraceReader::Fill(size_t size) {
  if (buffer_.size() - next_ >= size) return true;
  buffer_offset_ += next_;
  buffer_.erase(0, next_);
  next_ = 0;
  while (buffer_.size() < size && !at_end_) {
    const size_t had = buffer_.size();
    // Grows with what is there, not with what a length claims.
    buffer_.resize(had + kReadSize);
    ssize_t got;
    do {
      got = read(fd_, buffer_.data() + had, kReadSize);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      status_ = absl::ErrnoToStatus(errno,
                                    fmt::format("'{}': cannot read on", path_));
    }
    at_end_ = got <= 0;
    buffer_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  return buffer_.size() >= size;
}

bool TraceReader::NextInFile(std::string_view* packet) {
  Fill(1 + kMaxVarintSize);
  std::string_view rest = std::string_view(buffer_).substr(next_);
  offset_ = buffer_offset_ + next_;
  if (rest.empty()) return false;
  if (rest.front() != kPacketTag) return Fail("is no packet of a trace");
  rest.remove_prefix(1);
  uint64_t length = 0;
  const bool complete = ReadVarint(&rest, &length);
  if (!complete && rest.size() >= kMaxVarintSize) {
    return Fail("has a length of more than 64 bits");
  }
  if (complete && length > kMaxPacketSize) {
    return Fail(
        fmt::format("claims to be a packet of {} bytes; at most {} are "
                    "accepted",
                    length, kMaxPacketSize));
  }
  const size_t header = buffer_.size() - next_ - rest.size();
  if (!complete || !Fill(header + static_cast<size_t>(length))) {
    if (status_.ok()) cut_bytes_ = buffer_.size() - next_;
    next_ = buffer_.size();
    return false;
  }
  *packet = std::string_view(buffer_).substr(next_ + header,
                                             static_cast<size_t>(length));
  next_ += header + static_cast<size_t>(length);
  return true;
}

bool TraceReader::NextCompressed(std::string_view* packet) {
  Field field;
  if (!ReadField(&inflated_rest_, &field) || field.number != 1 ||
      field.type != WireType::kLengthDelimited) {
    return Fail("holds something else than packets, compressed");
  }
  *packet = field.bytes;
  return true;
}

bool TraceReader::Inflate(std::string_view deflated) {
  inflated_.clear();
#ifdef TRACERING_WITH_ZLIB
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return Fail("could not be inflated");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(deflated.data()));
  stream.avail_in = static_cast<uInt>(deflated.size());
  int result = Z_OK;
  while (result == Z_OK && inflated_.size() <= kMaxPacketSize) {
    const size_t had = inflated_.size();
    inflated_.resize(had + kReadSize);
    stream.next_out = reinterpret_cast<Bytef*>(inflated_.data() + had);
    stream.avail_out = kReadSize;
    result = inflate(&stream, Z_NO_FLUSH);
    inflated_.resize(had + kReadSize - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END) return Fail("cannot be inflated");
  inflated_rest_ = inflated_;
  return true;
#else
  static_cast<void>(deflated);
  return Fail("is compressed, and this program was built without zlib");
#endif
}

bool TraceReader::Fail(std::string_view what) {
  status_ = absl::DataLossError(
      fmt::format("'{}': what begins at byte {} {}", path_, offset_, what));
  return false;
}

}  // namespace tracering::tools
