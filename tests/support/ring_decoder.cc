// All numbers are written out here a second time on purpose; see the header.
#include "tests/support/ring_decoder.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <utility>

namespace tracering::test {
namespace {

constexpr size_t kReadPos = 0;
constexpr size_t kWritePos = 64;
constexpr size_t kFirstChunk = 256;
constexpr size_t kChunkHeader = 6;

constexpr uint32_t kFree = 0;
constexpr uint32_t kAcquired = 1;
constexpr uint32_t kComplete = 2;
constexpr uint32_t kRewriteRequested = 3;
constexpr uint32_t kAcknowledged = 4;
constexpr uint32_t kAcknowledgedWord = 0x80000000;

uint32_t StateOf(uint32_t word) { return word >> 29; }
uint32_t FragmentsOf(uint32_t word) { return word >> 16 & 0xff; }

uint32_t LoadWord(const uint8_t* address) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(address),
                         __ATOMIC_SEQ_CST);
}

bool Exchange(uint8_t* address, uint32_t expected, uint32_t desired) {
  return __atomic_compare_exchange_n(reinterpret_cast<uint32_t*>(address),
                                     &expected, desired, /*weak=*/false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

size_t ChunkOffset(RingShape shape, uint32_t position) {
  return kFirstChunk + size_t{position % shape.num_chunks} * shape.chunk_size;
}

// The word under which the chunk of `position` is free for it.
uint32_t FreeTag(RingShape shape, uint32_t position) {
  return (position / shape.num_chunks) & 0x1fffffff;
}

// Copies what `word` says is published and cuts it up. Returns an empty string,
// or what is wrong. Touches no byte outside the published ranges, since the
// writer may be storing to those.
std::string ReadPublished(const uint8_t* chunk, RingShape shape, uint32_t word,
                          DecodedChunk* out) {
  out->word = word;
  out->writer = static_cast<uint16_t>(word & 0xffff);
  out->continues_from_previous = (word >> 26 & 1) != 0;
  out->continues_on_next = (word >> 25 & 1) != 0;
  out->data_loss = (word >> 24 & 1) != 0;
  if (out->writer == 0) return "writer id 0";
  if ((word >> 27 & 3) != 0) return "a format other than 00";
  const uint32_t count = FragmentsOf(word);
  if (count == 0) {
    // Nothing is published, so the buffer id may not be either.
    return StateOf(word) == kComplete ? "Complete without a fragment" : "";
  }
  const size_t width = shape.chunk_size == 256 ? 1 : 2;
  const size_t capacity = shape.chunk_size - kChunkHeader;
  const size_t directory_size = count * width;
  if (directory_size > capacity) return "directory larger than the chunk";
  const std::string directory(
      reinterpret_cast<const char*>(chunk) + shape.chunk_size - directory_size,
      directory_size);
  std::vector<size_t> sizes;
  size_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const char* entry = directory.data() + directory_size - (i + 1) * width;
    size_t size = static_cast<uint8_t>(entry[0]);
    if (width == 2) size += size_t{static_cast<uint8_t>(entry[1])} * 256;
    total += size;
    sizes.push_back(size);
  }
  if (total > capacity - directory_size) return "payload over the directory";
  out->buffer = static_cast<uint16_t>(chunk[4] + chunk[5] * 256);
  const char* payload = reinterpret_cast<const char*>(chunk) + kChunkHeader;
  for (size_t size : sizes) {
    out->fragments.emplace_back(payload, size);
    payload += size;
  }
  if (StateOf(word) == kAcquired && out->continues_on_next) {
    return "Acquired says that its last fragment continues";
  }
  return "";
}

std::string At(uint32_t position, uint32_t word, const std::string& what) {
  return fmt::format("position {} shows {:#010x}: {}", position, word, what);
}

}  // namespace

DecodedRing DecodeRing(const uint8_t* base, RingShape shape) {
  DecodedRing ring;
  ring.read_pos = LoadWord(base + kReadPos);
  ring.write_pos = LoadWord(base + kWritePos);
  const uint32_t distance = ring.write_pos - ring.read_pos;
  if (distance > shape.num_chunks) {
    ring.violations.push_back(
        fmt::format("read_pos {} and write_pos {} are more than {} chunks "
                    "apart",
                    ring.read_pos, ring.write_pos, shape.num_chunks));
    return ring;
  }
  for (uint32_t i = 0; i < shape.num_chunks; ++i) {
    const uint32_t position = ring.read_pos + i;
    const uint8_t* chunk = base + ChunkOffset(shape, position);
    const uint32_t word = LoadWord(chunk);
    const uint32_t state = StateOf(word);
    const bool outstanding = i < distance;
    const bool is_hole = (state == kFree && word == FreeTag(shape, position)) ||
                         state == kRewriteRequested ||
                         word == kAcknowledgedWord;
    if (is_hole) {
      if (outstanding) ring.holes.push_back(position);
      continue;
    }
    if (!outstanding || (state != kAcquired && state != kComplete)) {
      ring.violations.push_back(At(position, word, "may not stand there"));
      continue;
    }
    DecodedChunk decoded;
    decoded.position = position;
    const std::string wrong = ReadPublished(chunk, shape, word, &decoded);
    if (!wrong.empty()) ring.violations.push_back(At(position, word, wrong));
    if (decoded.fragments.empty()) {
      ring.holes.push_back(position);
    } else {
      ring.chunks.push_back(std::move(decoded));
    }
  }
  return ring;
}

