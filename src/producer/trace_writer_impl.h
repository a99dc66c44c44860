// One writer: packets and batches on top of the ChunkWriter, and the
// accounting of what became of them.
//
// Belongs to one thread at a time. A signal handler on that thread may use the
// writer too: what it begins while the interrupted code is anywhere between the
// first and the last instruction of a packet goes nowhere and is counted.
// Methods under "any thread" say so. Keeps the ring, and so the mapping, alive.
#ifndef TRACERING_SRC_PRODUCER_TRACE_WRITER_IMPL_H_
#define TRACERING_SRC_PRODUCER_TRACE_WRITER_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/common/abi/position.h"
#include "src/producer/c_packet.h"
#include "src/producer/chunk_writer.h"
#include "src/producer/packet_account.h"
#include "src/producer/producer_ring.h"
#include "tracering/ids.h"
#include "tracering/internal/packet_encoder.h"
#include "tracering/trace_writer.h"

namespace tracering::internal {

// An id of a ring, and what its previous owner left behind.
struct WriterLease {
  // 0 if no id was free: the writer discards and counts.
  WriterId id;
  // The previous owner lost packets that it could not mark, or left a split
  // packet unfinished.
  bool owes_loss = false;
  // See PacketAccount::LeavePartial. Goes with owes_loss.
  std::optional<abi::Position> left_partial = std::nullopt;
};

// What goes back to whoever leased the id.
struct ReleasedWriter {
  // Of the last chunk that the writer claimed, if it ever claimed one. The id
  // is busy until the reader has passed it.
  std::optional<abi::Position> last_position;
  // For the next WriterLease.
  bool owes_loss = false;
  std::optional<abi::Position> left_partial = std::nullopt;
};

class alignas(64) TraceWriterImpl final : public TraceWriter {
 public:
  // Allocates a scratch of one chunk, and nothing later. If there is no memory
  // for it, the writer has no id: writer_id() is 0.
  TraceWriterImpl(std::shared_ptr<ProducerRing> ring, WriterLease lease,
                  BufferId buffer, const WriterOptions& options);
  // Releases, if that has not been done.
  ~TraceWriterImpl();

  // --- Owner ---

  // See packet_encoder.h, which forwards here.
  FragmentRange Open() noexcept {
    if (state() != PacketState::kIdle) return OpenNested();
    Enter(PacketState::kOpen);
    FragmentRange range;
    if (chunk_.ring().mode() == RingMode::kOn && !chunk_.owes_loss() &&
        chunk_.TryOpen(&range)) {
      return range;
    }
    return OpenCold();
  }
  void Close(uint8_t* cur) noexcept {
    if (cur == nullptr) return;
    if (state() != PacketState::kOpen) {
      CloseCold(cur);
      return;
    }
    CloseFragment(cur);
    Leave();
  }
  void Discard(uint8_t* cur) noexcept;
  // Copies `size` bytes, over as many chunks as it takes.
  FragmentRange Append(FragmentRange range, const uint8_t* data,
                       size_t size) noexcept;

  void BeginBatch() {
    if (state() != PacketState::kReleased) ++batch_depth_;
  }
  void EndBatch();
  bool in_batch() const { return batch_depth_ != 0; }

  // Where C code keeps the packet that it has opened.
  tracering_packet& c_packet() { return c_packet_; }

  // Publishes what an open batch has finalised so far. No effect while a
  // packet is open.
  void PublishPending();

  // Whether a packet or a batch is open.
  bool in_use() const {
    return in_batch() ||
           (state() != PacketState::kIdle && state() != PacketState::kReleased);
  }

  // Publishes what is left, gives up a packet that is still open (somebody
  // called exit() inside it), folds the losses and lets go of the ring's
  // chunks. May wait, by policy. Everything afterwards is a no-op. A second
  // call returns the same.
  ReleasedWriter Release();

  // --- Any thread ---

  // Hands privately counted losses to the ring's counters, each exactly once.
  // For the control thread, after it has set consumer_attached.
  void FoldLosses() { account_.Fold(); }

  // Of a packet that the ring and its reader do not count yet.
  std::optional<abi::Position> left_partial() const {
    return account_.left_partial();
  }

  WriterStats ReadStats() const { return account_.Read(chunk_.pending()); }
  WriterId writer_id() const { return id_; }
  BufferId buffer_id() const { return buffer_; }

 private:
  enum class PacketState : uint32_t {
    kIdle,
    kOpen,      // and only the path of a packet that fits was taken
    kOpenCold,  // look at the members of the cold path, too
    kBusy,      // between packets, and not to be interrupted by one
    kReleased,  // for good
  };

  void CloseFragment(uint8_t* cur) {
    account_.Attempt();
    if (batch_depth_ == 0) {
      chunk_.Publish(cur);
    } else {
      chunk_.Finalise(cur);
    }
  }
  [[gnu::cold]] FragmentRange OpenNested() noexcept;
  [[gnu::cold]] FragmentRange OpenCold() noexcept;
  [[gnu::cold]] void CloseCold(uint8_t* cur) noexcept;
  FragmentRange Swallow(ChunkOutcome outcome);
  FragmentRange SinkRange() { return {sink_, sink_ + sizeof(sink_)}; }
  void AbandonPacket();
  void LosePacket(LossCause cause, bool seen_by_reader);
  void EndPacket();

  PacketState state() const {
    return packet_state_.load(std::memory_order_relaxed);
  }
  // Signal handlers see the state before or after all that it stands for.
  void Enter(PacketState state) {
    packet_state_.store(state, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void Leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    packet_state_.store(PacketState::kIdle, std::memory_order_relaxed);
  }

  // Owner; what every packet touches comes first.
  std::atomic<PacketState> packet_state_{PacketState::kIdle};
  uint32_t batch_depth_ = 0;
  ChunkWriter chunk_;
  PacketAccount account_;

  // Of the open packet, reset at its end.
  bool swallowing_ = false;
  bool split_ = false;               // a part of it is published
  std::optional<LossCause> reason_;  // of swallowing; none: not counted

  ReleasedWriter released_;
  tracering_packet c_packet_;
  // Immutable.
  const std::shared_ptr<ProducerRing> ring_;
  const WriterId id_;
  const BufferId buffer_;
  // Takes the fields of lost packets.
  uint8_t sink_[256];
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_TRACE_WRITER_IMPL_H_
