// An array over 32-bit indices of which few are in use: pages that are made
// when something in them is first touched. The latest element is remembered:
// most lookups are for the one before.
//
// Elements never move while they exist. Not thread-safe. One that was moved
// from may only be destroyed or assigned to.
#ifndef TRACERING_SRC_CONSUMER_SPARSE_ARRAY_H_
#define TRACERING_SRC_CONSUMER_SPARSE_ARRAY_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tracering::internal {

template <typename T>
class SparseArray {
 public:
  // The element of `index`, or null if it was never touched or was erased.
  T* Find(uint32_t index) {
    if (latest_ != nullptr && index == latest_index_) return latest_;
    const uint32_t page = index / kPageSize;
    if (page >= pages_.size() || pages_[page] == nullptr ||
        !pages_[page]->used.test(index % kPageSize)) {
      return nullptr;
    }
    latest_index_ = index;
    latest_ = &pages_[page]->elements[index % kPageSize];
    return latest_;
  }
  const T* Find(uint32_t index) const {
    return const_cast<SparseArray*>(this)->Find(index);
  }

  // The element of `index`, value-initialised if it is new.
  T& At(uint32_t index) {
    T* element = Find(index);
    return element != nullptr ? *element : Create(index);
  }

  // Forgets the element. Memory is freed when the last one of a page goes.
  void Erase(uint32_t index) {
    if (Find(index) == nullptr) return;
    latest_ = nullptr;
    std::unique_ptr<Page>& page = pages_[index / kPageSize];
    page->elements[index % kPageSize] = T{};
    page->used.reset(index % kPageSize);
    if (page->used.none()) page.reset();
  }

  // Calls visit(index, element) in the order of the indices.
  template <typename Visitor>
  void ForEach(Visitor&& visit) {
    for (uint32_t page = 0; page < pages_.size(); ++page) {
      if (pages_[page] == nullptr) continue;
      for (uint32_t i = 0; i < kPageSize; ++i) {
        if (!pages_[page]->used.test(i)) continue;
        visit(page * kPageSize + i, pages_[page]->elements[i]);
      }
    }
  }

 private:
  static constexpr uint32_t kPageSize = 64;
  struct Page {
    std::bitset<kPageSize> used;
    std::array<T, kPageSize> elements{};
  };

  // Out of line, so that a lookup is short.
  [[gnu::noinline]] T& Create(uint32_t index) {
    const uint32_t page = index / kPageSize;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
    pages_[page]->used.set(index % kPageSize);
    return pages_[page]->elements[index % kPageSize];
  }

  std::vector<std::unique_ptr<Page>> pages_;
  uint32_t latest_index_ = 0;
  T* latest_ = nullptr;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_SPARSE_ARRAY_H_
