// Chains of fragments and their accounts; see packet_assembler.h for what the
// flags of a hostile writer may say.
#include "src/consumer/packet_assembler.h"

#include <algorithm>

#include "src/common/abi/state_word.h"

namespace tracering::internal {
namespace {

constexpr size_t kMinPartialCapacity = 256;
// The largest memory that is kept for the next partial packet.
constexpr size_t kMaxSpareCapacity = 64 * 1024;

// The packets of a chunk that lie in it from end to end.
inline PacketRun WholePacketsOf(const ChunkView& chunk) {
  PacketRun run;
  run.num_packets = chunk.NumWhole();
  run.payload_size = chunk.WholeSize();
  run.payload = chunk.Whole();
  run.sizes = chunk.sizes + (chunk.HasHead() ? 1 : 0);
  return run;
}

}  // namespace

PacketAssembler::PacketAssembler(PacketSink* sink, PartialBudget* budget,
                                 size_t max_partial)
    : sink_(sink),
      budget_(budget),
      max_partial_(std::min(max_partial, kMaxMaxPartial)) {}

PacketAssembler::~PacketAssembler() {
  writers_.ForEach([this](uint32_t, Writer& writer) {
    if (writer.chain == Chain::kOpen) ClosePartial(&writer);
  });
}

void PacketAssembler::OnChunk(const ChunkView& chunk) {
  if (chunk.num_fragments == 0) return;
  Writer& writer = Touch(chunk.writer);
  if ((chunk.flags & abi::kFlagDataLoss) != 0) {
    OnDataLoss(&writer, chunk.writer_loss);
  }
  const bool same_target = writer.target.buffer == chunk.buffer;
  if (!SelectTarget(chunk.writer, &writer, chunk.buffer)) {
    OnLostChunk(&writer, chunk.num_fragments, chunk.flags,
                LossCause::kUnknownBuffer);
    return;
  }

  if (chunk.HasHead()) {
    if (TakeContinuation(chunk, &writer, same_target)) return;
  } else {
    if (writer.chain == Chain::kOpen) {
      LosePartial(&writer, LossCause::kReassemblyGap);
    }
    writer.chain = Chain::kNone;
  }
  PacketRun run = WholePacketsOf(chunk);
  if (run.num_packets != 0) Emit(chunk.writer, &writer, &run);
  if (chunk.HasTail()) {
    const uint32_t size = chunk.TailSize();
    OpenPartial(&writer, chunk.payload + chunk.payload_size - size, size);
  }
}

uint8_t* PacketAssembler::PlaceFor(const ChunkView& chunk) {
  const Writer* const writer = writers_.Find(chunk.writer.value());
  if (writer == nullptr || !writer->target.known ||
      writer->target.buffer != chunk.buffer) {
    return nullptr;
  }
  PacketRun run = WholePacketsOf(chunk);
  if (run.num_packets == 0) return nullptr;
  run.route = writer->target.route;
  if (!chunk.HasHead() || writer->chain != Chain::kOpen ||
      (chunk.flags & abi::kFlagDataLoss) != 0) {
    return sink_->PlaceFor(run, nullptr);
  }
  // The head ends a packet, which goes first. Not if that may fail.
  const ByteBuffer& partial = writer->partial;
  const size_t size = partial.size() + chunk.HeadSize();
  if (size > partial.capacity() || size > max_partial_) return nullptr;
  PacketRun joined;
  joined.num_packets = 1;
  joined.payload_size = static_cast<uint32_t>(size);
  return sink_->PlaceFor(run, &joined);
}

void PacketAssembler::OnChunkDropped(WriterId id, uint32_t num_fragments,
                                     uint32_t flags, LossMask writer_loss) {
  if (num_fragments == 0) return;
  Writer& writer = Touch(id);
  if ((flags & abi::kFlagDataLoss) != 0) OnDataLoss(&writer, writer_loss);
  OnLostChunk(&writer, num_fragments, flags, LossCause::kChunkCorrupted);
}

void PacketAssembler::MarkReadGap(SplitPackets split) {
  read_gap_ = true;
  first_chain_ =
      split == SplitPackets::kCountHere ? Chain::kGap : Chain::kCounted;
  writers_.ForEach([this](uint32_t, Writer& writer) {
    if (writer.chain == Chain::kOpen) LosePartial(&writer, LossCause::kReadGap);
    writer.chain = first_chain_;
    writer.target.started = false;
    for (Target& target : writer.others) target.started = false;
  });
}

void PacketAssembler::Finish(LossCause cause) {
  writers_.ForEach([this, cause](uint32_t, Writer& writer) {
    if (writer.chain == Chain::kOpen) LosePartial(&writer, cause);
  });
  spare_.Free();
}

PacketAssembler::Writer& PacketAssembler::Touch(WriterId id) {
  Writer& writer = writers_.At(id.value());
  if (!writer.seen) {
    writer.seen = true;
    writer.chain = first_chain_;
  }
  return writer;
}

bool PacketAssembler::SelectTarget(WriterId id, Writer* writer,
                                   BufferId buffer) {
  if (writer->target.known && writer->target.buffer == buffer) return true;
  const auto known = std::find_if(
      writer->others.begin(), writer->others.end(),
      [buffer](const Target& target) { return target.buffer == buffer; });
  if (known != writer->others.end()) {
    std::swap(writer->target, *known);
    return true;
  }
  Target target;
  target.buffer = buffer;
  target.known = true;
  if (!sink_->Resolve(id, buffer, &target.route)) return false;
  if (writer->target.known) writer->others.push_back(writer->target);
  writer->target = target;
  return true;
}

void PacketAssembler::OnDataLoss(Writer* writer, LossMask writer_loss) {
  // A first fragment that continues a packet in spite of a loss in between is
  // taken as the tail of the packet that was open: both are one lost packet.
  if (writer->chain == Chain::kOpen) {
    LosePartial(writer, LossCause::kReassemblyGap);
  }
  writer->pending |= kLossMarked | writer_loss;
}

void PacketAssembler::OnLostChunk(Writer* writer, uint32_t num_fragments,
                                  uint32_t flags, LossCause cause) {
  uint32_t uncounted = num_fragments;
  if (ContinuesFromPrevious(flags)) {
    if (writer->chain == Chain::kOpen) LosePartial(writer, cause);
    if (writer->chain == Chain::kGap) Lose(writer, LossCause::kReadGap);
    if (writer->chain != Chain::kNone) --uncounted;
  } else if (writer->chain == Chain::kOpen) {
    LosePartial(writer, LossCause::kReassemblyGap);
  }
  if (uncounted != 0) Lose(writer, cause, uncounted);
  // A last packet that continues has been counted with the chunk.
  writer->chain = ContinuesOnNext(flags) ? Chain::kCounted : Chain::kNone;
}

bool PacketAssembler::TakeContinuation(const ChunkView& chunk, Writer* writer,
                                       bool same_target) {
  if (writer->chain == Chain::kOpen && !same_target) {
    LosePartial(writer, LossCause::kBrokenChain);
  }
  if (writer->chain == Chain::kOpen &&
      !AppendPartial(writer, chunk.payload, chunk.sizes[0])) {
    LosePartial(writer, LossCause::kPacketTooLarge);
  }
  if (writer->chain == Chain::kNone) {
    Lose(writer, LossCause::kOrphanContinuation);
  } else if (writer->chain == Chain::kGap) {
    Lose(writer, LossCause::kReadGap);
  }
  const bool open = writer->chain == Chain::kOpen;
  if (chunk.num_fragments == 1 && ContinuesOnNext(chunk.flags)) {
    if (!open) writer->chain = Chain::kCounted;
    return true;
  }
  if (open) {
    PacketRun joined;
    joined.num_packets = 1;
    joined.payload = writer->partial.data();
    joined.payload_size = static_cast<uint32_t>(writer->partial.size());
    Emit(chunk.writer, writer, &joined);
    ClosePartial(writer);
  }
  writer->chain = Chain::kNone;
  return false;
}

void PacketAssembler::OpenPartial(Writer* writer, const uint8_t* data,
                                  uint32_t size) {
  writer->chain = Chain::kOpen;
  ++open_partials_;
  if (spare_.capacity() != 0 && budget_->TryCharge(spare_.capacity())) {
    writer->partial.swap(spare_);
  }
  if (!AppendPartial(writer, data, size)) {
    LosePartial(writer, LossCause::kPacketTooLarge);
  }
}

bool PacketAssembler::AppendPartial(Writer* writer, const uint8_t* data,
                                    uint32_t size) {
  ByteBuffer& partial = writer->partial;
  if (size > max_partial_ - partial.size()) return false;
  const size_t needed = partial.size() + size;
  if (needed > partial.capacity()) {
    size_t capacity =
        std::max({needed, partial.capacity() * 2, kMinPartialCapacity});
    if (!budget_->TryCharge(capacity - partial.capacity())) {
      capacity = needed;
      if (!budget_->TryCharge(capacity - partial.capacity())) return false;
    }
    partial.Reserve(capacity);
  }
  partial.Append(data, size);
  return true;
}

void PacketAssembler::ClosePartial(Writer* writer) {
  --open_partials_;
  budget_->Release(writer->partial.capacity());
  writer->partial.clear();
  if (spare_.capacity() == 0 &&
      writer->partial.capacity() <= kMaxSpareCapacity) {
    writer->partial.swap(spare_);
  } else {
    writer->partial.Free();
  }
}

void PacketAssembler::LosePartial(Writer* writer, LossCause cause) {
  ClosePartial(writer);
  writer->chain = Chain::kCounted;
  Lose(writer, cause);
}

void PacketAssembler::Lose(Writer* writer, LossCause cause, uint64_t packets) {
  losses_[cause] += packets;
  writer->pending |= MarkOf(cause);
}

void PacketAssembler::Emit(WriterId id, Writer* writer, PacketRun* run) {
  run->writer = id;
  run->route = writer->target.route;
  run->loss = writer->pending;
  writer->pending = 0;
  if (!writer->target.started) {
    writer->target.started = true;
    if (read_gap_) run->loss |= MarkOf(LossCause::kReadGap);
  }
  packets_assembled_ += run->num_packets;
  sink_->OnRun(*run);
}

}  // namespace tracering::internal
