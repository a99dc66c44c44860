// The ring's group encoding, both ways, by plain recursion: the oracle for the
// packet encoder and for the rewriter, which works iteratively.
//
// A nested message opens with a start-group tag and closes with the byte 0x04;
// the packet itself has neither. Includes nothing of src/.
#ifndef TRACERING_TESTS_SUPPORT_GROUP_CODEC_H_
#define TRACERING_TESTS_SUPPORT_GROUP_CODEC_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tracering::test {

struct GroupField {
  uint32_t number = 0;
  // Wire type as in the tag: 0 varint, 1 eight bytes, 2 bytes with a length,
  // 3 nested message, 5 four bytes.
  uint32_t wire_type = 0;
  uint64_t value = 0;                // types 0, 1, 5
  std::string bytes;                 // type 2
  std::vector<GroupField> children;  // type 3
};

// The fields of a packet, or nothing where the encoding is broken; `error` then
// says how. Rejects all that a rewriter must reject: a closing byte at
// the root, an unclosed message, field numbers 0 and above 2^29-1, wire types
// 4, 6 and 7, varints of more than 10 bytes or 64 bits, lengths past the end,
// and more than `max_depth` messages inside each other.
std::optional<std::vector<GroupField>> ParseGroups(std::string_view packet,
                                                   std::string* error = nullptr,
                                                   int max_depth = 1024);

// Ordinary protobuf, every varint in its shortest form.
std::string ToProtobuf(const std::vector<GroupField>& fields);

// Both in one step.
std::optional<std::string> GroupsToProtobuf(std::string_view packet,
                                            std::string* error = nullptr,
                                            int max_depth = 1024);

// `message` in the ring's encoding.
std::string EncodeWithGroups(const google::protobuf::Message& message);

// Fills `message` with random fields of every type it has, nesting at most
// `max_depth` deep. The same state of `random` gives the same message.
void FillRandomly(google::protobuf::Message* message, std::mt19937_64& random,
                  int max_depth);

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_GROUP_CODEC_H_
