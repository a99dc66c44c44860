// The life of a ring and of its writers; see managed_ring.h.
#include "src/producer/managed_ring.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "absl/status/status.h"
#include "src/common/os/memfd.h"
#include "src/common/os/shared_mapping.h"
#include "src/producer/containment.h"

namespace tracering::internal {

ManagedWriter::ManagedWriter() {
  writer_.emplace(ProducerRing::Nowhere(), WriterLease(), BufferId(),
                  WriterOptions());
}

ManagedWriter::ManagedWriter(std::shared_ptr<ManagedRing> home,
                             WriterLease lease, BufferId buffer,
                             const WriterOptions& options)
    : home_(std::move(home)) {
  writer_.emplace(home_->ring_, lease, buffer, options);
  // Also where there was no memory for a writer that works.
  is_surplus_ = writer_->writer_id() == WriterId();
}

ManagedWriter::~ManagedWriter() {
  if (is_listed_ && !home_->InForkedChild()) home_->Remove(this);
}

void ManagedWriter::Release() {
  is_pinned_ = is_pinned_ || writer_->in_use();
  writer_->Release();
}

void ManagedWriter::LetGoIfClosed() {
  if (home_ == nullptr || home_->InForkedChild() || is_pinned_ ||
      writer_->in_use() || home_->ring_->mode() != RingMode::kClosed) {
    return;
  }
  home_->Remove(this);
  is_listed_ = false;
  home_.reset();
  is_surplus_ = false;
  // At the same address: references to it are still in use, and nobody but
  // this thread has any left.
  writer_.emplace(ProducerRing::Nowhere(), WriterLease(), BufferId(),
                  WriterOptions());
}

absl::StatusOr<std::shared_ptr<ManagedRing>> ManagedRing::Create(
    Config config, std::shared_ptr<const os::GuardedFd> event_slot,
    const std::string& file) {
  const size_t bytes = config.geometry.RingSize();
  absl::StatusOr<os::UniqueFd> memfd =
      file.empty()
          ? os::CreateSealedMemory(
                fmt::format("tracering:{}", config.name).c_str(), bytes)
          : os::CreateFileMemory(file, bytes);
  if (!memfd.ok()) return memfd.status();
  absl::StatusOr<os::SharedMapping> mapping =
      os::SharedMapping::Map(memfd->get(), bytes);
  if (!mapping.ok()) return mapping.status();
  auto ring = std::make_shared<ProducerRing>(
      *std::move(mapping), config.geometry, std::move(event_slot), config.mode);
  ring->ring().WriteIdentity(static_cast<uint32_t>(getpid()));
  return std::shared_ptr<ManagedRing>(
      new ManagedRing(std::move(config), *std::move(memfd), std::move(ring)));
}

ManagedRing::ManagedRing(Config config, os::UniqueFd memfd,
                         std::shared_ptr<ProducerRing> ring)
    : config_(std::move(config)),
      fork_generation_(ForkGuard::Generation()),
      memfd_(std::move(memfd)),
      ring_(std::move(ring)),
      ids_(config_.geometry.num_chunks(), config_.max_writer_id) {}

std::unique_ptr<ManagedWriter> ManagedRing::AddWriter(
    BufferId buffer, const WriterOptions& options) {
  const WriterLease lease = Lease();
  if (lease.id == WriterId()) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++num_surplus_;
  }
  return AddWriterWithLease(lease, buffer, options);
}

std::unique_ptr<ManagedWriter> ManagedRing::TryAddWriter(
    BufferId buffer, const WriterOptions& options) {
  const WriterLease lease = Lease();
  if (lease.id == WriterId()) return nullptr;
  return AddWriterWithLease(lease, buffer, options);
}

WriterLease ManagedRing::Lease() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ids_.Acquire(ring().LoadReadPosAcquire());
}

