// The descriptor buffer: what it keys descriptors by, which ones stay when it
// is full, and what streams get to see.
#include "src/consumer/metadata_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/group_codec.h"
#include "tests/support/trace.pb.h"

namespace tracering::internal {
namespace {

using test::TracePacket;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = MetadataKey::Kind;

MetadataKey KeyOf(const std::string& packet) {
  // In memory of exactly its size, for the sanitizers.
  const auto exact = std::make_unique<uint8_t[]>(packet.size());
  std::copy(packet.begin(), packet.end(), exact.get());
  return MetadataKeyOf(exact.get(), packet.size());
}

std::string Track(uint64_t uuid, const std::string& name) {
  TracePacket packet;
  packet.set_timestamp(123456789);
  packet.mutable_track_descriptor()->set_name(name);
  packet.mutable_track_descriptor()->mutable_thread()->set_tid(77);
  packet.mutable_track_descriptor()->set_uuid(uuid);
  return test::EncodeWithGroups(packet);
}

std::string Process(int32_t pid) {
  TracePacket packet;
  packet.mutable_process_descriptor()->set_pid(pid);
  return test::EncodeWithGroups(packet);
}

std::string Thread(int32_t pid, int32_t tid) {
  TracePacket packet;
  packet.mutable_thread_descriptor()->set_pid(pid);
  packet.mutable_thread_descriptor()->set_tid(tid);
  return test::EncodeWithGroups(packet);
}

TEST(MetadataKeyTest, IsWhatTheDescriptorDescribes) {
  EXPECT_EQ(KeyOf(Track(0xfedc'ba98'7654'3210, "name")),
            (MetadataKey{Kind::kTrack, 0xfedc'ba98'7654'3210}));
  EXPECT_EQ(KeyOf(Process(42)), (MetadataKey{Kind::kProcess, 42}));
  EXPECT_EQ(KeyOf(Thread(42, 43)), (MetadataKey{Kind::kThread, 43}));
}

TEST(MetadataKeyTest, IdsOfMessagesInsideTheDescriptorDoNotCount) {
  // 60 { 3 { 1: 9 } 1: 5 4 { 1: 8 } }
  EXPECT_EQ(KeyOf("\xe3\x03\x1b\x08\x09\x04\x08\x05\x23\x08\x08\x04\x04"),
            (MetadataKey{Kind::kTrack, 5}));
}

TEST(MetadataKeyTest, DescriptorMayBePlainProtobuf) {
  // 60: { 1: 5, 3: { 1: 9 } } with lengths.
  EXPECT_EQ(KeyOf(std::string("\xe2\x03\x06\x08\x05\x1a\x02\x08\x09", 9)),
            (MetadataKey{Kind::kTrack, 5}));
}

TEST(MetadataKeyTest, FirstDescriptorOfAPacketDecides) {
  EXPECT_EQ(KeyOf(Process(42) + Track(7, "x")),
            (MetadataKey{Kind::kProcess, 42}));
}

TEST(MetadataKeyTest, DescriptorWithoutAnIdHasIdZero) {
  EXPECT_EQ(KeyOf("\xe3\x03\x04"), (MetadataKey{Kind::kTrack, 0}));
}

TEST(MetadataKeyTest, OtherPacketsHaveNone) {
  TracePacket packet;
  packet.set_timestamp(1);
  packet.mutable_track_event()->set_track_uuid(5);
  EXPECT_EQ(KeyOf(test::EncodeWithGroups(packet)).kind, Kind::kNone);
  EXPECT_EQ(KeyOf("").kind, Kind::kNone);
}

TEST(MetadataKeyTest, PacketThatCannotBeWalkedHasNone) {
  const std::string packet = Track(5, "name");
  for (size_t size = 0; size < packet.size(); ++size) {
    const std::string prefix = packet.substr(0, size);
    if (test::ParseGroups(prefix).has_value()) continue;
    EXPECT_EQ(KeyOf(prefix).kind, Kind::kNone) << size;
  }
  EXPECT_EQ(KeyOf(packet + "\x04").kind, Kind::kNone);
  EXPECT_EQ(KeyOf(packet + std::string(1, '\0')).kind, Kind::kNone);
  EXPECT_EQ(KeyOf(packet + "\x5c").kind, Kind::kNone);
  EXPECT_EQ(KeyOf(packet + "\x12\x7f").kind, Kind::kNone);
}

SequenceInfo Of(uint64_t producer, uint32_t sequence_id = 2) {
  SequenceInfo info;
  info.producer = producer;
  info.sequence_id = sequence_id;
  info.pid = static_cast<int32_t>(producer * 10);
  return info;
}

class MetadataBufferTest : public testing::Test {
 protected:
  explicit MetadataBufferTest(size_t size = 64 * 1024) : buffer_(size) {}

  MetadataOutcome Store(uint64_t producer, const std::string& packet) {
    return buffer_.Store(Of(producer),
                         reinterpret_cast<const uint8_t*>(packet.data()),
                         packet.size());
  }
  std::vector<std::string> Head() const {
    std::vector<MetadataPacket> packets;
    buffer_.CopySince(0, &packets);
    std::vector<std::string> bytes;
    for (const MetadataPacket& packet : packets) bytes.push_back(packet.bytes);
    return bytes;
  }

  MetadataBuffer buffer_;
};

TEST_F(MetadataBufferTest, NewestDescriptorOfAKeyWinsInItsPlace) {
  EXPECT_EQ(Store(1, Track(5, "old")), MetadataOutcome::kStored);
  EXPECT_EQ(Store(1, Track(6, "other")), MetadataOutcome::kStored);
  EXPECT_EQ(Store(2, Track(5, "of another producer")),
            MetadataOutcome::kStored);
  EXPECT_EQ(Store(1, Track(5, "a newer name")), MetadataOutcome::kStored);
  EXPECT_THAT(Head(), ElementsAre(Track(5, "a newer name"), Track(6, "other"),
                                  Track(5, "of another producer")));
  EXPECT_EQ(buffer_.num_packets(), 3u);
  EXPECT_EQ(buffer_.stats().packets_stored, 4u);
  EXPECT_EQ(buffer_.stats().packets_replaced, 1u);
  size_t bytes = 0;
  for (const std::string& packet : Head()) {
    bytes += packet.size() + MetadataBuffer::kEntryOverhead;
  }
  EXPECT_EQ(buffer_.bytes_used(), bytes);
}

TEST_F(MetadataBufferTest, StreamGetsWhatIsNewAndNothingTwice) {
  Store(1, Track(5, "a"));
  Store(1, Track(6, "b"));
  std::vector<MetadataPacket> packets;
  uint64_t generation = buffer_.CopySince(0, &packets);
  EXPECT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[0].sequence.pid, 10);
  EXPECT_EQ(packets[0].sequence.sequence_id, 2u);

  // A producer that reconnects sends everything again.
  EXPECT_EQ(Store(1, Track(5, "a")), MetadataOutcome::kUnchanged);
  packets.clear();
  generation = buffer_.CopySince(generation, &packets);
  EXPECT_THAT(packets, IsEmpty());

  Store(1, Track(7, "c"));
  Store(1, Track(5, "new"));
  packets.clear();
  generation = buffer_.CopySince(generation, &packets);
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[0].bytes, Track(5, "new"));
  EXPECT_EQ(packets[1].bytes, Track(7, "c"));
  packets.clear();
  EXPECT_EQ(buffer_.CopySince(generation, &packets), generation);
  EXPECT_THAT(packets, IsEmpty());
}

TEST_F(MetadataBufferTest, WhatIsNoDescriptorIsRefusedAndCounted) {
  EXPECT_EQ(Store(1, "\x40\x01"), MetadataOutcome::kNotDescriptor);
  EXPECT_EQ(Store(1, Track(1, std::string(40'000, 'x'))),
            MetadataOutcome::kTooLarge);
  EXPECT_EQ(buffer_.stats().packets_not_descriptor, 1u);
  EXPECT_EQ(buffer_.stats().packets_too_large, 1u);
  EXPECT_THAT(Head(), IsEmpty());
}

TEST_F(MetadataBufferTest, RejectedDescriptorIsDroppedAndCountedOnce) {
  Store(1, Track(5, "a"));
  Store(1, Track(6, "b"));
  std::vector<MetadataPacket> packets;
  buffer_.CopySince(0, &packets);
  const uint64_t bad = packets[0].generation;
  buffer_.Reject({bad});
  buffer_.Reject({bad});
  EXPECT_THAT(Head(), ElementsAre(Track(6, "b")));
  EXPECT_EQ(buffer_.stats().packets_rejected, 1u);
  // A newer one of the same key is not the one that was rejected.
  Store(1, Track(5, "c"));
  buffer_.Reject({bad});
  EXPECT_THAT(Head(), ElementsAre(Track(6, "b"), Track(5, "c")));
}

// Room for ten descriptors of this size.
class FullMetadataBufferTest : public MetadataBufferTest {
 protected:
  static std::string Ten(uint64_t uuid) {
    return Track(uuid, std::string(100, 'x'));
  }
  FullMetadataBufferTest()
      : MetadataBufferTest(
            10 * (Ten(100).size() + MetadataBuffer::kEntryOverhead)) {}

  void Fill(uint64_t producer, int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(Store(producer, Ten(100 + static_cast<uint64_t>(i))),
                MetadataOutcome::kStored);
    }
  }
  std::map<uint64_t, int> ByProducer() const {
    std::vector<MetadataPacket> packets;
    buffer_.CopySince(0, &packets);
    std::map<uint64_t, int> counts;
    for (const MetadataPacket& packet : packets) {
      ++counts[packet.sequence.producer];
    }
    return counts;
  }
};

// It once refused the newest: of threads that came and went, those of which
// packets were left had no names.
TEST_F(FullMetadataBufferTest, ProducerThatFilledItLosesWhatItToldLongestAgo) {
  Fill(1, 10);
  // Told again, like a thread that lives on.
  EXPECT_EQ(Store(1, Ten(101)), MetadataOutcome::kUnchanged);
  EXPECT_EQ(Store(1, Ten(120)), MetadataOutcome::kStored);
  EXPECT_EQ(Store(1, Ten(121)), MetadataOutcome::kStored);
  EXPECT_EQ(buffer_.stats().packets_displaced, 2u);
  EXPECT_LE(buffer_.bytes_used(), buffer_.size());
  EXPECT_THAT(Head(),
              ElementsAre(Ten(100), Ten(101), Ten(104), Ten(105), Ten(106),
                          Ten(107), Ten(108), Ten(109), Ten(120), Ten(121)));
  // A larger one takes the room of others, not its own.
  EXPECT_EQ(Store(1, Track(104, std::string(101, 'y'))),
            MetadataOutcome::kStored);
  EXPECT_THAT(
      Head(),
      ElementsAre(Ten(100), Ten(101), Track(104, std::string(101, 'y')),
                  Ten(106), Ten(107), Ten(108), Ten(109), Ten(120), Ten(121)));
  EXPECT_EQ(buffer_.stats().packets_refused, 0u);
}

TEST_F(FullMetadataBufferTest, WhatCannotFitDisplacesNothing) {
  Fill(1, 10);
  EXPECT_EQ(Store(1, Track(120, std::string(9000, 'x'))),
            MetadataOutcome::kFull);
  EXPECT_EQ(Store(1, Track(105, std::string(9000, 'y'))),
            MetadataOutcome::kFull);
  EXPECT_EQ(Head()[5], Ten(105)) << "the old one stays";
  EXPECT_EQ(buffer_.num_packets(), 10u);
  EXPECT_EQ(buffer_.stats().packets_refused, 2u);
  EXPECT_EQ(buffer_.stats().packets_displaced, 0u);
}

TEST_F(FullMetadataBufferTest, OldestStayWhereNoNewerPacketsAreKept) {
  Fill(1, 10);
  buffer_.set_keeps_oldest(true);
  EXPECT_EQ(Store(1, Ten(120)), MetadataOutcome::kFull);
  EXPECT_EQ(buffer_.stats().packets_refused, 1u);
  // What is there can be replaced by something no larger.
  EXPECT_EQ(Store(1, Track(105, std::string(100, 'y'))),
            MetadataOutcome::kStored);
  EXPECT_EQ(Store(1, Track(105, std::string(101, 'y'))),
            MetadataOutcome::kFull);
  EXPECT_EQ(Head()[5], Track(105, std::string(100, 'y')))
      << "the old one stays";
}

TEST_F(FullMetadataBufferTest, ForgottenProducersGoFirstAndOnlyAsFarAsNeeded) {
  Fill(1, 4);
  Fill(2, 3);
  Fill(3, 3);
  buffer_.Forget(2);
  buffer_.Forget(4);  // has nothing here
  EXPECT_EQ(Store(1, Ten(120)), MetadataOutcome::kStored);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 5}, {2, 2}, {3, 3}}));
  EXPECT_EQ(buffer_.stats().packets_evicted, 1u);
  EXPECT_EQ(Store(1, Ten(121)), MetadataOutcome::kStored);
  EXPECT_EQ(Store(1, Ten(122)), MetadataOutcome::kStored);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 7}, {3, 3}}));
  EXPECT_EQ(buffer_.stats().packets_displaced, 0u);
  EXPECT_EQ(Store(1, Ten(123)), MetadataOutcome::kStored);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 7}, {3, 3}}))
      << "over its share, it takes its own room";
}

