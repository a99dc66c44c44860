// Joins the fragments of one ring into whole packets and accounts for those
// that cannot be completed.
//
// A packet is a chain of fragments: the last of a chunk that says "continues on
// next" and the first of the same writer's next chunk that says "continues from
// previous" belong together. A chain is whole if it has a start and an end and
// nothing happened to it in between. Every chain that is not whole is counted
// here as one lost packet, exactly once, under the cause that was noticed
// first; packets of which nothing was published are counted by the writer and
// only leave a mark here. The first packet that is delivered after a loss
// carries the mark.
//
// Fragments come from another process: they are private copies, and any
// combination of flags, counts and buffers is possible. Memory is bounded by
// the limits below; nothing here aborts. A plain data structure for one thread
// at a time, without locks, syscalls and logging.
#ifndef TRACERING_SRC_CONSUMER_PACKET_ASSEMBLER_H_
#define TRACERING_SRC_CONSUMER_PACKET_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/consumer/byte_buffer.h"
#include "src/consumer/chunk_view.h"
#include "src/consumer/packet_run.h"
#include "src/consumer/sparse_array.h"
#include "tracering/consumer_stats.h"
#include "tracering/data_loss.h"
#include "tracering/ids.h"

namespace tracering::internal {

// Takes whole packets from the assembler. Called at most once per run, which is
// at most three times per chunk.
class PacketSink {
 public:
  virtual ~PacketSink() = default;

  // Chooses where packets of `writer` for `buffer` go. Called once for each
  // pair, and again for each chunk as long as the answer is false: the buffer
  // is not one that the producer was granted, or there is no sequence left. The
  // chunk's packets are then counted as kUnknownBuffer.
  [[nodiscard]] virtual bool Resolve(WriterId writer, BufferId buffer,
                                     Route* route) = 0;

  // Stores the packets of `run`, or counts what it has to refuse.
  virtual void OnRun(const PacketRun& run) = 0;

  // Where the payload of `run`, of which only the route and the sizes are set,
  // will be stored if OnRun is called with it next; or, if `joined` is not
  // null, with that run of one packet for the same buffer, and then with `run`.
  // Null if that cannot be said.
  [[nodiscard]] virtual uint8_t* PlaceFor(const PacketRun& /*run*/,
                                          const PacketRun* /*joined*/) {
    return nullptr;
  }
};

// Bytes of partial packets that one producer may hold, over all of its rings.
// Has to outlive the assemblers that share it.
class PartialBudget {
 public:
  static constexpr size_t kDefaultLimit = size_t{64} << 20;

  explicit PartialBudget(size_t limit = kDefaultLimit) : limit_(limit) {}
  PartialBudget(const PartialBudget&) = delete;
  PartialBudget& operator=(const PartialBudget&) = delete;

