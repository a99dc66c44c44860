// A ring whose producer is a fuzzer's script: it forges words, cursors, sizes
// and payload, and now and then does what an honest writer does.
//
// Remembers what the producer's side wrote, so that whatever else changes in
// the mapping is known to be the reader's doing, and judges that: a reader
// settles the position it is at and writes its own words, nothing more. Knows
// the ABI's numbers and no class of the product. One thread.
#ifndef TRACERING_TESTS_FUZZ_HOSTILE_RING_H_
#define TRACERING_TESTS_FUZZ_HOSTILE_RING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/common/abi/geometry.h"
#include "src/common/abi/position.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/ring_image.h"

namespace tracering::test {

class HostileRing {
 public:
  // Takes geometry and position from the script.
  explicit HostileRing(FuzzInput* input);

  const RingImage& image() const { return image_; }
  const abi::Geometry& geometry() const { return image_.geometry(); }

  // One step of the script.
  void Mutate();
  // The next position as an honest writer publishes it.
  void Publish();
  void SetWord32(size_t offset, uint32_t value);

  // Settles what the reader may have done to chunk `index` while it resolved
  // `position`: false if it was not its to do.
  [[nodiscard]] bool AcceptTransition(uint32_t index, abi::Position position);
  // Whether nothing else of the mapping was written by the reader.
  [[nodiscard]] bool OnlyReaderWordsChanged() const;

 private:
  uint32_t ForgedWord(uint32_t near);
  uint32_t ForgedState(uint32_t index);
  std::string ForgedFragment();
  uint32_t AnyChunk() { return input_->Byte() % geometry().num_chunks(); }
  void SetState(uint32_t index, uint32_t word);
  void SetWord64(size_t offset, uint64_t value);
  void WriteBytes(uint32_t index, size_t offset, const std::string& bytes);
  // What an honest writer does to a chunk that it holds, or finds free.
  void StepAsWriter(uint32_t index);
  void AddFragment(uint32_t index, uint32_t word);

  FuzzInput* const input_;
  RingImage image_;
  // As the producer left it; the state words as last accepted.
  std::vector<uint8_t> shadow_;
  std::vector<uint32_t> words_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_FUZZ_HOSTILE_RING_H_
