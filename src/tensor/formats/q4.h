// q4: 4-bit integers, groups of 64 columns along a row, one scale per group, no zero point.
//
// A block is 16 outputs times 64 columns, 512 bytes. For each pair of steps of 4 columns in order:
// 64 bytes = 16 outputs x 4 consecutive columns, an output's 4 bytes adjacent; the low nibbles hold
// the pair's first step, the high nibbles its second. A nibble is the code plus 8; codes are -8 ...
// 7. The scale may be negative, so that the largest magnitude can meet -8 whatever its sign.
#pragma once

#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>

namespace ft {

struct Q4Block {
  static constexpr int kOffset = 8;

  std::uint8_t bytes[kQuantGroup / kQuantStep / 2][kPanelRows][kQuantStep];

  int code(std::size_t row, std::size_t col) const noexcept {
    const std::size_t step = col / kQuantStep;
    const int byte = bytes[step / 2][row][col % kQuantStep];
    return (step % 2 == 0 ? byte & 15 : byte >> 4) - kOffset;
  }
  void set_code(std::size_t row, std::size_t col, int code) noexcept {
    const std::size_t step = col / kQuantStep;
    std::uint8_t& byte = bytes[step / 2][row][col % kQuantStep];
    const int nibble = code + kOffset;
    byte = static_cast<std::uint8_t>(step % 2 == 0 ? (byte & 0xF0) | nibble
                                                   : (byte & 0x0F) | nibble << 4);
  }
};
static_assert(sizeof(Q4Block) == 512 && alignof(Q4Block) == 1);

/// codes[i] = nearest integer to values[i] / scale within -8 ... 7. The scale, returned as f32, is
/// a bf16 value near the one of least squared error: the best of a few that put the largest
/// magnitude near -8, then fitted to its codes. Values must be finite.
float quantize_q4_group(const float (&values)[kQuantGroup],
                        std::int8_t (&codes)[kQuantGroup]) noexcept;

}  // namespace ft
