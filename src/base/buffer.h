// Owned, aligned, zero-initialised anonymous memory.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace ft {

/// A move-only block of anonymous memory, aligned to at least 64 bytes. Pages are committed on
/// first touch, so a large buffer costs only what is written. Blocks of 2 MiB or more are aligned
/// to 2 MiB and ask for huge pages.
class Buffer {
 public:
  Buffer() = default;
  /// Throws ResourceExhausted when the address space or the memory limit is used up.
  explicit Buffer(std::size_t size_bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  /// The first n objects of the buffer seen as T. The caller keeps to size(); T must be trivial.
  template <typename T>
  std::span<T> as(std::size_t n) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data_), n};
  }
  template <typename T>
  std::span<const T> as(std::size_t n) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<const T*>(data_), n};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_bytes_ = 0;
  std::byte* mapping_ = nullptr;
};

}  // namespace ft
