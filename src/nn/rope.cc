#include "nn/rope.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ft::nn {
namespace {

/// Rows per task: a row costs about a microsecond, a task should cost ten.
constexpr std::size_t kRowsPerTask = 16;

// Inlined with a constant n, compilers turn it into vectors.
inline void rotate_pairs(const float* in,
                         const float* cos,
                         const float* sin,
                         std::size_t n,
                         float* __restrict first,
                         float* __restrict second) noexcept {
  for (std::size_t j = 0; j < n; ++j) {
    const float a = in[2 * j];
    const float b = in[2 * j + 1];
    first[j] = a * cos[j] - b * sin[j];
    second[j] = b * cos[j] + a * sin[j];
  }
}

}  // namespace

RotaryTable::RotaryTable(double theta, std::size_t rotary_dim) : frequencies_(rotary_dim / 2) {
  FT_CHECK(rotary_dim % 2 == 0 && rotary_dim <= kMaxRotaryDim);
  for (std::size_t j = 0; j < frequencies_.size(); ++j) {
    frequencies_[j] =
        std::pow(theta, -static_cast<double>(2 * j) / static_cast<double>(rotary_dim));
  }
}

void RotaryTable::angles(std::size_t position, float* cos_out, float* sin_out) const noexcept {
  for (std::size_t j = 0; j < frequencies_.size(); ++j) {
    const double angle = static_cast<double>(position) * frequencies_[j];
    cos_out[j] = static_cast<float>(std::cos(angle));
    sin_out[j] = static_cast<float>(std::sin(angle));
  }
}

void Rows::assign(Compute compute, std::span<const Run> runs, const RotaryTable& table) {
  runs_.assign(runs.begin(), runs.end());
  n_rows_ = 0;
  for (const Run& run : runs_) {
    FT_CHECK(run.first_row == n_rows_);
    n_rows_ += run.n_rows;
  }
  cos_ = cos_memory_.shape(n_rows_, table.n_pairs());
  sin_ = sin_memory_.shape(n_rows_, table.n_pairs());
  for (const Run& run : runs_) {
    const auto fill = [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t row = run.first_row + i;
        table.angles(run.first_position + i, cos_.row(row).data(), sin_.row(row).data());
      }
    };
    compute.pool.parallel_for(run.n_rows, kRowsPerTask, fill);
  }
}

void rotate(const float* in,
            std::span<const float> cos,
            std::span<const float> sin,
            float* out) noexcept {
  constexpr std::size_t kBlock = 8;
  const std::size_t n = cos.size();
  std::size_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    rotate_pairs(in + 2 * j, &cos[j], &sin[j], kBlock, out + j, out + n + j);
  }
  rotate_pairs(in + 2 * j, cos.data() + j, sin.data() + j, n - j, out + j, out + n + j);
}

void rotate_in_place(float* x, std::span<const float> cos, std::span<const float> sin) noexcept {
  std::array<float, kMaxRotaryDim> copy;
  std::copy_n(x, 2 * cos.size(), copy.begin());
  rotate(copy.data(), cos, sin, x);
}

}  // namespace ft::nn
