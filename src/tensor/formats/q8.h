// q8: 8-bit integers, groups of 64 columns along a row, one scale per group.
//
// A block is 16 outputs times 64 columns, 1024 bytes. For each step of 4 columns in order: 64 bytes
// = 16 outputs x 4 consecutive columns, an output's 4 bytes adjacent, as dot-product instructions
// read them. A byte is the code plus 128; the quantizer's codes are -127 ... 127.
#pragma once

#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>

namespace ft {

struct Q8Block {
  static constexpr int kOffset = 128;

  std::uint8_t bytes[kQuantGroup / kQuantStep][kPanelRows][kQuantStep];

  int code(std::size_t row, std::size_t col) const noexcept {
    return bytes[col / kQuantStep][row][col % kQuantStep] - kOffset;
  }
  void set_code(std::size_t row, std::size_t col, int code) noexcept {
    bytes[col / kQuantStep][row][col % kQuantStep] = static_cast<std::uint8_t>(code + kOffset);
  }
};
static_assert(sizeof(Q8Block) == 1024 && alignof(Q8Block) == 1);

/// codes[i] = nearest integer to values[i] / scale, scale = largest magnitude / 127 in bf16, which
/// is returned as f32. Values must be finite.
float quantize_q8_group(const float (&values)[kQuantGroup],
                        std::int8_t (&codes)[kQuantGroup]) noexcept;

}  // namespace ft