  [[nodiscard]] bool TryCharge(size_t bytes) {
    if (bytes > limit_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void Release(size_t bytes) { used_ -= bytes; }
  size_t used() const { return used_; }

 private:
  const size_t limit_;
  size_t used_ = 0;
};

class PacketAssembler : public PayloadPlacer {
 public:
  static constexpr size_t kDefaultMaxPartial = size_t{16} << 20;
  // What `max_partial` is cut to: sizes further on are 32-bit.
  static constexpr size_t kMaxMaxPartial = size_t{1} << 30;

  // `sink` and `budget` outlive the assembler. A packet of more than one
  // fragment that is larger than `max_partial` bytes is counted as lost.
  PacketAssembler(PacketSink* sink, PartialBudget* budget,
                  size_t max_partial = kDefaultMaxPartial);
  ~PacketAssembler() override;
  PacketAssembler(const PacketAssembler&) = delete;
  PacketAssembler& operator=(const PacketAssembler&) = delete;

  // Takes the fragments of one chunk. Whatever was complete is with the sink
  // when this returns.
  void OnChunk(const ChunkView& chunk);
  [[nodiscard]] uint8_t* PlaceFor(const ChunkView& chunk) override;

  // Accounts for a chunk whose ownership was settled but whose payload could
  // not be used: a malformed directory or an unknown format. `num_fragments`
  // and `flags` are those of its state word; with kFlagDataLoss, `writer_loss`
  // is as in ChunkView. Each packet with a part in it is lost as
  // kChunkCorrupted, unless it was counted before. No fragments: no loss.
  void OnChunkDropped(WriterId writer, uint32_t num_fragments, uint32_t flags,
                      LossMask writer_loss = 0);

  // Who counts a packet whose head an earlier reader of this ring took.
  enum class SplitPackets {
    kCountHere,     // it died: counted as kReadGap when the tail turns up
    kCountedThere,  // it left in good order, and had counted it
  };

  // Says that an earlier reader of this ring took chunks which are gone. Each
  // sequence of the ring then begins with a kReadGap mark, and packets that are
  // open here are lost to the gap.
  void MarkReadGap(SplitPackets split = SplitPackets::kCountHere);

  // Counts each packet that is still open as one loss: nothing more will come,
  // because the producer is gone or the ring was stopped (`cause`, normally
  // kReassemblyGap or kRingStopped). Frees their memory. May be called again.
  void Finish(LossCause cause = LossCause::kReassemblyGap);

  // Packets that this assembler counted, by cause.
  const LossCounts& losses() const { return losses_; }
  // Packets handed to the sink.
  uint64_t packets_assembled() const { return packets_assembled_; }
  // Packets of which a part has come and the rest is awaited.
  uint32_t open_partials() const { return open_partials_; }

 private:
  // What became of the packet whose tail may come next.
  enum class Chain : uint8_t {
    kNone,     // the previous chunk ended with a whole packet
    kOpen,     // its parts so far are in `partial`
    kCounted,  // it was counted as lost already
    kGap,      // unknown: a dead reader took the previous chunk, if any
  };
  struct Target {
    BufferId buffer;
    bool known = false;    // `route` was resolved
    bool started = false;  // a packet went there
    Route route;
  };
  struct Writer {
    Target target;               // of its latest chunk
    std::vector<Target> others;  // of earlier chunks, if it ever changed
    ByteBuffer partial;
    LossMask pending = 0;  // mark of the next whole packet
    Chain chain = Chain::kNone;
    bool seen = false;
  };

  Writer& Touch(WriterId id);
  // Makes `writer->target` the one of `buffer`; false if it is not granted.
  bool SelectTarget(WriterId id, Writer* writer, BufferId buffer);
  // Takes note of the losses of the writer's own that precede a chunk.
  void OnDataLoss(Writer* writer, LossMask writer_loss);
  // Counts the packets of a chunk that is lost as a whole.
  void OnLostChunk(Writer* writer, uint32_t num_fragments, uint32_t flags,
                   LossCause cause);
  // Settles a first fragment that continues a packet. True if the chunk holds
  // nothing else, and the packet continues in the next one.
  bool TakeContinuation(const ChunkView& chunk, Writer* writer,
                        bool same_target);
  void OpenPartial(Writer* writer, const uint8_t* data, uint32_t size);
  bool AppendPartial(Writer* writer, const uint8_t* data, uint32_t size);
  void ClosePartial(Writer* writer);
  void LosePartial(Writer* writer, LossCause cause);
  void Lose(Writer* writer, LossCause cause, uint64_t packets = 1);
  void Emit(WriterId id, Writer* writer, PacketRun* run);

  PacketSink* const sink_;
  PartialBudget* const budget_;
  const size_t max_partial_;
  SparseArray<Writer> writers_;
  // Memory of the last small partial packet, for the next one: most chunks end
  // inside a packet.
  ByteBuffer spare_;
  LossCounts losses_;
  uint64_t packets_assembled_ = 0;
  uint32_t open_partials_ = 0;
  bool read_gap_ = false;
  Chain first_chain_ = Chain::kNone;  // of writers that are not seen yet
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_PACKET_ASSEMBLER_H_