TEST_F(FullMetadataBufferTest, NobodyCanFillItAtTheCostOfOthers) {
  Fill(1, 10);
  Fill(2, 5);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 5}, {2, 5}}));
  EXPECT_EQ(buffer_.stats().packets_displaced, 5u);
  EXPECT_EQ(Store(2, Ten(120)), MetadataOutcome::kStored);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 5}, {2, 5}}))
      << "over its share, it takes its own room";
  EXPECT_EQ(Store(3, Ten(120)), MetadataOutcome::kStored);
  EXPECT_EQ(Head().front(), Ten(100)) << "its first descriptor stays";
  EXPECT_LE(buffer_.bytes_used(), buffer_.size());
}

TEST_F(FullMetadataBufferTest, LargerReplacementMayTakeRoomFromOthers) {
  Fill(1, 9);
  Fill(2, 1);
  EXPECT_EQ(Store(2, Track(100, std::string(500, 'z'))),
            MetadataOutcome::kStored);
  EXPECT_LE(buffer_.bytes_used(), buffer_.size());
  EXPECT_EQ(ByProducer().at(2), 1);
  EXPECT_EQ(Head().back(), Track(100, std::string(500, 'z')));
}

TEST_F(FullMetadataBufferTest, ForgottenProducerThatWasDroppedIsNoTrouble) {
  Fill(1, 9);
  Fill(2, 1);
  buffer_.Forget(2);
  std::vector<MetadataPacket> packets;
  buffer_.CopySince(0, &packets);
  buffer_.Reject({packets.back().generation});
  EXPECT_EQ(Store(3, Ten(100)), MetadataOutcome::kStored);
  EXPECT_EQ(Store(3, Ten(101)), MetadataOutcome::kStored);
  EXPECT_EQ(ByProducer(), (std::map<uint64_t, int>{{1, 8}, {3, 2}}));
  EXPECT_EQ(buffer_.stats().packets_evicted, 0u);
}

}  // namespace
}  // namespace tracering::internal
