// What every block computes with: a device, threads for the scalar work between its verbs, scratch
// memory, and views.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_meter.h"
#include "kernels/kernels.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <span>
#include <stop_token>

namespace ft::nn {

/// Borrowed for one call. The pool is the backend's own: the two are never busy at the same time.
struct Compute {
  kernels::Backend& backend;
  ThreadPool& pool;
  WorkMeter* meter = nullptr;             // null: nobody measures
  const std::stop_token* stop = nullptr;  // ends waiting for experts; null: nothing does

  /// Backend::matmul and swiglu, their weights counted.
  void matmul(std::span<const kernels::MatmulOp> ops) const noexcept;
  void swiglu(std::span<const kernels::SwigluOp> ops) const noexcept;
};

/// f32 scratch that only grows, so that a forward of a size seen before allocates nothing.
class ScratchMatrix {
 public:
  /// A dense matrix of unspecified contents; dies at the next call. Throws ResourceExhausted.
  MutableMatrix shape(std::size_t n_rows, std::size_t n_cols);

 private:
  Buffer buffer_;
};

inline MutableMatrix rows_of(MutableMatrix m, std::size_t begin, std::size_t n) {
  return {m.data + begin * m.stride, n, m.n_cols, m.stride};
}
inline ConstMatrix rows_of(ConstMatrix m, std::size_t begin, std::size_t n) {
  return {m.data + begin * m.stride, n, m.n_cols, m.stride};
}
inline MutableMatrix columns_of(MutableMatrix m, std::size_t begin, std::size_t n) {
  return {m.data + begin, m.n_rows, n, m.stride};
}
inline ConstMatrix columns_of(ConstMatrix m, std::size_t begin, std::size_t n) {
  return {m.data + begin, m.n_rows, n, m.stride};
}

/// y = W x, or y += W x, with the shapes checked.
inline kernels::MatmulOp linear(
    MutableMatrix y,
    ConstMatrix x,
    const kernels::Weight& weight,
    kernels::MatmulOp::Store store = kernels::MatmulOp::Store::kAssign) {
  FT_CHECK(x.n_cols == weight.n_in && y.n_cols == weight.n_out && y.n_rows == x.n_rows);
  return {.y = y, .x = x, .weight = &weight, .x_rows = nullptr, .store = store};
}

/// Whether no value is an infinity or NaN.
bool all_finite(ConstMatrix m) noexcept;

}  // namespace ft::nn
