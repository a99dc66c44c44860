// The process-wide list of draining seats; see draining_thread.h.
//
// Records are pushed and never unlinked: a reader can walk the list at any
// instant, also in a signal handler, and a seat that is given up is taken over
// by the next one.
#include "src/common/ring/draining_thread.h"

#include <sys/types.h>

#include "src/common/os/fork_safe.h"
#include "src/common/os/process.h"

namespace tracering::internal {

struct DrainingSeat::Record {
  std::atomic<pid_t> thread{0};  // 0: nobody sits here
  std::atomic<bool> in_use{true};
  Record* next = nullptr;  // immutable once pushed
};

std::atomic<DrainingSeat::Record*> DrainingSeat::first_{nullptr};

DrainingSeat::Record* DrainingSeat::AcquireRecord() {
  for (Record* record = first_.load(std::memory_order_acquire);
       record != nullptr; record = record->next) {
    if (!record->in_use.exchange(true, std::memory_order_acquire)) {
      return record;
    }
  }
  auto* record = new Record;
  os::PushFront(&first_, record);
  return record;
}

DrainingSeat::DrainingSeat() : record_(AcquireRecord()) {}

DrainingSeat::~DrainingSeat() {
  Leave();
  record_->in_use.store(false, std::memory_order_release);
}

void DrainingSeat::Take() {
  record_->thread.store(os::CurrentThreadId(), std::memory_order_relaxed);
}

void DrainingSeat::Leave() {
  record_->thread.store(0, std::memory_order_relaxed);
}

bool DrainingSeat::IsTakenByThisThread() {
  Record* record = first_.load(std::memory_order_acquire);
  if (record == nullptr) return false;
  const pid_t self = os::CurrentThreadId();
  for (; record != nullptr; record = record->next) {
    if (record->thread.load(std::memory_order_relaxed) == self) return true;
  }
  return false;
}

}  // namespace tracering::internal
