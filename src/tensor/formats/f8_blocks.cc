#include "tensor/formats/f8_blocks.h"

#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ft {
namespace {

constexpr float kLargestCode = 448.0F;
/// Rows per task: enough work to pay for a fork, little enough to balance.
constexpr std::size_t kRowsPerTask = 64;

}  // namespace

F8Blocks::F8Blocks(const StoredMatrix& source, ThreadPool& pool)
    : n_rows_(source.n_rows),
      n_cols_(source.n_cols),
      n_blocks_((source.n_cols + kF8BlockCols - 1) / kF8BlockCols),
      codes_(n_rows_ * n_cols_),
      scales_(n_rows_ * n_blocks_ * sizeof(float)) {
  const auto codes = codes_.as<std::uint8_t>(n_rows_ * n_cols_);
  const auto scales = scales_.as<float>(n_rows_ * n_blocks_);
  const auto convert_block = [&](std::size_t row, std::size_t block) {
    const std::size_t begin = block * kF8BlockCols;
    const std::size_t end = std::min(begin + kF8BlockCols, n_cols_);
    float largest = 0;
    for (std::size_t c = begin; c < end; ++c) {
      largest = std::max(largest, std::fabs(source.at(row, c)));
    }
    // Not below the smallest normal: a block of denormals must not divide by zero.
    const float scale = std::max(largest / kLargestCode, std::numeric_limits<float>::min());
    scales[row * n_blocks_ + block] = scale;
    for (std::size_t c = begin; c < end; ++c) {
      codes[row * n_cols_ + c] = float_to_f8e4m3(source.at(row, c) / scale);
    }
  };
  pool.parallel_for(n_rows_, kRowsPerTask, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t row = begin; row < end; ++row) {
      for (std::size_t block = 0; block < n_blocks_; ++block) convert_block(row, block);
    }
  });
}

StoredMatrix F8Blocks::view() const noexcept {
  StoredMatrix matrix;
  matrix.dtype = DType::kF8E4M3;
  matrix.data = codes_.data();
  matrix.n_rows = n_rows_;
  matrix.n_cols = n_cols_;
  matrix.row_stride = n_cols_;
  matrix.scales = scales_.data();
  matrix.block_rows = 1;
  matrix.block_cols = kF8BlockCols;
  matrix.scale_row_stride = n_blocks_;
  return matrix;
}

}  // namespace ft
