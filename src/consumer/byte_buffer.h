// A growable run of bytes that, unlike std::string and std::vector, does not
// zero what is about to be overwritten.
//
// Not thread-safe. Running out of memory throws std::bad_alloc, as elsewhere;
// callers bound what they ask for.
#ifndef TRACERING_SRC_CONSUMER_BYTE_BUFFER_H_
#define TRACERING_SRC_CONSUMER_BYTE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace tracering::internal {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept { swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    ByteBuffer(std::move(other)).swap(*this);
    return *this;
  }
  void swap(ByteBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }

  // Forgets the bytes and keeps the memory.
  void clear() { size_ = 0; }
  // Gives the memory back.
  void Free() { ByteBuffer().swap(*this); }

  // Makes room for `more` bytes behind the end, at least doubling when it has
  // to grow, and returns the end. What is there keeps its value; pointers into
  // the buffer become invalid.
  uint8_t* EnsureRoom(size_t more) {
    if (capacity_ - size_ < more) Grow(size_ + more);
    return data_.get() + size_;
  }

  // Makes room for exactly `capacity` bytes in all, if it has less.
  void Reserve(size_t capacity) {
    if (capacity > capacity_) Reallocate(capacity);
  }

  // Sets the size, which may not exceed the capacity. Bytes that come into
  // view have whatever value was written there, or none.
  void SetSize(size_t size) { size_ = size; }

  void Append(const void* bytes, size_t size) {
    if (size == 0) return;
    std::memcpy(EnsureRoom(size), bytes, size);
    size_ += size;
  }
  void AppendByte(uint8_t byte) {
    *EnsureRoom(1) = byte;
    ++size_;
  }

 private:
  void Grow(size_t needed) {
    Reallocate(std::max({needed, capacity_ * 2, size_t{64}}));
  }
  void Reallocate(size_t capacity) {
    std::unique_ptr<uint8_t[]> grown(new uint8_t[capacity]);
    if (size_ != 0) std::memcpy(grown.get(), data_.get(), size_);
    data_ = std::move(grown);
    capacity_ = capacity;
  }

  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_BYTE_BUFFER_H_
