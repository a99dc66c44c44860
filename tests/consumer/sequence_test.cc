// The numbering of sequences: who stands behind one, when it is forgotten, and
// where an output marks that packets are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "src/consumer/sequence_progress.h"
#include "src/consumer/sequence_table.h"
#include "src/consumer/sparse_array.h"
#include "src/consumer/target_buffer.h"
#include "tests/consumer/chunk_fixture.h"

namespace tracering::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SparseArrayTest, ElementsAreFoundUntilTheyAreErased) {
  SparseArray<int> array;
  EXPECT_EQ(array.Find(0), nullptr);
  EXPECT_EQ(array.Find(1'000'000), nullptr);
  array.At(70) = 7;
  array.At(64) = 6;
  array.At(1'000'000) = 1;
  EXPECT_EQ(*array.Find(70), 7);
  EXPECT_EQ(array.Find(71), nullptr) << "a neighbour on the same page";
  std::vector<std::pair<uint32_t, int>> visited;
  array.ForEach([&visited](uint32_t index, int value) {
    visited.emplace_back(index, value);
  });
  EXPECT_THAT(visited, ElementsAre(std::pair(64u, 6), std::pair(70u, 7),
                                   std::pair(1'000'000u, 1)));
  array.Erase(70);
  array.Erase(70);
  array.Erase(5);
  EXPECT_EQ(array.Find(70), nullptr);
  EXPECT_EQ(*array.Find(64), 6);
  array.Erase(64);
  EXPECT_EQ(array.At(70), 0) << "a new element, on a new page";
}

TEST(SequenceTableTest, IdsAreUniqueAndNeverTheServicesOwn) {
  SequenceTable table;
  std::set<uint32_t> ids;
  for (int i = 0; i < 200; ++i) {
    const SequenceIndex sequence = table.Add(7, 1000, 42);
    const SequenceInfo* const info = table.Find(sequence);
    ASSERT_NE(info, nullptr);
    EXPECT_GT(info->sequence_id, kServiceSequenceId);
    EXPECT_EQ(info->uid, 1000);
    EXPECT_EQ(info->pid, 42);
    EXPECT_EQ(info->producer, 7u);
    ids.insert(info->sequence_id);
  }
  EXPECT_EQ(ids.size(), 200u);
}

TEST(SequenceTableTest, SequenceIsForgottenOnceItsProducerIsGoneAndItIsUnused) {
  SequenceTable table;
  const SequenceIndex live = table.Add(1, 0, 0);
  const SequenceIndex used = table.Add(2, 0, 0);
  const SequenceIndex unused = table.Add(2, 0, 0);
  std::vector<SequenceIndex> forgotten;
  std::vector<uint64_t> producers;
  const auto sweep = [&](std::set<SequenceIndex> in_use) {
    forgotten.clear();
    table.Sweep(
        [&](SequenceIndex sequence) { return in_use.count(sequence) != 0; },
        [&](SequenceIndex sequence) { forgotten.push_back(sequence); },
        [&](uint64_t producer) { producers.push_back(producer); });
  };
  sweep({});
  EXPECT_THAT(forgotten, IsEmpty()) << "no producer is gone";

  table.RetireProducer(2);
  sweep({used});
  EXPECT_THAT(forgotten, ElementsAre(unused));
  EXPECT_EQ(table.Find(unused), nullptr);
  EXPECT_NE(table.Find(used), nullptr);
  EXPECT_THAT(producers, IsEmpty());
  sweep({});
  EXPECT_THAT(forgotten, ElementsAre(used));
  EXPECT_THAT(producers, ElementsAre(2));
  EXPECT_NE(table.Find(live), nullptr);
  // An index is not used twice.
  EXPECT_GT(table.Add(3, 0, 0), unused);
}

TEST(SequenceProgressTest, LearnsWhoStandsBehindASequenceForGood) {
  SequenceTable table;
  const SequenceIndex sequence = table.Add(5, 1000, 42);
  auto buffer = *TargetBuffer::Create(4096, FillPolicy::kRing);
  buffer->Store(OwnedRun(sequence, {"x"}).run());
  ReadCursor cursor = buffer->BeginSnapshot();
  RecordSlice slice;
  ASSERT_TRUE(buffer->CopyRecords(&cursor, 4096, &slice));

  SequenceProgress progress;
  EXPECT_EQ(progress.At(sequence).info.sequence_id, 0u);
  progress.Learn(slice, table);
  table.RetireProducer(5);
  table.Sweep([](SequenceIndex) { return false; }, [](SequenceIndex) {},
              [](uint64_t) {});
  progress.Learn(slice, table);
  EXPECT_EQ(progress.At(sequence).info.pid, 42);
}

TEST(SequenceProgressTest, HolesInTheOrdinalsAreMarked) {
  SequenceProgress progress;
  SequenceProgress::Entry& entry = progress.At(3);
  const auto on_record = [&](uint64_t first, uint32_t count, LossMask loss) {
    return progress.OnRecord({first, 3, loss, count, 0}, &entry);
  };
  EXPECT_EQ(on_record(0, 2, 0), 0u);
  EXPECT_EQ(on_record(2, 1, MarkOf(LossCause::kRingFull)),
            MarkOf(LossCause::kRingFull));
  EXPECT_EQ(on_record(4, 1, 0), MarkOf(LossCause::kOverwritten));
  EXPECT_EQ(on_record(5, 1, 0), 0u);
  entry.pending = MarkOf(LossCause::kRejected);
  EXPECT_EQ(on_record(6, 1, 0), MarkOf(LossCause::kRejected));
  EXPECT_EQ(on_record(7, 1, 0), 0u);
  // An output that begins late lacks what came before.
  SequenceProgress late;
  EXPECT_EQ(late.OnRecord({7, 3, 0, 1, 0}, &late.At(3)),
            MarkOf(LossCause::kOverwritten));
}

}  // namespace
}  // namespace tracering::internal
