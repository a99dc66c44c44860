// The file writer: the bytes of a file, and what is left of it when the disk
// fails at any byte, the process is killed, or the file is cut.
#include "src/consumer/trace_file_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/consumer/packet_compressor.h"
#include "src/consumer/target_buffer.h"
#include "tests/consumer/chunk_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/group_codec.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace.pb.h"
#include "tests/support/trace_file_checker.h"

namespace tracering::internal {
namespace {

namespace fs = std::filesystem;
using test::TracePacket;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSecond = 1'000'000'000;

// What a FakeSink did, which outlives it.
struct FakeDisk {
  std::string bytes;
  std::vector<size_t> writes;  // sizes that were asked for
  bool published = false;
  bool removed = false;
  int syncs = 0;

  // How it misbehaves.
  size_t space = SIZE_MAX;  // bytes that fit in all
  int full_error = ENOSPC;  // beyond; 0 makes Write return 0
  size_t most_per_write = SIZE_MAX;
  int interrupt_every = 0;  // every n-th write is an EINTR
  int truncate_error = 0;
  int sync_error = 0;
  int publish_error = 0;
};

class FakeSink : public FileSink {
 public:
  explicit FakeSink(FakeDisk* disk) : disk_(disk) {}

  ssize_t Write(const void* bytes, size_t size) override {
    disk_->writes.push_back(size);
    if (disk_->interrupt_every != 0 &&
        disk_->writes.size() % static_cast<size_t>(disk_->interrupt_every) ==
            0) {
      return -EINTR;
    }
    const size_t free =
        disk_->space - std::min(disk_->space, disk_->bytes.size());
    if (free == 0) return -disk_->full_error;
    const size_t taken = std::min({size, free, disk_->most_per_write});
    disk_->bytes.append(static_cast<const char*>(bytes), taken);
    return static_cast<ssize_t>(taken);
  }
  int Truncate(uint64_t size) override {
    if (disk_->truncate_error != 0) return disk_->truncate_error;
    disk_->bytes.resize(size);
    return 0;
  }
  int Sync() override {
    ++disk_->syncs;
    return disk_->sync_error;
  }
  int Publish() override {
    if (disk_->publish_error != 0) return disk_->publish_error;
    disk_->published = true;
    path_ = "final";
    return 0;
  }
  void Remove() override {
    if (!disk_->published) disk_->removed = true;
  }
  const std::string& path() const override { return path_; }

 private:
  FakeDisk* const disk_;
  std::string path_ = "temporary";
};

std::string EventPacket(uint64_t timestamp, const std::string& name) {
  TracePacket packet;
  packet.set_timestamp(timestamp);
  packet.mutable_track_event()->set_type(test::TrackEvent::TYPE_INSTANT);
  packet.mutable_track_event()->set_name(name);
  return test::EncodeWithGroups(packet);
}

MetadataPacket Descriptor(uint64_t generation, uint64_t uuid) {
  TracePacket packet;
  packet.mutable_track_descriptor()->set_uuid(uuid);
  packet.mutable_track_descriptor()->set_name("track");
  MetadataPacket metadata;
  metadata.generation = generation;
  metadata.sequence.sequence_id = 77;
  metadata.sequence.uid = 1000;
  metadata.sequence.pid = 42;
  metadata.bytes = test::EncodeWithGroups(packet);
  return metadata;
}

class TraceFileWriterTest : public testing::Test {
 protected:
  TraceFileWriterTest() {
    options_.read_clocks = [this] {
      ClockReadings clocks;
      clocks.boottime = now_;
      clocks.realtime = now_ + 1000 * kSecond;
      clocks.monotonic = now_ - kSecond;
      clocks.monotonic_raw = now_ - 2 * kSecond;
      return clocks;
    };
    options_.service_uid = 3;
    options_.service_pid = 4;
    sequence_ = table_.Add(1, 1000, 42);
    other_ = table_.Add(2, -2, 0);
  }

  std::unique_ptr<TraceFileWriter> MakeWriter() {
    return std::make_unique<TraceFileWriter>(std::make_unique<FakeSink>(&disk_),
                                             options_);
  }

  void Store(SequenceIndex sequence, const std::vector<std::string>& packets,
             LossMask loss = 0) {
    ASSERT_EQ(buffer_->Store(OwnedRun(sequence, packets, loss).run()).stored,
              packets.size());
  }

