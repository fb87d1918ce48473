#include "base/buffer.h"

#include "base/error.h"

#include <cstdint>
#include <limits>
#include <sys/mman.h>
#include <utility>

namespace ft {
namespace {

// The huge page of x86-64 and of AArch64 with 4 KiB granules. Smaller blocks gain nothing from it.
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

Buffer::Buffer(std::size_t size_bytes) {
  if (size_bytes == 0) {
    return;
  }
  const bool is_huge = size_bytes >= kHugePageBytes;
  const std::size_t slack =
      is_huge ? kHugePageBytes : 0;  // room to move the start up to an aligned address
  // MAP_NORESERVE: only touched pages count, so a generous bound (a cache for the longest context)
  // is free.
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapping = MAP_FAILED;
  if (size_bytes <= std::numeric_limits<std::size_t>::max() - slack) {
    mapping = mmap(nullptr, size_bytes + slack, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  }
  if (mapping == MAP_FAILED) {
    throw ResourceExhausted(
        fmt::format("cannot allocate {} bytes: out of memory or address space", size_bytes));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  mapped_bytes_ = size_bytes + slack;
  size_ = size_bytes;
  data_ = mapping_;
  if (is_huge) {
    const std::size_t misalignment = reinterpret_cast<std::uintptr_t>(mapping_) % kHugePageBytes;
    data_ += misalignment == 0 ? 0 : kHugePageBytes - misalignment;
    madvise(data_, size_, MADV_HUGEPAGE);  // a hint: kernels without huge pages refuse it
  }
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapped_bytes_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer moved(std::move(other));  // takes the block first, so that self-assignment keeps it
  std::swap(data_, moved.data_);
  std::swap(size_, moved.size_);
  std::swap(mapped_bytes_, moved.mapped_bytes_);
  std::swap(mapping_, moved.mapping_);
  return *this;
}

}  // namespace ft
