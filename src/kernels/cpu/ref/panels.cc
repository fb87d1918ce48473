// Products of integer weights in panels as their definition.
#include "kernels/cpu/ref/panels.h"

#include "kernels/cpu/int8_rows.h"
#include "tensor/formats/q4.h"
#include "tensor/formats/q8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ft::kernels::ref {
namespace {

/// One output's codes, unpacked once for all rows, and its scales.
struct Output {
  const QuantMatrix* matrix;
  std::size_t index;
  const std::int8_t* codes;

  std::size_t begin(std::size_t block) const { return block * kQuantGroup; }
  std::size_t end(std::size_t block) const {
    return std::min(matrix->n_cols, begin(block) + kQuantGroup);
  }
  float scale(std::size_t block) const { return matrix->scale(index, begin(block)); }
};

float dot_float(const Output& out, const float* x) {
  float total = 0;
  for (std::size_t block = 0; block < out.matrix->n_blocks(); ++block) {
    float sum = 0;
    for (std::size_t k = out.begin(block); k < out.end(block); ++k) {
      sum = std::fma(static_cast<float>(out.codes[k]), x[k], sum);
    }
    total = std::fma(sum, out.scale(block), total);
  }
  return total;
}

float dot_int8(const Output& out, const std::byte* row) {
  const auto* x = reinterpret_cast<const std::int8_t*>(row);
  const std::byte* groups = row + out.matrix->n_blocks() * kQuantGroup;
  float total = 0;
  for (std::size_t block = 0; block < out.matrix->n_blocks(); ++block) {
    Int8Group group;
    std::memcpy(&group, groups + block * sizeof group, sizeof group);
    std::int32_t sum = 0;
    for (std::size_t k = out.begin(block); k < out.end(block); ++k) {
      sum += out.codes[k] * x[k];
    }
    total = std::fma(static_cast<float>(sum), out.scale(block) * group.scale, total);
  }
  return total;
}

template <typename Block>
void unpack_block(const std::byte* at, std::size_t row, std::int8_t* codes) {
  const auto* block = reinterpret_cast<const Block*>(at);
  for (std::size_t k = 0; k < kQuantGroup; ++k) {
    codes[k] = static_cast<std::int8_t>(block->code(row, k));
  }
}

/// The codes of one output, padding included.
void unpack_codes(const QuantMatrix& matrix, std::size_t out, std::int8_t* codes) {
  const std::size_t bytes = block_code_bytes(matrix.format);
  const std::byte* at = matrix.codes + out / kPanelRows * matrix.n_blocks() * bytes;
  for (std::size_t block = 0; block < matrix.n_blocks(); ++block) {
    std::int8_t* to = codes + block * kQuantGroup;
    if (matrix.format == QuantFormat::kQ8) {
      unpack_block<Q8Block>(at + block * bytes, out % kPanelRows, to);
    } else {
      unpack_block<Q4Block>(at + block * bytes, out % kPanelRows, to);
    }
  }
}

}  // namespace

void multiply_panels(const LinearTask& task, const RowOutputs& use) {
  const Weight& weight = *task.weight;
  auto* codes = reinterpret_cast<std::int8_t*>(task.scratch);
  const std::size_t end = std::min(weight.quant.n_rows, task.tile_end * kTilePanels * kPanelRows);
  for (std::size_t out = task.tile_begin * kTilePanels * kPanelRows; out < end; ++out) {
    unpack_codes(weight.quant, out, codes);
    const Output output = {&weight.quant, out, codes};
    for (std::size_t row = task.row_begin; row < task.row_end; ++row) {
      const std::size_t at = task.x_rows != nullptr ? task.x_rows[row] : row;
      use(row,
          out,
          weight.activation == Activation::kInt8
              ? dot_int8(output, task.x_int8 + at * task.x_int8_stride)
              : dot_float(output, task.x + at * task.x_stride));
    }
  }
}

void quantize_row(const float* x, std::size_t n, std::byte* row) noexcept {
  const std::size_t n_blocks = (n + kQuantGroup - 1) / kQuantGroup;
  std::memset(row, 0, n_blocks * kQuantGroup);
  auto* codes = reinterpret_cast<std::int8_t*>(row);
  for (std::size_t block = 0; block < n_blocks; ++block) {
    const std::size_t end = std::min(n, (block + 1) * kQuantGroup);
    float largest = 0;
    bool is_finite = true;
    for (std::size_t k = block * kQuantGroup; k < end; ++k) {
      largest = std::max(largest, std::fabs(x[k]));
      is_finite = is_finite && std::isfinite(x[k]);
    }
    Int8Group group = {is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN(), 0};
    if (is_finite && largest >= kSmallestInput) {
      const float inverse = kLargestInt8 / largest;
      for (std::size_t k = block * kQuantGroup; k < end; ++k) {
        codes[k] = static_cast<std::int8_t>(std::nearbyint(x[k] * inverse));
        group.minus_sum -= codes[k];
      }
      group.scale = largest / kLargestInt8;
    }
    std::memcpy(row + n_blocks * kQuantGroup + block * sizeof group, &group, sizeof group);
  }
}

}  // namespace ft::kernels::ref