  // Everything that is in the buffer, as a slice that `progress` has learnt.
  RecordSlice Slice() {
    ReadCursor cursor = buffer_->BeginSnapshot();
    RecordSlice slice;
    buffer_->CopyRecords(&cursor, SIZE_MAX, &slice);
    progress_.Learn(slice, table_);
    return slice;
  }

  std::vector<TracePacket> Written() const {
    const test::TraceFile file = test::ReadTraceBytes(disk_.bytes);
    EXPECT_THAT(file.complaints, IsEmpty());
    EXPECT_EQ(file.cut_bytes, 0u);
    return file.packets;
  }

  FakeDisk disk_;
  uint64_t now_ = 100 * kSecond;
  TraceFileOptions options_;
  SequenceTable table_;
  SequenceIndex sequence_;
  SequenceIndex other_;
  std::unique_ptr<TargetBuffer> buffer_ =
      *TargetBuffer::Create(1 << 20, FillPolicy::kRing);
  SequenceProgress progress_;
};

TEST_F(TraceFileWriterTest, FileIsHeadThenPacketsThenStats) {
  auto writer = MakeWriter();
  ASSERT_TRUE(writer->Begin({Descriptor(1, 5)}, nullptr).ok());
  Store(sequence_, {EventPacket(now_, "a"), EventPacket(now_, "b")});
  Store(other_, {EventPacket(now_, "c")});
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  EXPECT_FALSE(disk_.published);
  ASSERT_TRUE(writer->Finish({}).ok());
  EXPECT_TRUE(disk_.published);
  EXPECT_EQ(disk_.syncs, 1);
  EXPECT_EQ(writer->path(), "final");

  const std::vector<TracePacket> packets = Written();
  ASSERT_EQ(packets.size(), 6u);
  EXPECT_EQ(packets[0].clock_snapshot().clocks(0).timestamp(), now_);
  EXPECT_EQ(packets[0].trusted_packet_sequence_id(), kServiceSequenceId);
  EXPECT_EQ(packets[0].trusted_uid(), 3);
  EXPECT_EQ(packets[0].trusted_pid(), 4);
  EXPECT_EQ(packets[1].track_descriptor().uuid(), 5u);
  EXPECT_EQ(packets[1].trusted_packet_sequence_id(), 77u);
  EXPECT_EQ(packets[2].track_event().name(), "a");
  EXPECT_EQ(packets[2].trusted_uid(), 1000);
  EXPECT_EQ(packets[2].trusted_pid(), 42);
  EXPECT_FALSE(packets[2].has_previous_packet_dropped());
  EXPECT_EQ(packets[3].track_event().name(), "b");
  EXPECT_EQ(packets[4].track_event().name(), "c");
  EXPECT_EQ(packets[4].trusted_uid(), -2);
  EXPECT_FALSE(packets[4].has_trusted_pid());
  EXPECT_NE(packets[4].trusted_packet_sequence_id(),
            packets[3].trusted_packet_sequence_id());
  EXPECT_TRUE(packets[5].has_trace_stats());
  EXPECT_EQ(packets[5].trusted_packet_sequence_id(), kServiceSequenceId);

  EXPECT_THAT(test::CheckTrace(test::ReadTraceBytes(disk_.bytes)), IsEmpty());
  EXPECT_EQ(writer->stats().packets, 3u);
  EXPECT_EQ(writer->stats().metadata_packets, 1u);
  EXPECT_EQ(writer->stats().service_packets, 2u);
  EXPECT_EQ(writer->stats().bytes, disk_.bytes.size());
}

TEST_F(TraceFileWriterTest, FrameIsTagLengthPacketStamp) {
  auto writer = MakeWriter();
  // 8: 5, 11 { 9: 3 }, after a loss.
  Store(sequence_, {"\x40\x05\x5b\x48\x03\x04"}, MarkOf(LossCause::kRingFull));
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const size_t head = disk_.bytes.size();
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const std::string expected(
      "\x0a\x12"
      "\x40\x05\x5a\x02\x48\x03"
      "\xd0\x02\x81\x02"  // 42: present, shared memory full
      "\x18\xe8\x07"      // 3: uid 1000
      "\x50\x02"          // 10: the first sequence
      "\xf8\x04\x2a",     // 79: pid 42
      20);
  EXPECT_EQ(disk_.bytes.substr(head), expected);
}

TEST_F(TraceFileWriterTest, LengthsOfEverySizeAreMinimal) {
  // Around the sizes where the length of the packet takes a byte more: with
  // the stamp, with the growth of the message in it, and with a loss mark.
  for (const size_t size : {90u, 16370u}) {
    for (size_t more = 0; more < 40; ++more) {
      disk_ = FakeDisk();
      auto writer = MakeWriter();
      const auto buffer = *TargetBuffer::Create(1 << 20, FillPolicy::kRing);
      buffer->Store(OwnedRun(sequence_,
                             {EventPacket(1, std::string(size + more, 'x'))},
                             more % 2 == 0 ? MarkOf(LossCause::kReadGap) : 0)
                        .run());
      ReadCursor cursor = buffer->BeginSnapshot();
      RecordSlice slice;
      ASSERT_TRUE(buffer->CopyRecords(&cursor, SIZE_MAX, &slice));
      SequenceProgress progress;
      progress.Learn(slice, table_);
      ASSERT_TRUE(writer->Append(slice, &progress, nullptr).ok());
      ASSERT_TRUE(writer->Flush().ok());
      const std::vector<TracePacket> packets = Written();
      test::Trace trace;
      for (const TracePacket& packet : packets) *trace.add_packet() = packet;
      // libprotobuf writes minimal lengths.
      EXPECT_EQ(trace.ByteSizeLong(), disk_.bytes.size());
      EXPECT_EQ(packets.back().track_event().name().size(), size + more);
    }
  }
}

TEST_F(TraceFileWriterTest, LossMarksAreOnTheFirstPacketOfTheirRun) {
  auto writer = MakeWriter();
  Store(sequence_, {EventPacket(1, "a"), EventPacket(2, "b")},
        MarkOf(LossCause::kReadGap));
  Store(sequence_, {EventPacket(3, "c")}, kLossMarked);
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const std::vector<TracePacket> packets = Written();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(packets[1].previous_packet_dropped(), 3u);
  EXPECT_FALSE(packets[2].has_previous_packet_dropped());
  EXPECT_EQ(packets[3].previous_packet_dropped(), 1u);
}

TEST_F(TraceFileWriterTest, RejectedPacketIsReportedAndMarkedOnTheNextOne) {
  auto writer = MakeWriter();
  const std::string bad = "\x04";
  const std::string forged = "\x18\x00";  // trusted_uid
  Store(sequence_, {bad, EventPacket(1, "a"), forged},
        MarkOf(LossCause::kReadGap));
  Store(other_, {EventPacket(2, "b")});
  Store(sequence_, {bad, EventPacket(3, "c")}, MarkOf(LossCause::kRingFull));
  std::vector<RejectedPacket> rejected;
  ASSERT_TRUE(writer->Append(Slice(), &progress_, &rejected).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const std::vector<TracePacket> packets = Written();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(packets[1].track_event().name(), "a");
  EXPECT_EQ(packets[1].previous_packet_dropped(),
            PerfettoDataLoss(MaskOf(LossCause::kReadGap) |
                             MaskOf(LossCause::kRejected)));
  EXPECT_FALSE(packets[2].has_previous_packet_dropped());
  EXPECT_EQ(packets[3].track_event().name(), "c");
  EXPECT_EQ(packets[3].previous_packet_dropped(),
            PerfettoDataLoss(MaskOf(LossCause::kRingFull) |
                             MaskOf(LossCause::kRejected)));
  ASSERT_EQ(rejected.size(), 3u);
  EXPECT_EQ(rejected[0].ordinal, 0u);
  EXPECT_EQ(rejected[0].reason, RewriteOutcome::kCloseAtRoot);
  EXPECT_EQ(rejected[1].ordinal, 2u);
  EXPECT_EQ(rejected[1].reason, RewriteOutcome::kServiceOnlyField);
  EXPECT_EQ(rejected[2].ordinal, 3u);
  EXPECT_EQ(rejected[2].sequence, sequence_);
  EXPECT_EQ(writer->stats().packets, 3u);
  const auto count = [&](RewriteOutcome outcome) {
    return writer->stats().by_outcome[static_cast<size_t>(outcome)];
  };
  EXPECT_EQ(count(RewriteOutcome::kCloseAtRoot), 2u);
  EXPECT_EQ(count(RewriteOutcome::kServiceOnlyField), 1u);
  EXPECT_EQ(count(RewriteOutcome::kOk), 3u);
}

TEST_F(TraceFileWriterTest, RejectedDescriptorIsReportedByGeneration) {
  auto writer = MakeWriter();
  MetadataPacket bad = Descriptor(9, 5);
  bad.bytes += "\x18\x01";
  std::vector<uint64_t> rejected;
  ASSERT_TRUE(
      writer->Begin({Descriptor(8, 4), bad, Descriptor(10, 6)}, &rejected)
          .ok());
  EXPECT_THAT(rejected, ElementsAre(9u));
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(Written().size(), 3u);
  EXPECT_EQ(writer->stats().metadata_packets, 2u);
}

TEST_F(TraceFileWriterTest, ClockSnapshotComesEveryTenSeconds) {
  auto writer = MakeWriter();
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  for (int i = 0; i < 25; ++i) {
    now_ += kSecond;
    ASSERT_TRUE(writer->AppendMetadata({}, nullptr).ok());
    ASSERT_TRUE(writer->Append(RecordSlice(), &progress_, nullptr).ok());
  }
  ASSERT_TRUE(writer->Flush().ok());
  std::vector<uint64_t> times;
  for (const TracePacket& packet : Written()) {
    times.push_back(packet.clock_snapshot().clocks(0).timestamp() / kSecond);
  }
  EXPECT_THAT(times, ElementsAre(100, 110, 120));
}

TEST_F(TraceFileWriterTest, SequenceThatWasNotLearntIsAnError) {
  auto writer = MakeWriter();
  Store(sequence_, {EventPacket(1, "a")});
  const RecordSlice slice = Slice();
  SequenceProgress ignorant;
  EXPECT_EQ(writer->Append(slice, &ignorant, nullptr).code(),
            absl::StatusCode::kInternal);
}

TEST_F(TraceFileWriterTest, MemoryIsBoundedByTheBufferAndOnePacket) {
  options_.buffer_size = 10'000;
  auto writer = MakeWriter();
  std::vector<std::string> packets(200, EventPacket(1, std::string(300, 'x')));
  Store(sequence_, packets);
  Store(sequence_, {EventPacket(2, std::string(50'000, 'y'))});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  }
  ASSERT_GT(disk_.writes.size(), 15u);
  for (const size_t size : disk_.writes) EXPECT_LT(size, 60'500u);
  EXPECT_LT(disk_.writes.front(), 10'500u);
  EXPECT_EQ(std::count_if(disk_.writes.begin(), disk_.writes.end(),
                          [](size_t size) { return size > 10'500; }),
            3);
}

TEST_F(TraceFileWriterTest, EachWriteEndsWithAWholePacket) {
  options_.buffer_size = 500;
  auto writer = MakeWriter();
  for (int i = 0; i < 100; ++i) Store(sequence_, {EventPacket(1, "event")});
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  size_t end = 0;
  for (const size_t size : disk_.writes) {
    end += size;
    EXPECT_EQ(test::ReadTraceBytes(disk_.bytes.substr(0, end)).cut_bytes, 0u);
  }
}

class TraceFileErrorTest : public TraceFileWriterTest {
 protected:
  TraceFileErrorTest() { options_.buffer_size = 120; }

  // Writes the same small file each time.
  absl::Status WriteFile() {
    progress_ = SequenceProgress();
    writer_ = MakeWriter();
    absl::Status status = writer_->Begin({Descriptor(1, 5)}, nullptr);
    status.Update(writer_->Append(Slice(), &progress_, nullptr));
    status.Update(writer_->Finish({}));
    return status;
  }

  void SetUp() override {
    for (uint64_t i = 0; i < 12; ++i) {
      Store(sequence_, {EventPacket(i, std::string(20 * i, 'x')), "\x04"});
    }
    ASSERT_TRUE(WriteFile().ok());
    whole_ = std::exchange(disk_, FakeDisk()).bytes;
    offsets_ = test::ReadTraceBytes(whole_).offsets;
    ASSERT_EQ(offsets_.size(), 15u);
    offsets_.push_back(whole_.size());
  }

  // The largest whole-packet boundary up to `size`.
  size_t BoundaryBefore(size_t size) const {
    return *std::prev(std::upper_bound(offsets_.begin(), offsets_.end(), size));
  }

  std::string whole_;
  std::vector<size_t> offsets_;
  std::unique_ptr<TraceFileWriter> writer_;
};

TEST_F(TraceFileErrorTest, FullDiskAtAnyByteKeepsEveryWholePacket) {
  for (size_t space = 0; space < whole_.size(); ++space) {
    disk_ = FakeDisk();
    disk_.space = space;
    const absl::Status status = WriteFile();
    ASSERT_FALSE(status.ok()) << space;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("temporary"), HasSubstr("write"),
                               HasSubstr("No space left on device")));
    ASSERT_EQ(disk_.bytes, whole_.substr(0, BoundaryBefore(space))) << space;
    EXPECT_EQ(writer_->stats().bytes, disk_.bytes.size());
    EXPECT_FALSE(disk_.published);
    EXPECT_EQ(disk_.removed, disk_.bytes.empty());
    if (!disk_.bytes.empty()) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(std::to_string(disk_.bytes.size()) + " bytes"));
    }
    EXPECT_EQ(writer_->status(), status);
    writer_.reset();
    EXPECT_EQ(disk_.removed, disk_.bytes.empty()) << "kept after an error";
  }
}

TEST_F(TraceFileErrorTest, ErrorIsFinalAndNothingMoreIsWritten) {
  disk_.space = 300;
  const absl::Status status = WriteFile();
  ASSERT_FALSE(status.ok());
  disk_.space = SIZE_MAX;
  const std::string before = disk_.bytes;
  const size_t writes = disk_.writes.size();
  EXPECT_EQ(writer_->Begin({}, nullptr), status);
  EXPECT_EQ(writer_->AppendMetadata({Descriptor(1, 2)}, nullptr), status);
  EXPECT_EQ(writer_->Append(Slice(), &progress_, nullptr), status);
  EXPECT_EQ(writer_->Flush(), status);
  EXPECT_EQ(writer_->Publish(), status);
  EXPECT_EQ(writer_->Finish({}), status);
  EXPECT_EQ(disk_.bytes, before);
  EXPECT_EQ(disk_.writes.size(), writes);
}

TEST_F(TraceFileErrorTest, OtherErrorsAreReportedAsWhatTheyAre) {
  disk_.space = 200;
  disk_.full_error = EIO;
  EXPECT_THAT(std::string(WriteFile().message()),
              HasSubstr("Input/output error"));
  disk_ = FakeDisk();
  disk_.space = 200;
  disk_.full_error = EFBIG;
  EXPECT_THAT(std::string(WriteFile().message()), HasSubstr("File too large"));
  // A write that takes nothing and says nothing does not spin.
  disk_ = FakeDisk();
  disk_.space = 200;
  disk_.full_error = 0;
  EXPECT_FALSE(WriteFile().ok());
}

TEST_F(TraceFileErrorTest, ShortAndInterruptedWritesGoOn) {
  for (const size_t most : {1u, 7u, 100u}) {
    disk_ = FakeDisk();
    disk_.most_per_write = most;
    disk_.interrupt_every = 3;
    ASSERT_TRUE(WriteFile().ok());
    EXPECT_EQ(disk_.bytes, whole_);
  }
}

TEST_F(TraceFileErrorTest, FileThatCannotBeCutIsReportedWithItsLength) {
  disk_.space = 300;
  disk_.truncate_error = EIO;
  const absl::Status status = WriteFile();
  EXPECT_EQ(disk_.bytes, whole_.substr(0, 300));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("first " + std::to_string(BoundaryBefore(300)) +
                        " bytes are whole packets"));
}

TEST_F(TraceFileErrorTest, FailedSyncOrRenameKeepsTheFileUnderItsName) {
  disk_.sync_error = EIO;
  absl::Status status = WriteFile();
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("temporary"), HasSubstr("sync"),
                             HasSubstr("Input/output error")));
  EXPECT_EQ(disk_.bytes, whole_);
  EXPECT_FALSE(disk_.published);
  writer_.reset();
  EXPECT_FALSE(disk_.removed);

  disk_ = FakeDisk();
  disk_.publish_error = EACCES;
  status = WriteFile();
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("temporary"), HasSubstr("rename"),
                             HasSubstr("Permission denied")));
  EXPECT_EQ(disk_.bytes, whole_);
  writer_.reset();
  EXPECT_FALSE(disk_.removed);
}

TEST_F(TraceFileErrorTest, SyncCanBeTurnedOff) {
  options_.sync_on_finish = false;
  disk_.sync_error = EIO;
  EXPECT_TRUE(WriteFile().ok());
  EXPECT_EQ(disk_.syncs, 0);
}

TEST_F(TraceFileErrorTest, AbandonedFileIsRemovedUnlessItWasPublished) {
  writer_ = MakeWriter();
  ASSERT_TRUE(writer_->Begin({}, nullptr).ok());
  writer_.reset();
  EXPECT_TRUE(disk_.removed);

  disk_ = FakeDisk();
  writer_ = MakeWriter();
  ASSERT_TRUE(writer_->Begin({}, nullptr).ok());
  ASSERT_TRUE(writer_->Publish().ok());
  EXPECT_TRUE(disk_.published);
  EXPECT_EQ(test::ReadTraceBytes(disk_.bytes).packets.size(), 1u)
      << "the head is there before the name is";
  writer_.reset();
  EXPECT_FALSE(disk_.removed);
}

TEST_F(TraceFileErrorTest, FileThatIsCutAnywhereLoadsUpToThere) {
  for (size_t size = 0; size <= whole_.size(); ++size) {
    const test::TraceFile file =
        test::ReadTraceBytes(std::string_view(whole_).substr(0, size));
    const size_t boundary = BoundaryBefore(size);
    ASSERT_EQ(file.cut_bytes, size - boundary) << size;
    ASSERT_EQ(file.packets.size(),
              static_cast<size_t>(
                  std::count_if(offsets_.begin() + 1, offsets_.end(),
                                [&](size_t end) { return end <= size; })));
  }
}

class RealFileTest : public TraceFileWriterTest {
 protected:
  std::unique_ptr<TraceFileWriter> Create() {
    auto writer = TraceFileWriter::Create(path_.string(), options_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  static std::string Contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const test::TempDir temp_dir_;
  const fs::path directory_{temp_dir_.path()};
  const fs::path path_{directory_ / "out.pftrace"};
};

TEST_F(RealFileTest, AppearsWhenItIsWholeAndReplacesAnOlderOne) {
  std::ofstream(path_) << "older";
  Store(sequence_, {EventPacket(1, "a")});
  auto writer = Create();
  EXPECT_EQ(fs::path(writer->path()).parent_path(), directory_);
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(Contents(path_), "older");
  ASSERT_TRUE(writer->Finish({}).ok());
  EXPECT_EQ(writer->path(), path_);
  EXPECT_THAT(Names(), ElementsAre("out.pftrace"));
  const test::TraceFile file = test::ReadTraceFile(path_.string());
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_EQ(file.packets.size(), 3u);
  struct stat stat {};
  ASSERT_EQ(::stat(path_.c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 0777, 0600u);
}

TEST_F(RealFileTest, AbandonedFileLeavesNothing) {
  auto writer = Create();
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(Names().size(), 1u);
  writer.reset();
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(RealFileTest, OnlyRegularFilesAreReplaced) {
  fs::create_directory(path_);
  const auto directory = TraceFileWriter::Create(path_.string(), options_);
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(directory.status().message()),
              HasSubstr(path_.string()));
  const auto device = TraceFileWriter::Create("/dev/null", options_);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TraceFileWriter::Create("", options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto nowhere =
      TraceFileWriter::Create((directory_ / "no" / "file").string(), options_);
  EXPECT_THAT(std::string(nowhere.status().message()),
              HasSubstr("No such file or directory"));
}

// The file size limit is per process and its signal kills by default.
TEST_F(RealFileTest, FileSizeLimitIsAnErrorAndDoesNotKill) {
  Store(sequence_, {EventPacket(1, std::string(1000, 'x')),
                    EventPacket(2, std::string(1000, 'y'))});
  const RecordSlice slice = Slice();
  auto child = test::ChildProcess::Fork([&]() -> int {
    const rlimit limit = {5000, 5000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    auto writer = TraceFileWriter::Create(path_.string(), options_);
    if (!writer.ok()) return 2;
    for (int i = 0; i < 3; ++i) {
      if (!(*writer)->Append(slice, &progress_, nullptr).ok()) return 3;
    }
    const absl::Status status = (*writer)->Flush();
    if (status.ok()) return 4;
    if (status.message().find("File too large") ==
        decltype(status.message())::npos) {
      return 5;
    }
    // Unblocked again, and nothing is left pending that could kill later.
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    if (sigismember(&set, SIGXFSZ) != 0) return 6;
    sigpending(&set);
    if (sigismember(&set, SIGXFSZ) != 0) return 7;
    return 0;
  });
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, 0);
  EXPECT_EQ(exit->code, 0);
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_THAT(names[0], HasSubstr("out.pftrace."));
  const test::TraceFile file =
      test::ReadTraceFile((directory_ / names[0]).string());
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_EQ(file.cut_bytes, 0u);
  EXPECT_EQ(file.packets.size(), 5u) << "clocks and four packets of 1000";
}

TEST_F(RealFileTest, StreamCanBeFoundWhileItGrowsAndAfterAKill) {
  Store(sequence_, {EventPacket(1, "a")});
  const RecordSlice slice = Slice();
  auto child = test::ChildProcess::Fork([&]() -> int {
    auto writer = TraceFileWriter::Create(path_.string(), options_);
    if (!writer.ok() || !(*writer)->Begin({Descriptor(1, 5)}, nullptr).ok() ||
        !(*writer)->Publish().ok()) {
      return 1;
    }
    for (int i = 0; i < 10; ++i) {
      if (!(*writer)->Append(slice, &progress_, nullptr).ok() ||
          !(*writer)->Flush().ok()) {
        return 2;
      }
    }
    raise(SIGKILL);
    return 3;
  });
  const auto exit = child.Wait();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_THAT(Names(), ElementsAre("out.pftrace"));
  const test::TraceFile file = test::ReadTraceFile(path_.string());
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_EQ(file.cut_bytes, 0u);
  EXPECT_EQ(file.packets.size(), 12u);
}

// --- Files with a limit, and compressed ones ---

// The files that one writer writes, each on a disk of its own.
class LimitedFilesTest : public TraceFileWriterTest {
 protected:
  std::unique_ptr<TraceFileWriter> MakeLimitedWriter(
      std::vector<MetadataPacket> descriptors) {
    auto writer = MakeWriter();
    files_.push_back(&disk_);
    writer->set_on_full([this, descriptors, raw = writer.get()] {
      absl::Status status = raw->EndFile({});
      if (!status.ok()) return status;
      more_.push_back(std::make_unique<FakeDisk>());
      more_.back()->space = space_of_next_;
      files_.push_back(more_.back().get());
      raw->StartFile(std::make_unique<FakeSink>(files_.back()));
      return raw->Begin(descriptors, nullptr);
    });
    EXPECT_TRUE(writer->Begin(descriptors, nullptr).ok());
    return writer;
  }

  // The names of events in the files, which are good, one after the other.
  std::string NamesInFiles() {
    std::string names;
    for (const FakeDisk* disk : files_) {
      const test::TraceFile file = test::ReadTraceBytes(disk->bytes);
      EXPECT_THAT(test::CheckTrace(file, {true, true, false, false}),
                  IsEmpty());
      for (const TracePacket& packet : file.packets) {
        if (packet.has_track_event()) names += packet.track_event().name()[0];
      }
    }
    return names;
  }

  std::vector<FakeDisk*> files_;
  std::vector<std::unique_ptr<FakeDisk>> more_;
  size_t space_of_next_ = SIZE_MAX;
};

TEST_F(LimitedFilesTest, NoFileExceedsTheLimitAndEachHasAHead) {
  options_.max_file_bytes = 4096;
  options_.max_stats_bytes = MaxTraceStatsSize(0);
  auto writer = MakeLimitedWriter({Descriptor(1, 5)});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    expected += letter;
    Store(sequence_, {EventPacket(now_, std::string(200, letter))});
  }
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Finish({}).ok());
  ASSERT_GT(files_.size(), 5u);
  size_t bytes = 0;
  for (const FakeDisk* disk : files_) {
    EXPECT_LE(disk->bytes.size(), 4096u);
    if (disk != files_.back()) {
      EXPECT_GT(disk->bytes.size(), 3000u);
    }
    bytes += disk->bytes.size();
    EXPECT_TRUE(
        test::ReadTraceBytes(disk->bytes).packets[1].has_track_descriptor());
  }
  EXPECT_EQ(NamesInFiles(), expected);
  EXPECT_EQ(writer->stats().files, files_.size());
  EXPECT_EQ(writer->stats().packets, 100u);
  EXPECT_EQ(writer->stats().bytes, bytes);
}

// Descriptors could fill every file, and a packet need not fit into any.
TEST_F(LimitedFilesTest, LargeHeadsAndPacketsDoNotStopIt) {
  options_.max_file_bytes = 4096;
  std::vector<MetadataPacket> head;
  for (uint64_t i = 1; i <= 200; ++i) head.push_back(Descriptor(i, i));
  auto writer = MakeLimitedWriter(head);
  Store(sequence_,
        {EventPacket(now_, std::string(1500, 'a')),
         EventPacket(now_, std::string(1500, 'b')),
         EventPacket(now_, std::string(9000, 'c')), EventPacket(now_, "d")});
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Finish({}).ok());
  EXPECT_EQ(NamesInFiles(), "abcd");
  EXPECT_EQ(files_.size(), 4u);
}

TEST_F(LimitedFilesTest, NextFileThatFailsKeepsTheOnesBefore) {
  options_.max_file_bytes = 4096;
  space_of_next_ = 10;
  auto writer = MakeLimitedWriter({});
  for (int i = 0; i < 30; ++i) {
    Store(sequence_, {EventPacket(now_, std::string(200, 'a'))});
  }
  absl::Status status = writer->Append(Slice(), &progress_, nullptr);
  if (status.ok()) status = writer->Finish({});
  EXPECT_THAT(std::string(status.message()), HasSubstr("write"));
  EXPECT_EQ(writer->Finish({}), status);
  ASSERT_EQ(files_.size(), 2u);
  EXPECT_THAT(test::CheckTrace(test::ReadTraceBytes(disk_.bytes)), IsEmpty());
  EXPECT_TRUE(files_[1]->removed);
}

TEST_F(LimitedFilesTest, CompressedFilesHaveTheSamePacketsAndKeepTheLimit) {
  if (!CanCompressPackets()) GTEST_SKIP() << "built without zlib";
  options_.compress = true;
  options_.max_file_bytes = 4096;
  auto writer = MakeLimitedWriter({Descriptor(1, 5)});
  std::string expected;
  std::string noise;  // does not get much shorter
  uint32_t state = 1;
  for (int i = 0; i < 300; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    expected += letter;
    noise = letter;
    for (int k = 0; k < 100; ++k) {
      state = state * 1664525 + 1013904223;
      noise += static_cast<char>('a' + (state >> 28));
    }
    Store(sequence_, {EventPacket(now_, noise)});
  }
  ASSERT_TRUE(writer->Append(Slice(), &progress_, nullptr).ok());
  ASSERT_TRUE(writer->Finish({}).ok());
  size_t bytes = 0;
  for (const FakeDisk* disk : files_) {
    EXPECT_LE(disk->bytes.size(), 4096u);
    if (disk != files_.back()) {
      EXPECT_GT(disk->bytes.size(), 3000u);
    }
    EXPECT_GT(test::ReadTraceBytes(disk->bytes).compressed_packets, 0u);
    bytes += disk->bytes.size();
  }
  EXPECT_EQ(NamesInFiles(), expected);
  EXPECT_EQ(writer->stats().bytes, bytes);
  EXPECT_LT(bytes, 300u * 100);
}

TEST_F(LimitedFilesTest, FullDiskKeepsWholeCompressedPackets) {
  if (!CanCompressPackets()) GTEST_SKIP() << "built without zlib";
  options_.compress = true;
  disk_.space = 500;
  auto writer = MakeWriter();
  ASSERT_TRUE(writer->Begin({}, nullptr).ok());
  absl::Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) {
    Store(sequence_, {EventPacket(now_, std::string(500, 'a'))});
    status = writer->Append(Slice(), &progress_, nullptr);
    if (status.ok()) status = writer->Flush();
  }
  ASSERT_FALSE(status.ok());
  const test::TraceFile file = test::ReadTraceBytes(disk_.bytes);
  EXPECT_THAT(file.complaints, IsEmpty());
  EXPECT_EQ(file.cut_bytes, 0u);
  EXPECT_GT(file.compressed_packets, 1u);
}

}  // namespace
}  // namespace tracering::internal