void PacketJoiner::Violation(const DecodedChunk& chunk, const char* what) {
  violations_.push_back(fmt::format("position {}, writer {}: {}",
                                    chunk.position, chunk.writer, what));
}

void PacketJoiner::Add(const DecodedRing& ring) {
  for (const DecodedChunk& chunk : ring.chunks) Add(chunk);
  violations_.insert(violations_.end(), ring.violations.begin(),
                     ring.violations.end());
}

void PacketJoiner::Add(const DecodedChunk& chunk) {
  if (chunk.fragments.empty()) return;
  WriterState& writer = writers_[chunk.writer];
  bool skip_first = false;
  if (chunk.data_loss) {
    writer.after_loss = true;
    if (chunk.continues_from_previous) {
      Violation(chunk, "loss inside a packet that goes on");
    }
  }
  if (writer.open && (chunk.data_loss || !chunk.continues_from_previous)) {
    if (!chunk.data_loss) Violation(chunk, "the packet before never ended");
    writer.open = false;
    ++num_broken_off_;
  }
  if (chunk.continues_from_previous && !writer.open) {
    Violation(chunk, "continues a packet whose head is missing");
    skip_first = true;
  }
  if (writer.open && writer.partial.buffer != chunk.buffer) {
    Violation(chunk, "a packet's parts name different buffers");
  }
  const size_t count = chunk.fragments.size();
  for (size_t i = 0; i < count; ++i) {
    const bool goes_on = i + 1 == count && chunk.continues_on_next;
    if (i == 0 && skip_first) continue;
    if (!writer.open) {
      writer.partial = DecodedPacket();
      writer.partial.writer = chunk.writer;
      writer.partial.buffer = chunk.buffer;
    }
    writer.partial.bytes += chunk.fragments[i];
    ++writer.partial.num_fragments;
    writer.open = goes_on;
    if (goes_on) continue;
    writer.partial.after_loss = std::exchange(writer.after_loss, false);
    packets_.push_back(std::move(writer.partial));
  }
}

std::vector<DecodedPacket> PacketJoiner::PacketsOf(uint16_t writer) const {
  std::vector<DecodedPacket> result;
  for (const DecodedPacket& packet : packets_) {
    if (packet.writer == writer) result.push_back(packet);
  }
  return result;
}

bool PacketJoiner::HasPartial(uint16_t writer) const {
  const auto found = writers_.find(writer);
  return found != writers_.end() && found->second.open;
}

uint64_t PacketJoiner::num_unfinished() const {
  uint64_t count = num_broken_off_;
  for (const auto& [id, writer] : writers_) count += writer.open ? 1 : 0;
  return count;
}

ReferenceReader::ReferenceReader(uint8_t* base, RingShape shape)
    : base_(base), shape_(shape) {}

std::vector<std::string> ReferenceReader::violations() const {
  std::vector<std::string> all = violations_;
  all.insert(all.end(), joiner_.violations().begin(),
             joiner_.violations().end());
  return all;
}

size_t ReferenceReader::Drain() {
  if (!violations_.empty()) return 0;
  const uint32_t begin = LoadWord(base_ + kReadPos);
  const uint32_t end = LoadWord(base_ + kWritePos);
  if (end - begin > shape_.num_chunks) {
    violations_.push_back(
        fmt::format("{} positions are outstanding in {} "
                    "chunks",
                    end - begin, shape_.num_chunks));
    return 0;
  }
  for (uint32_t position = begin; position != end; ++position) {
    if (!ResolveOne(position)) return position - begin;
    auto* read_pos = reinterpret_cast<uint32_t*>(base_ + kReadPos);
    __atomic_store_n(read_pos, position + 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, read_pos, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  return end - begin;
}

// Returns false where the protocol is broken and the position stays unresolved.
// A lost exchange means that the writer moved on; it can do so only as often as
// it publishes, and the loop looks again.
bool ReferenceReader::ResolveOne(uint32_t position) {
  uint8_t* const chunk = base_ + ChunkOffset(shape_, position);
  const uint32_t next = FreeTag(shape_, position + shape_.num_chunks);
  for (;;) {
    const uint32_t word = LoadWord(chunk);
    const uint32_t state = StateOf(word);
    if (state == kRewriteRequested) {
      ++num_holes_;
      return true;
    }
    if (state == kFree || state == kAcknowledged) {
      const uint32_t legal =
          state == kFree ? FreeTag(shape_, position) : kAcknowledgedWord;
      if (word != legal) break;
      if (!Exchange(chunk, word, next)) {
        if (state == kAcknowledged) break;
        continue;
      }
      ++num_holes_;
      return true;
    }
    if (state != kAcquired && state != kComplete) break;
    DecodedChunk decoded;
    decoded.position = position;
    const std::string wrong = ReadPublished(chunk, shape_, word, &decoded);
    const uint32_t desired =
        state == kComplete ? next
                           : (word & 0x1fffffff) | (kRewriteRequested << 29);
    if (!Exchange(chunk, word, desired)) continue;
    if (state == kAcquired) ++num_rewrites_;
    if (!wrong.empty()) violations_.push_back(At(position, word, wrong));
    if (decoded.fragments.empty()) ++num_holes_;
    joiner_.Add(decoded);
    return true;
  }
  violations_.push_back(At(position, LoadWord(chunk), "may not stand there"));
  return false;
}

}  // namespace tracering::test
