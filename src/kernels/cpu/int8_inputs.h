// The int8 copies of one call's inputs, made once per distinct input before its products run. Owns
// the memory, whose size bounds how many products one call of the schedule can hold; knows no
// threads and no instruction set.
#pragma once

#include "base/buffer.h"
#include "kernels/kernels.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft::kernels {

class Int8Inputs {
 public:
  /// Inputs of a call at most.
  static constexpr std::size_t kMax = 64;

  /// Rows [0, n_rows) of x, or those that `rows` names, one after the other at `codes`.
  struct Input {
    ConstMatrix x;
    const std::uint32_t* rows;
    std::size_t n_rows;
    std::byte* codes;
    std::size_t row_bytes;
  };
  /// What a product reads: row i at codes + (rows ? rows[i] : i) * stride. Null for other products.
  struct View {
    const std::byte* codes = nullptr;
    std::size_t stride = 0;
    const std::uint32_t* rows = nullptr;
  };

  /// Memory is committed when it is first used.
  explicit Int8Inputs(std::size_t size_bytes) : buffer_(size_bytes) {}

  /// Lays out the inputs of as many of the first kMax ops as fit, and returns how many those are.
  /// Forgets the inputs of the call before.
  template <typename Op>
  std::size_t lay_out(std::span<const Op> ops) noexcept {
    n_inputs_ = 0;
    n_bytes_ = 0;
    std::size_t n = 0;
    while (n < ops.size() && n < kMax && add(n, ops[n], wanted_rows(ops, ops[n]))) {
      ++n;
    }
    return n;
  }
  /// Most rows of this width that fit, at least 1.
  std::size_t most_rows(std::size_t n_cols) const noexcept;

  /// Memory that inputs of `n_values` take at most, however they are divided into rows.
  std::size_t most_bytes(std::uint64_t n_values) const noexcept;
  std::span<const Input> inputs() const noexcept { return {inputs_, n_inputs_}; }
  const View& view(std::size_t op) const noexcept { return views_[op]; }

 private:
  template <typename Op>
  static bool is_int8(const Op& op) noexcept {
    return op.weight->quant.codes != nullptr && op.weight->activation == Activation::kInt8;
  }
  /// Rows that all ops of the call take from this op's input.
  template <typename Op>
  static std::size_t wanted_rows(std::span<const Op> ops, const Op& op) noexcept {
    std::size_t n = 0;
    for (const Op& other : ops) {
      n += is_int8(other) && other.x.data == op.x.data ? other.y.n_rows : 0;
    }
    return n;
  }
  template <typename Op>
  bool add(std::size_t index, const Op& op, std::size_t n_wanted) noexcept {
    views_[index] = {};
    return !is_int8(op) || op.y.n_rows == 0 ||
           add_input(index, op.x, op.x_rows, op.y.n_rows, n_wanted);
  }
  bool add_input(std::size_t index,
                 ConstMatrix x,
                 const std::uint32_t* rows,
                 std::size_t n_rows,
                 std::size_t n_wanted) noexcept;

  Buffer buffer_;
  std::size_t n_bytes_ = 0;
  std::size_t n_inputs_ = 0;
  Input inputs_[kMax];
  View views_[kMax];
};

}  // namespace ft::kernels
