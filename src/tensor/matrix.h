// Non-owning views of matrices. Rows are tokens for activations and outputs for weights.
#pragma once

#include "tensor/dtype.h"

#include <cstddef>
#include <span>

namespace ft {

/// f32, row-major; row i starts at data + i * stride (stride in elements, >= n_cols).
struct ConstMatrix {
  const float* data = nullptr;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  std::size_t stride = 0;

  std::span<const float> row(std::size_t i) const noexcept { return {data + i * stride, n_cols}; }
};

struct MutableMatrix {
  float* data = nullptr;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  std::size_t stride = 0;

  std::span<float> row(std::size_t i) const noexcept { return {data + i * stride, n_cols}; }
  // NOLINTNEXTLINE(google-explicit-constructor): a view of the same memory
  operator ConstMatrix() const noexcept { return {data, n_rows, n_cols, stride}; }
};

/// A stored weight matrix as the checkpoint holds it, [n_rows, n_cols] of any dtype, possibly
/// transposed or a part of a larger one. Element (r, c) is at data + (r * row_stride + c *
/// col_stride) elements, unaligned. If `scales` is not null, its value is multiplied by scales[((r
/// + row_origin) / block_rows) * scale_row_stride +
/// ((c + col_origin) / block_cols) * scale_col_stride] (f32, possibly unaligned): FP8 block scales,
/// multiplied despite the checkpoint's name `weight_scale_inv`.
struct StoredMatrix {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  std::size_t row_stride = 0;
  std::size_t col_stride = 1;

  const std::byte* scales = nullptr;
  std::size_t block_rows = 1;
  std::size_t block_cols = 1;
  std::size_t scale_row_stride = 0;
  std::size_t scale_col_stride = 1;
  std::size_t row_origin = 0;
  std::size_t col_origin = 0;

  /// The value of one element in f32: the reference conversion (format value times scale, one
  /// rounding).
  float at(std::size_t r, std::size_t c) const noexcept;
  /// Rows [begin, begin + n) of the same matrix.
  StoredMatrix rows(std::size_t begin, std::size_t n) const noexcept;
  /// The same elements with rows and columns exchanged.
  StoredMatrix transposed() const noexcept;
};

}  // namespace ft
