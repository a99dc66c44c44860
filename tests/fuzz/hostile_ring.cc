// See hostile_ring.h. Offsets and numbers that a script picks are brought into
// the mapping's range here, whatever they mean there.
#include "tests/fuzz/hostile_ring.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/common/abi/chunk_layout.h"
#include "src/common/abi/control_header.h"
#include "src/common/abi/state_word.h"

namespace tracering::test {
namespace {

using abi::State;

RingImageOptions ReadOptions(FuzzInput* input) {
  constexpr std::array<uint32_t, 4> kChunkSizes = {256, 512, 1024, 4096};
  RingImageOptions options;
  const uint8_t shape = input->Byte();
  options.num_chunks = 2u << (shape % 4);
  options.chunk_size = kChunkSizes[shape / 4 % 4];
  switch (shape / 16 % 4) {
    case 0:
      options.position = input->Byte();
      break;
    case 1:
      options.position = 0u - input->Byte();
      break;
    case 2:  // where the wrap counts of small rings roll over
      options.position = (options.num_chunks << 29) - input->Byte();
      break;
    case 3:
      options.position = input->Word32();
      break;
  }
  return options;
}

// Words that the reader writes, by offset in bytes.
constexpr std::array<size_t, 8> kReaderWords = {
    abi::kReadPosOffset,         abi::kReaderEpochOffset,
    abi::kReaderLossOffset,      abi::kReaderLossOffset + 4,
    abi::kReaderLeftOffset,      abi::kLeftPosOffset,
    abi::kWakeupThresholdOffset, abi::kReaderArmedOffset};

bool IsReaderWord(size_t offset) {
  constexpr size_t kLeft = abi::kLeftWriterLossOffset;
  return (offset >= kLeft && offset < kLeft + 4 * kNumWriterLossCauses) ||
         std::find(kReaderWords.begin(), kReaderWords.end(), offset) !=
             kReaderWords.end();
}

}  // namespace

HostileRing::HostileRing(FuzzInput* input)
    : input_(input),
      image_(RingImage::InMemfd(ReadOptions(input))),
      shadow_(image_.base(), image_.base() + image_.size()) {
  for (uint32_t i = 0; i < geometry().num_chunks(); ++i) {
    words_.push_back(image_.state_word(i));
  }
}

void HostileRing::SetWord32(size_t offset, uint32_t value) {
  image_.SetWord32(offset, value);
  std::memcpy(shadow_.data() + offset, &value, sizeof(value));
}

void HostileRing::SetWord64(size_t offset, uint64_t value) {
  image_.SetWord64(offset, value);
  std::memcpy(shadow_.data() + offset, &value, sizeof(value));
}

void HostileRing::SetState(uint32_t index, uint32_t word) {
  image_.set_state_word(index, word);
  words_[index] = word;
}

void HostileRing::WriteBytes(uint32_t index, size_t offset,
                             const std::string& bytes) {
  // Behind the state word, and within the chunk.
  const size_t chunk_size = geometry().chunk_size();
  offset = std::max<size_t>(offset % chunk_size, 4);
  const size_t size = std::min(bytes.size(), chunk_size - offset);
  uint8_t* const to = image_.chunk(index) + offset;
  std::memcpy(to, bytes.data(), size);
  std::memcpy(shadow_.data() + (to - image_.base()), bytes.data(), size);
}

uint32_t HostileRing::ForgedWord(uint32_t near) {
  switch (input_->Below(6)) {
    case 0:
      return near + static_cast<uint32_t>(static_cast<int8_t>(input_->Byte()));
    case 1:
      return input_->Word32();
    case 2:
      return 0;
    case 3:
      return 0xffff'ffff;
    case 4:
      return 1u << input_->Below(32);
    default:
      return near + 0x8000'0000;
  }
}

uint32_t HostileRing::ForgedState(uint32_t index) {
  const uint8_t what = input_->Byte();
  if (what == 0xff) return input_->Word32();
  const uint32_t state = what % 8;
  if (state == 0) {
    // Free for a traversal near to where the cursors are.
    const abi::Position position(image_.write_pos() +
                                 static_cast<int8_t>(input_->Byte()));
    return abi::FreeForWrap(geometry().WrapOf(position));
  }
  if (state == 4 && what < 0xf0) return abi::kAcknowledgedWord;
  constexpr std::array<uint32_t, 4> kWriters = {1, 2, 0, 0xffff};
  const uint8_t bears = input_->Byte();
  const uint32_t format = bears >= 0xf0 ? 1 + index % 3 : 0;
  return state << 29 | format << 27 | (bears & 7u) << 24 |
         uint32_t{input_->Byte()} << 16 | kWriters[bears / 8 % 4];
}

std::string HostileRing::ForgedFragment() {
  // Inside a 256-byte chunk four of them fit.
  const uint8_t what = input_->Byte();
  const size_t scale = geometry().chunk_size() / 256;
  switch (what % 4) {
    case 0:  // a good packet
      return std::string("\x40\x2a\x5a", 3) + static_cast<char>(what / 8) +
             std::string(what / 8, 'x');
    case 1:  // a descriptor
      return {'\xe3', '\x03', '\x08', static_cast<char>(what / 4), '\x04'};
    case 2:
      return input_->Bytes(what / 4 % 48);
    default:
      return std::string(what / 6 * scale, '\x04');
  }
}

void HostileRing::Publish() {
  constexpr std::array<uint16_t, 8> kBuffers = {1, 1, 1, 2, 2, 9, 7, 300};
  constexpr std::array<uint16_t, 4> kWriters = {1, 1, 2, 65535};
  ForgedChunk chunk;
  const uint8_t what = input_->Byte();
  chunk.writer = kWriters[what % 4];
  chunk.buffer = kBuffers[what / 4 % 8];
  chunk.flags = (what / 32u) << abi::kFlagsShift;
  for (uint32_t left = 1 + input_->Below(4); left != 0; --left) {
    chunk.fragments.push_back(ForgedFragment());
  }
  const uint32_t position = image_.Publish(chunk);
  const uint32_t index = geometry().IndexOf(abi::Position(position)).value();
  words_[index] = image_.state_word(index);
  SetWord32(abi::kWritePosOffset, position + 1);
  const uint8_t* const bytes = image_.chunk(index);
  std::copy(bytes, bytes + geometry().chunk_size(),
            shadow_.begin() + (bytes - image_.base()));
}

void HostileRing::AddFragment(uint32_t index, uint32_t word) {
  const uint32_t count = abi::NumFragmentsOf(word);
  const uint32_t width = geometry().dir_entry_size();
  const uint8_t* const chunk = image_.chunk(index);
  uint32_t cursor = abi::kPayloadStart;
  for (uint32_t i = 0; i < count && count < abi::MaxFragments(geometry());
       ++i) {
    cursor +=
        abi::LoadDirEntry(chunk + abi::DirEntryOffset(geometry(), i), width);
  }
  const std::string fragment = ForgedFragment();
  if (count >= abi::MaxFragments(geometry()) ||
      cursor + fragment.size() > abi::DirEntryOffset(geometry(), count)) {
    return SetState(index, abi::WithState(word, State::kComplete));
  }
  WriteBytes(index, cursor, fragment);
  std::array<uint8_t, 2> entry{};
  abi::StoreDirEntry(entry.data(), width,
                     static_cast<uint32_t>(fragment.size()));
  WriteBytes(index, abi::DirEntryOffset(geometry(), count),
             std::string(entry.begin(), entry.begin() + width));
  SetState(index, abi::WithState(word + (1u << abi::kNumFragmentsShift),
                                 State::kComplete));
}

void HostileRing::StepAsWriter(uint32_t index) {
  const uint32_t word = image_.state_word(index);
  switch (abi::StateOf(word)) {
    case State::kFreeForWrap:
      return SetState(index,
                      abi::MakeDataWord(State::kAcquired, WriterId(1), 0, 0));
    case State::kAcquired:
      return AddFragment(index, word);
    case State::kComplete:
      return SetState(index, abi::WithState(word, State::kAcquired));
    case State::kRewriteRequested:
      return SetState(index, abi::kAcknowledgedWord);
    default:
      return;
  }
}

void HostileRing::Mutate() {
  const uint8_t what = input_->Byte();
  switch (what % 10) {
    case 0: {
      const size_t offset = kReaderWords[what / 10 % kReaderWords.size()];
      return SetWord32(offset, ForgedWord(image_.Word32(offset)));
    }
    case 1: {
      constexpr std::array<size_t, 3> kWords = {abi::kWritePosOffset,
                                                abi::kNumWritersWaitingOffset,
                                                abi::kNumChunksOffset};
      const size_t offset = kWords[what / 10 % 3];
      return SetWord32(offset, ForgedWord(image_.Word32(offset)));
    }
    case 2:
      return SetWord64(abi::kWriterLossOffset + what / 10 % 8 * 8,
                       what >= 160 ? input_->Word64() : input_->Byte());
    case 3: {
      const uint32_t index = AnyChunk();
      return SetState(index, ForgedState(index));
    }
    case 4: {  // the directory
      const uint32_t index = AnyChunk();
      const size_t size = input_->Byte();
      return WriteBytes(index, geometry().chunk_size() - size,
                        std::string(size, static_cast<char>(input_->Byte())));
    }
    case 5: {
      const uint32_t index = AnyChunk();
      const size_t offset = input_->Word16();
      return WriteBytes(index, offset, input_->Bytes(what / 10));
    }
    case 6:
      return SetWord32(abi::kWritePosOffset, image_.write_pos() + 1);
    case 7:
      return Publish();
    default:
      return StepAsWriter(AnyChunk());
  }
}

bool HostileRing::AcceptTransition(uint32_t index, abi::Position position) {
  const uint32_t before = words_[index];
  const uint32_t after = image_.state_word(index);
  if (after == before) return true;
  if (geometry().IndexOf(position).value() != index) return false;
  words_[index] = after;
  const uint32_t next = abi::FreeForWrap(geometry().NextWrapOf(position));
  switch (abi::StateOf(before)) {
    case State::kAcquired:
      return after == abi::WithState(before, State::kRewriteRequested);
    case State::kComplete:
      return after == next;
    case State::kFreeForWrap:
      return before == abi::FreeForWrap(geometry().WrapOf(position)) &&
             after == next;
    case State::kAcknowledged:
      return before == abi::kAcknowledgedWord && after == next;
    default:
      return false;
  }
}

bool HostileRing::OnlyReaderWordsChanged() const {
  const uint8_t* const base = image_.base();
  for (size_t at = 0; at < abi::kControlHeaderSize; at += 4) {
    if (!IsReaderWord(at) && std::memcmp(base + at, &shadow_[at], 4) != 0) {
      return false;
    }
  }
  for (uint32_t i = 0; i < geometry().num_chunks(); ++i) {
    if (image_.state_word(i) != words_[i]) return false;
    const size_t begin = geometry().ChunkOffset(abi::ChunkIndex(i)) + 4;
    if (std::memcmp(base + begin, &shadow_[begin],
                    geometry().chunk_size() - 4) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace tracering::test