std::unique_ptr<ManagedWriter> ManagedRing::AddWriterWithLease(
    WriterLease lease, BufferId buffer, const WriterOptions& options) {
  const ReleasedWriter unused{std::nullopt, lease.owes_loss,
                              lease.left_partial};
  Rollback give_back([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lease.id != WriterId()) ids_.Release(lease.id, unused);
  });
  auto writer = std::make_unique<ManagedWriter>(shared_from_this(), lease,
                                                buffer, options);
  std::lock_guard<std::mutex> lock(mutex_);
  writers_.push_back(writer.get());
  writer->index_ = writers_.size() - 1;
  writer->is_listed_ = true;
  give_back.Commit();
  if (writer->is_surplus() && lease.id != WriterId()) {
    ids_.Release(lease.id, unused);
  }
  return writer;
}

void ManagedRing::Remove(ManagedWriter* writer) {
  TraceWriterImpl& impl = writer->writer();
  // May wait, by policy.
  const ReleasedWriter released = impl.Release();
  std::lock_guard<std::mutex> lock(mutex_);
  const WriterStats stats = impl.ReadStats();
  attempted_ += stats.attempted;
  discarded_ += stats.discarded;
  if (impl.writer_id() != WriterId()) {
    ids_.Release(impl.writer_id(), released);
  }
  ManagedWriter* last = writers_.back();
  writers_[writer->index_] = last;
  last->index_ = writer->index_;
  writers_.pop_back();
}

void ManagedRing::Attach() {
  // Before the fold, and sequentially consistent like a writer's look at it: a
  // loss is either folded by its writer or found here.
  ring_->consumer_attached().store(true, std::memory_order_seq_cst);
  RingMode expected = RingMode::kOff;
  ring_->mutable_mode().compare_exchange_strong(expected, RingMode::kOn,
                                                std::memory_order_relaxed);
  FoldLosses();
}

void ManagedRing::Detach(RingMode mode_without) {
  ring_->consumer_attached().store(false, std::memory_order_seq_cst);
  RingMode expected = RingMode::kOn;
  ring_->mutable_mode().compare_exchange_strong(expected, mode_without,
                                                std::memory_order_relaxed);
}

void ManagedRing::Close() {
  FoldLosses();
  ring_->mutable_mode().store(RingMode::kClosed, std::memory_order_relaxed);
  // Whoever stalls gives up.
  ring_->consumer_attached().store(false, std::memory_order_seq_cst);
}

void ManagedRing::FoldLosses() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (ManagedWriter* writer : writers_) writer->writer().FoldLosses();
}

Producer::RingStats ManagedRing::ReadStats() {
  // The ring's own counters are the truth about its losses: a packet that was
  // published in part is counted by the reader, and by its writer, too.
  FoldLosses();
  Producer::RingStats stats;
  stats.name = config_.name;
  stats.num_chunks = config_.geometry.num_chunks();
  stats.chunk_size = config_.geometry.chunk_size();
  const abi::Position read_pos = ring().LoadReadPosAcquire();
  stats.outstanding_chunks = std::min(
      abi::Distance(read_pos, ring().LoadWritePosRelaxed()), stats.num_chunks);
  stats.poisoned = ring_->mode() == RingMode::kPoisoned;
  stats.metadata = config_.metadata;
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    stats.lost_by_cause[i] = ring().LoadWriterLoss(static_cast<LossCause>(i));
  }
  stats.lost_by_reader = ring().LoadReaderLoss();
  std::lock_guard<std::mutex> lock(mutex_);
  stats.attempted = attempted_;
  const auto count_unfinished = [&](std::optional<abi::Position> partial) {
    if (!partial.has_value() || ring().WasLeftBehind(*partial)) return;
    ++stats.lost_unfinished;
  };
  for (const WriterIdPool::Released& released : ids_.released()) {
    count_unfinished(released.writer.left_partial);
  }
  stats.discarded = discarded_;
  for (ManagedWriter* writer : writers_) {
    const WriterStats one = writer->writer().ReadStats();
    stats.attempted += one.attempted;
    stats.discarded += one.discarded;
    count_unfinished(writer->writer().left_partial());
  }
  stats.writers = static_cast<uint32_t>(writers_.size());
  stats.surplus_writers = num_surplus_;
  return stats;
}

}  // namespace tracering::internal
