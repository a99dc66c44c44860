// Which threads of this process drain rings.
//
// A writer that stalls on such a thread would wait for itself: it drops. The
// consumer library says who drains, the producer library asks; the room is
// common so that both ask the same object, however they are linked. Private
// memory of the process, no word of a mapping.
#ifndef TRACERING_SRC_COMMON_RING_DRAINING_THREAD_H_
#define TRACERING_SRC_COMMON_RING_DRAINING_THREAD_H_

#include <atomic>

namespace tracering::internal {

// A consumer's place for its draining thread, of which it has at most one at a
// time. Thread-safe.
class DrainingSeat {
 public:
  // May allocate, but only while more seats exist than ever before.
  DrainingSeat();
  ~DrainingSeat();
  DrainingSeat(const DrainingSeat&) = delete;
  DrainingSeat& operator=(const DrainingSeat&) = delete;

  // The calling thread drains from now on, instead of whoever did before.
  void Take();
  // Nobody drains until the next Take.
  void Leave();

  // Whether the calling thread sits on any seat of the process. Lock-free,
  // O(seats), async-signal-safe; for paths that are about to wait.
  static bool IsTakenByThisThread();

 private:
  struct Record;
  static Record* AcquireRecord();

  static std::atomic<Record*> first_;
  Record* const record_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_COMMON_RING_DRAINING_THREAD_H_
