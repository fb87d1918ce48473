// Integer weights in panels to f32, four outputs times four columns at a time, and their scales.
#pragma once

#include "kernels/cpu/neon/decode.h"
#include "tensor/formats/quantized_matrix.h"

namespace ft::kernels::neon {

/// Scales [at, at + kLanes) of the matrix.
FT_INLINE Vec load_scales(const QuantMatrix& matrix, std::size_t at) noexcept {
  if (matrix.scale_dtype == DType::kF32) {
    return vld1q_f32(reinterpret_cast<const float*>(matrix.scales) + at);
  }
  const auto* from = reinterpret_cast<const std::uint8_t*>(matrix.scales + at * 2);
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(from)), 16));
}

template <QuantFormat Q>
struct PanelDecoder {
  static constexpr int kOffset = Q == QuantFormat::kQ8 ? 128 : 8;

  template <int I>
  FT_INLINE_MEMBER static Vec column(uint32x4_t bytes) noexcept {
    const uint32x4_t byte = vandq_u32(vshlq_u32(bytes, vdupq_n_s32(-8 * I)), vdupq_n_u32(0xFF));
    return vsubq_f32(vcvtq_f32_u32(byte), vdupq_n_f32(kOffset));
  }

  FT_INLINE_MEMBER Decoded operator()(const std::byte* line,
                                      std::size_t sub,
                                      std::size_t group) const noexcept {
    uint32x4_t bytes = load_words(line + sub * 16);
    if (Q == QuantFormat::kQ4) {
      bytes = group == 0 ? bytes : vshrq_n_u32(bytes, 4);
      bytes = vandq_u32(bytes, vdupq_n_u32(0x0F0F0F0F));
    }
    return {{column<0>(bytes), column<1>(bytes), column<2>(bytes), column<3>(bytes)}};
  }
};

}  // namespace ft::kernels::neon
