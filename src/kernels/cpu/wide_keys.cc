#include "kernels/cpu/wide_keys.h"

#include <algorithm>

namespace ft::kernels {
namespace {

/// Cache rows from the first one to the last one that the set names.
std::size_t span_of(const KeySet& set) noexcept {
  return set.n == 0 || set.positions == nullptr
             ? set.n
             : static_cast<std::size_t>(set.positions[set.n - 1]) + 1;
}

}  // namespace

bool share_bf16_cache(std::span<const KeySet> sets) noexcept {
  return std::all_of(sets.begin(), sets.end(), [&](const KeySet& set) {
    return set.dtype == DType::kBF16 && set.keys == sets[0].keys;
  });
}

WideKeys::WideKeys(const CpuKernels& kernels, std::size_t n_threads)
    : widen_(kernels.widen), buffer_(n_threads * kFloats * sizeof(float)), calls_(n_threads) {}

float* WideKeys::memory(std::size_t thread) noexcept {
  return buffer_.as<float>(kFloats * (thread + 1)).data() + kFloats * thread;
}

bool WideKeys::begin(std::span<const KeySet> sets, std::size_t n_columns) noexcept {
  if (sets.size() < 2 || !share_bf16_cache(sets)) {
    return false;
  }
  std::size_t n_keys = 0;
  std::size_t n_rows = 0;
  for (const KeySet& set : sets) {
    n_keys += set.n;
    n_rows = std::max(n_rows, span_of(set));
  }
  n_elements_ = n_rows * n_columns;
  if (n_elements_ > kFloats || n_keys < n_rows * calls_.size()) {
    return false;
  }
  ++call_;
  return true;
}

KeySet WideKeys::on(const KeySet& set, std::size_t thread) noexcept {
  if (calls_[thread] != call_) {
    widen_(static_cast<const std::uint16_t*>(set.keys), n_elements_, memory(thread));
    calls_[thread] = call_;
  }
  return {.keys = memory(thread), .positions = set.positions, .n = set.n, .dtype = DType::kF32};
}

const float* WideKeys::widen(const std::uint16_t* elements,
                             std::size_t n_elements,
                             std::size_t thread) noexcept {
  widen_(elements, n_elements, memory(thread));
  calls_[thread] = 0;
  return memory(thread);
}

}  // namespace ft::kernels
