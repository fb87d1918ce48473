// Matrix products as their definition: one fused multiply-add per weight, columns ascending. The
// fast versions keep this order and this rounding, so matmul is equal bit for bit on every
// instruction set.
#include "kernels/cpu/ref/panels.h"
#include "kernels/cpu/ref/ref_kernels.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>

namespace ft::kernels::ref {
namespace {

constexpr std::uint8_t kIdentity[kGroupCols] = {0, 1, 2, 3};
constexpr std::size_t kBlockCols = 512;

const float* input_row(const LinearTask& task, std::size_t row) {
  return task.x + (task.x_rows != nullptr ? task.x_rows[row] : row) * task.x_stride;
}

/// Where the segment that holds column `begin` ends.
std::size_t segment_end(const Weight& weight, std::size_t begin) {
  if (begin < weight.first_segment) {
    return weight.first_segment;
  }
  const std::size_t index = (begin - weight.first_segment) / weight.block_cols;
  return std::min(weight.n_in, weight.first_segment + (index + 1) * weight.block_cols);
}

/// sums[i] = packed output `out` times row row_begin + i. Decodes each weight once for all rows.
void dot_rows(const LinearTask& task, std::size_t out, float* sums, float* partial) {
  const Weight& weight = *task.weight;
  const std::size_t n_rows = task.row_end - task.row_begin;
  const std::size_t width = element_bytes(weight.dtype);
  const std::byte* stored = weight.data + out * round_up(weight.n_in, kGroupCols) * width;
  const float* scale = weight.scales == nullptr ? nullptr : weight.scales + out;
  std::fill(sums, sums + n_rows, 0.0f);
  float decoded[kBlockCols];
  for (std::size_t begin = 0; begin < weight.n_in;) {
    const std::size_t stop = scale == nullptr ? weight.n_in : segment_end(weight, begin);
    std::fill(partial, partial + n_rows, 0.0f);
    float* acc = scale == nullptr ? sums : partial;
    while (begin < stop) {
      const std::size_t n = std::min(kBlockCols, stop - begin);
      convert_to_float(weight.dtype, {stored + begin * width, n * width}, {decoded, n});
      for (std::size_t i = 0; i < n_rows; ++i) {
        const float* x = input_row(task, task.row_begin + i) + begin;
        float sum = acc[i];
        for (std::size_t k = 0; k < n; ++k) {
          sum = std::fma(decoded[k], x[k], sum);
        }
        acc[i] = sum;
      }
      begin += n;
    }
    if (scale != nullptr) {
      for (std::size_t i = 0; i < n_rows; ++i) {
        sums[i] = std::fma(partial[i], *scale, sums[i]);
      }
      scale += weight.n_out;
    }
  }
}

void store_sum(const LinearTask& task, std::size_t row, std::size_t out, float sum) {
  float& y = task.y[row * task.y_stride + out];
  y = task.adds ? y + sum : sum;
}

float swiglu_of(float gate, float up) {
  return gate / (1.0f + std::exp(-gate)) * up;
}

void swiglu_panels(const LinearTask& task) {
  // Up's panel follows that of gate: gate's outputs wait where y will be.
  multiply_panels(task, [&](std::size_t row, std::size_t out, float value) {
    const std::size_t panel = out / kPanelRows;
    const std::size_t column = panel / 2 * kPanelRows + out % kPanelRows;
    if (column < task.n_y) {
      float& y = task.y[row * task.y_stride + column];
      y = panel % 2 == 0 ? value : swiglu_of(y, value);
    }
  });
}

}  // namespace

const WeightFormat kWeightFormat = {
    .unit_outputs = 1, .tile_units = 1, .positions = {kIdentity, kIdentity, kIdentity, kIdentity}};

void matmul(const LinearTask& task) noexcept {
  if (task.weight->quant.codes != nullptr) {
    multiply_panels(task, [&](std::size_t row, std::size_t out, float value) {
      store_sum(task, row, out, value);
    });
    return;
  }
  float* sums = task.scratch;
  float* partial = sums + kMaxTaskRows;
  for (std::size_t out = task.tile_begin; out < task.tile_end; ++out) {
    dot_rows(task, out, sums, partial);
    for (std::size_t row = task.row_begin; row < task.row_end; ++row) {
      store_sum(task, row, out, sums[row - task.row_begin]);
    }
  }
}

void swiglu(const LinearTask& task) noexcept {
  if (task.weight->quant.codes != nullptr) {
    return swiglu_panels(task);
  }
  float* gate = task.scratch;
  float* up = gate + kMaxTaskRows;
  float* partial = up + kMaxTaskRows;
  for (std::size_t out = task.tile_begin; out < task.tile_end; ++out) {
    // A tile is one unit of one output here; a task's tiles come in pairs of gate and up.
    dot_rows(task, out, out % 2 == 0 ? gate : up, partial);
    if (out % 2 == 0) {
      continue;
    }
    for (std::size_t row = task.row_begin; row < task.row_end; ++row) {
      const std::size_t i = row - task.row_begin;
      task.y[row * task.y_stride + out / 2] = swiglu_of(gate[i], up[i]);
    }
  }
}

}  // namespace ft::kernels::ref
