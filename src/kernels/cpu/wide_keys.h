// f32 copies of bf16 cache rows that several rows of a call read: each thread widens the rows once,
// into memory of its own that stays in its L2 cache, instead of once per task.
#pragma once

#include "base/buffer.h"
#include "kernels/cpu/cpu_kernels.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::kernels {

class WideKeys {
 public:
  /// Memory is committed when it is first used.
  WideKeys(const CpuKernels& kernels, std::size_t n_threads);

  /// Begins a call on the rows of `sets`, each of n_columns. False if copies are not possible, or
  /// cost more than widening each row's keys: then on() must not be called.
  bool begin(std::span<const KeySet> sets, std::size_t n_columns) noexcept;
  /// The same keys in `thread`'s copy.
  KeySet on(const KeySet& set, std::size_t thread) noexcept;

  /// Elements of some rows, bf16, in `thread`'s memory; n_elements <= kFloats. Ends a call.
  const float* widen(const std::uint16_t* elements,
                     std::size_t n_elements,
                     std::size_t thread) noexcept;

  std::size_t size_bytes() const noexcept { return buffer_.size(); }
  /// What fits, per thread: 512 KiB.
  static constexpr std::size_t kFloats = std::size_t{128} * 1024;

 private:
  float* memory(std::size_t thread) noexcept;

  void (*widen_)(const std::uint16_t* from, std::size_t n, float* to) noexcept;
  Buffer buffer_;
  std::vector<std::uint64_t> calls_;  // per thread: the call that its copy belongs to; 0: none
  std::uint64_t call_ = 0;
  std::size_t n_elements_ = 0;
};

/// All rows read one bf16 cache.
bool share_bf16_cache(std::span<const KeySet> sets) noexcept;

}  // namespace ft::kernels
