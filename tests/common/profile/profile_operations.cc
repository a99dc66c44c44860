// The model, and the interpreter of operations; see profile_operations.h.
#include "tests/common/profile/profile_operations.h"

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tracering/profile_buffer.h"

namespace tracering::test {
namespace {

using Words = std::vector<uint64_t>;

struct ModelRead {
  ProfileReadOutcome outcome = ProfileReadOutcome::kEmpty;
  Words data;
  Words tags;
};

class Model {
 public:
  Model(size_t header_words, size_t data_words, size_t tags)
      : header_words_(header_words), data_words_(data_words), tags_(tags) {}

  ProfileWriteOutcome Write(uint64_t tag, uint64_t time, const Words& header,
                            const std::vector<uintptr_t>& stack) {
    if (header.size() > header_words_) return ProfileWriteOutcome::kRefused;
    if (closed_) return ProfileWriteOutcome::kClosed;
    if (dropped_ != 0 && HasRoom({1, stack.size()})) {
      Append(0, first_drop_, {}, {dropped_});
      dropped_ = 0;
    } else if (dropped_ != 0 || !HasRoom({stack.size()})) {
      if (dropped_++ == 0) first_drop_ = time;
      return ProfileWriteOutcome::kDropped;
    }
    Append(tag, time, header, stack);
    return ProfileWriteOutcome::kWritten;
  }

  void Close() { closed_ = true; }

  ModelRead Read() {
    if (ended_) return {ProfileReadOutcome::kEnd, {}, {}};
    given_back_data_ = read_data_;
    given_back_tags_ = read_tags_;
    if (read_tags_ == records_.size()) {
      if (dropped_ != 0) {
        const Words record = Frame(first_drop_, {}, {dropped_});
        dropped_ = 0;
        return {ProfileReadOutcome::kRecords, record, {0}};
      }
      ended_ = closed_;
      return {closed_ ? ProfileReadOutcome::kEnd : ProfileReadOutcome::kEmpty,
              {},
              {}};
    }
    ModelRead read;
    read.outcome = ProfileReadOutcome::kRecords;
    do {
      const Record& record = records_[read_tags_++];
      read.data.insert(read.data.end(), record.words.begin(),
                       record.words.end());
      read.tags.push_back(record.tag);
      read_data_ = record.begin + record.words.size();
      // To the end of either ring, or of what is used of it.
    } while (read_tags_ < records_.size() && read_tags_ % tags_ != 0 &&
             records_[read_tags_].begin % data_words_ != 0);
    return read;
  }

 private:
  struct Record {
    uint64_t begin;
    Words words;
    uint64_t tag;
  };

  Words Frame(uint64_t time, const Words& header,
              const std::vector<uintptr_t>& stack) const {
    Words words = {2 + header_words_ + stack.size(), time};
    words.insert(words.end(), header.begin(), header.end());
    words.resize(2 + header_words_);
    words.insert(words.end(), stack.begin(), stack.end());
    return words;
  }

  // Where a record of this size would begin behind `end`.
  uint64_t PlaceBehind(uint64_t end, size_t size) const {
    const uint64_t left = data_words_ - end % data_words_;
    return size > left ? end + left : end;
  }

  bool HasRoom(std::initializer_list<size_t> stacks) const {
    uint64_t end = written_data_;
    for (const size_t stack : stacks) {
      const size_t size = 2 + header_words_ + stack;
      if (size > data_words_) return false;
      end = PlaceBehind(end, size) + size;
    }
    return end - given_back_data_ <= data_words_ &&
           records_.size() + stacks.size() - given_back_tags_ <= tags_;
  }

  void Append(uint64_t tag, uint64_t time, const Words& header,
              const std::vector<uintptr_t>& stack) {
    Record record{0, Frame(time, header, stack), tag};
    record.begin = PlaceBehind(written_data_, record.words.size());
    written_data_ = record.begin + record.words.size();
    records_.push_back(std::move(record));
  }

  const size_t header_words_;
  const size_t data_words_;
  const size_t tags_;
  std::vector<Record> records_;
  uint64_t written_data_ = 0;
  uint64_t read_data_ = 0;
  size_t read_tags_ = 0;
  uint64_t given_back_data_ = 0;
  size_t given_back_tags_ = 0;
  uint64_t dropped_ = 0;
  uint64_t first_drop_ = 0;
  bool closed_ = false;
  bool ended_ = false;
};

}  // namespace

std::string RunProfileOperations(const uint8_t* bytes, size_t size) {
  size_t at = 0;
  const auto next = [&]() -> uint8_t { return at < size ? bytes[at++] : 0; };
  ProfileBufferOptions options;
  options.header_words = next() % 3;
  options.data_words = next() % 80;
  options.tags = next() % 10;
  auto buffer = ProfileBuffer::Create(options);
  if (!buffer.ok()) return std::string(buffer.status().message());
  Model model(options.header_words, (*buffer)->data_words(), (*buffer)->tags());
  for (uint64_t time = 1; at < size; ++time) {
    const uint8_t operation = next();
    if (operation == 255) {
      (*buffer)->Close();
      model.Close();
    } else if (operation % 3 == 0) {
      const ProfileRecords real =
          (*buffer)->Read(ProfileReadMode::kNonBlocking);
      const ModelRead expected = model.Read();
      const Words data(real.data, real.data + real.data_words);
      const Words tags(real.tags, real.tags + real.num_tags);
      if (real.outcome != expected.outcome || data != expected.data ||
          tags != expected.tags) {
        return fmt::format("step {}: read [{}] tags [{}], not [{}] tags [{}]",
                           time, fmt::join(data, " "), fmt::join(tags, " "),
                           fmt::join(expected.data, " "),
                           fmt::join(expected.tags, " "));
      }
    } else {
      const Words header(operation % 4, time * 1000);
      const std::vector<uintptr_t> stack(next() % 20, time);
      const uint64_t tag = operation % 5;
      const ProfileWriteOutcome real = (*buffer)->Write(
          tag, time, header.data(), header.size(), stack.data(), stack.size());
      const ProfileWriteOutcome expected =
          model.Write(tag, time, header, stack);
      if (real != expected) {
        return fmt::format("step {}: write said {}, not {}", time,
                           static_cast<int>(real), static_cast<int>(expected));
      }
    }
  }
  return "";
}

}  // namespace tracering::test
