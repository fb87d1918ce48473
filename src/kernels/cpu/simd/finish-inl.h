// What becomes of the sums of a product: stored, added, or gate and up joined.
#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd/exp-inl.h"

namespace ft::kernels::FT_ISA {

static inline std::size_t smaller(std::size_t a, std::size_t b) noexcept {
  return a < b ? a : b;
}

/// Finished sums [rows of the task, n], rows `stride` apart.
struct FinishedSums {
  const float* data;
  std::size_t stride;
  std::size_t n;
};

/// What happens to them; the first is of output `first`.
using Finish = void (*)(const LinearTask& task,
                        const FinishedSums& sums,
                        std::size_t first) noexcept;

static void finish_matmul(const LinearTask& task,
                          const FinishedSums& sums,
                          std::size_t first) noexcept {
  const std::size_t n = smaller(sums.n, task.n_y - first);
  const float* from = sums.data;
  for (std::size_t row = task.row_begin; row < task.row_end; ++row, from += sums.stride) {
    float* y = task.y + row * task.y_stride + first;
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Vec v = load(from + i);
      store(y + i, task.adds ? add(load(y + i), v) : v);
    }
    if (i < n) {
      const Vec v = load(from + i);
      store_partial(y + i, task.adds ? add(load_partial(y + i, n - i), v) : v, n - i);
    }
  }
}

/// Units or panels, kPanelRows outputs each, alternate between gate and up.
static void finish_swiglu(const LinearTask& task,
                          const FinishedSums& sums,
                          std::size_t first) noexcept {
  const float* from = sums.data;
  for (std::size_t row = task.row_begin; row < task.row_end; ++row, from += sums.stride) {
    for (std::size_t unit = 0; unit < sums.n; unit += 2 * kPanelRows) {
      const std::size_t out = (first + unit) / 2;
      float* y = task.y + row * task.y_stride + out;
      const std::size_t n = smaller(kPanelRows, task.n_y - out);
      for (std::size_t i = 0; i < n; i += kLanes) {
        const Vec value = mul(silu(load(from + unit + i)), load(from + unit + kPanelRows + i));
        if (i + kLanes <= n) {
          store(y + i, value);
        } else {
          store_partial(y + i, value, n - i);
        }
      }
    }
  }
}

}  // namespace ft::kernels::FT_ISA
