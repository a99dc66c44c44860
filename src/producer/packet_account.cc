// Counting losses and handing them on; see packet_account.h.
#include "src/producer/packet_account.h"

namespace tracering::internal {

void PacketAccount::Lose(LossCause cause, uint64_t packets,
                         std::optional<abi::Position> part) {
  const auto index = static_cast<size_t>(cause);
  lost_[index].fetch_add(packets, std::memory_order_relaxed);
  if (part.has_value()) LeavePartial(*part);
  const uint64_t unseen = packets - (part.has_value() ? 1 : 0);
  if (unseen == 0) return;
  // seq_cst, like the load after it: either we see the consumer or the fold of
  // the control thread, which comes after it set the flag, sees the count.
  unfolded_[index].fetch_add(unseen, std::memory_order_seq_cst);
  if (ring_.consumer_attached().load(std::memory_order_seq_cst)) Fold();
}

void PacketAccount::LoseNested() {
  nested_.fetch_add(1, std::memory_order_relaxed);
  Lose(LossCause::kWriterAbort, 1);
}

void PacketAccount::Fold() {
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    if (unfolded_[i].load(std::memory_order_seq_cst) == 0) continue;
    // Whoever takes the number adds it: each loss is counted once.
    const uint64_t count = unfolded_[i].exchange(0, std::memory_order_seq_cst);
    if (count == 0) continue;
    ring_.ring().AddWriterLoss(static_cast<LossCause>(i), count);
  }
}

WriterStats PacketAccount::Read(uint64_t unpublished) const {
  WriterStats stats;
  for (size_t i = 0; i < kNumWriterLossCauses; ++i) {
    stats.lost_by_cause[i] = lost_[i].load(std::memory_order_acquire);
    stats.lost += stats.lost_by_cause[i];
  }
  stats.attempted = attempted_.load(std::memory_order_acquire) +
                    nested_.load(std::memory_order_acquire);
  stats.discarded = discarded_.load(std::memory_order_relaxed);
  // Other threads may look between the steps of one packet.
  const uint64_t missing = stats.lost + unpublished;
  stats.published = stats.attempted > missing ? stats.attempted - missing : 0;
  return stats;
}

}  // namespace tracering::internal
