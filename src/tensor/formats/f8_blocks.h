// A matrix in E4M3 with one f32 scale per run of columns of each row: the project's own 8-bit copy
// of a float matrix, where a small error is allowed. Layout: codes [n_rows, n_cols] row-major, then
// scales [n_rows, ceil(n_cols / kF8BlockCols)] f32; value = code * scale.
#pragma once

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tensor/matrix.h"

#include <cstddef>

namespace ft {

/// Columns that share a scale.
inline constexpr std::size_t kF8BlockCols = 128;

/// Owns the bytes its view points into.
class F8Blocks {
 public:
  /// Rounds every element to the nearest code of its block, whose scale makes the largest magnitude
  /// 448. Relative error at most 2^-4 of an element, or 2^-10 / 448 of the block's largest.
  /// Elements must be finite. Rows are converted in parallel; the result does not depend on the
  /// threads.
  F8Blocks(const StoredMatrix& source, ThreadPool& pool);

  StoredMatrix view() const noexcept;

 private:
  std::size_t n_rows_;
  std::size_t n_cols_;
  std::size_t n_blocks_;
  Buffer codes_;
  Buffer scales_;
};

}  // namespace ft
