#include "nn/compute.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ft::nn {
namespace {

template <typename Op>
void count_weights(WorkMeter* meter, std::span<const Op> ops) noexcept {
  if (meter == nullptr) return;
  for (const Op& op : ops) {
    if (op.y.n_rows > 0) meter->add_weight_bytes(kernels::weight_bytes(*op.weight));
  }
}

}  // namespace

void Compute::matmul(std::span<const kernels::MatmulOp> ops) const noexcept {
  count_weights(meter, ops);
  backend.matmul(ops);
}

void Compute::swiglu(std::span<const kernels::SwigluOp> ops) const noexcept {
  count_weights(meter, ops);
  backend.swiglu(ops);
}

MutableMatrix ScratchMatrix::shape(std::size_t n_rows, std::size_t n_cols) {
  const std::size_t n_floats = n_rows * n_cols;
  if (buffer_.size() < n_floats * sizeof(float)) {
    // Half as much again: a context that grows by one token per call must not reallocate in each.
    const std::size_t with_reserve = buffer_.size() + buffer_.size() / 2;
    buffer_ = Buffer();
    buffer_ = Buffer(std::max(n_floats * sizeof(float), with_reserve));
  }
  return {buffer_.as<float>(n_floats).data(), n_rows, n_cols, n_cols};
}

namespace {

// Inlined with a constant n, compilers turn it into vectors.
inline std::uint32_t count_not_finite(const float* values, std::size_t n) noexcept {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t n_bad = 0;
  for (std::size_t i = 0; i < n; ++i) {
    n_bad += (std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return n_bad;
}

}  // namespace

bool all_finite(ConstMatrix m) noexcept {
  constexpr std::size_t kBlock = 64;
  std::uint32_t n_bad = 0;
  for (std::size_t r = 0; r < m.n_rows; ++r) {
    const std::span<const float> row = m.row(r);
    std::size_t i = 0;
    for (; i + kBlock <= row.size(); i += kBlock) n_bad += count_not_finite(&row[i], kBlock);
    n_bad += count_not_finite(row.data() + i, row.size() - i);
  }
  return n_bad == 0;
}

}  // namespace ft::nn
