// Inputs of products whose weights are integers and whose activation is kInt8. Written by an
// instruction set's quantize_row(), read by its int8 products; the backend owns the memory.
//
// A row of n columns has n_blocks = ceil(n / kQuantGroup) groups. First the codes of all groups,
// kQuantGroup signed bytes each, absent columns 0; then one Int8Group per group. A code is the
// nearest integer, ties to even, to x * (127 / largest magnitude of the group). A group below
// kSmallestInput counts as zeros; one that holds a NaN or an infinity has the scale NaN and codes
// 0.
#pragma once

#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>

namespace ft::kernels {

struct Int8Group {
  float scale;             // largest magnitude / 127
  std::int32_t minus_sum;  // of the group's codes
};

inline constexpr float kLargestInt8 = 127;
/// Its inverse and 127 times that are still finite.
inline constexpr float kSmallestInput = 0x1p-100f;

/// Bytes of a row, a multiple of 8.
constexpr std::size_t int8_row_bytes(std::size_t n_cols) noexcept {
  const std::size_t n_blocks = (n_cols + kQuantGroup - 1) / kQuantGroup;
  return n_blocks * (kQuantGroup + sizeof(Int8Group));
}

}  // namespace ft::kernels
