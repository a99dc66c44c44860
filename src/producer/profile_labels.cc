// The table of labels; see profile_labels.h.
#include "src/producer/profile_labels.h"

#include <atomic>
#include <functional>
#include <memory>

#include "src/producer/containment.h"
#include "src/producer/stack_bounds.h"
#include "tracering/cpu_profiler.h"

namespace tracering {
namespace internal {
namespace {

// Half full at most, so that a search ends soon.
constexpr size_t kSlots = 2 * ProfileLabels::kMaxLabels;

// Constant-initialised. A slot is written once, and never again.
std::atomic<const ProfileLabel*> slots[kSlots];
std::atomic<size_t> num_labels{0};
std::atomic<uint64_t> num_dropped{0};

// Initial-exec: the other models may allocate at a thread's first access, which
// would be in the signal handler. Atomic because the handler interrupts the
// thread that stores.
thread_local std::atomic<const ProfileLabel*> current_label
    __attribute__((tls_model("initial-exec"))){nullptr};

// Null where there are enough labels, or no memory.
std::unique_ptr<const ProfileLabel> NewLabel(std::string_view text) {
  // Counted before, so that the bound holds whoever else comes.
  Rollback uncount([] { num_labels.fetch_sub(1, std::memory_order_relaxed); });
  if (num_labels.fetch_add(1, std::memory_order_relaxed) >=
      ProfileLabels::kMaxLabels) {
    return nullptr;
  }
  return Contain(
      [&] {
        auto label = std::make_unique<const ProfileLabel>(
            ProfileLabel{std::string(text)});
        uncount.Commit();
        return label;
      },
      [] { return std::unique_ptr<const ProfileLabel>(); });
}

}  // namespace

const ProfileLabel* ProfileLabels::Intern(std::string_view text) {
  text = text.substr(0, kMaxBytes);
  std::unique_ptr<const ProfileLabel> fresh;
  size_t index = std::hash<std::string_view>()(text) % kSlots;
  for (;;) {
    const ProfileLabel* label = slots[index].load(std::memory_order_acquire);
    if (label == nullptr) {
      if (fresh == nullptr) {
        fresh = NewLabel(text);
        if (fresh == nullptr) {
          num_dropped.fetch_add(1, std::memory_order_relaxed);
          return nullptr;
        }
      }
      // Release: who finds the label finds its text.
      if (slots[index].compare_exchange_strong(label, fresh.get(),
                                               std::memory_order_release,
                                               std::memory_order_acquire)) {
        return fresh.release();
      }
    }
    if (label->text == text) {
      if (fresh != nullptr) num_labels.fetch_sub(1, std::memory_order_relaxed);
      return label;
    }
    index = (index + 1) % kSlots;
  }
}

uint64_t ProfileLabels::dropped() {
  return num_dropped.load(std::memory_order_relaxed);
}

const ProfileLabel* ProfileLabels::Current() {
  return current_label.load(std::memory_order_relaxed);
}

void ProfileLabels::SetCurrent(const ProfileLabel* label) {
  // Release: a handler on this thread, or who reads its sample, sees the text.
  current_label.store(label, std::memory_order_release);
}

}  // namespace internal

using internal::ProfileLabel;
using internal::ProfileLabels;

ScopedProfileLabel::ScopedProfileLabel(std::string_view text)
    : outer_(ProfileLabels::Current()) {
  internal::NoteStackBounds();
  if (const ProfileLabel* label = ProfileLabels::Intern(text)) {
    ProfileLabels::SetCurrent(label);
  }
}

ScopedProfileLabel::~ScopedProfileLabel() {
  ProfileLabels::SetCurrent(static_cast<const ProfileLabel*>(outer_));
}

uint64_t ScopedProfileLabel::dropped() { return ProfileLabels::dropped(); }

}  // namespace tracering
