// Integer weights in panels to f32, eight outputs times four columns at a time, and their scales.
#pragma once

#include "kernels/cpu/avx2/decode.h"
#include "tensor/formats/quantized_matrix.h"

namespace ft::kernels::avx2 {

/// Scales [at, at + kLanes) of the matrix.
FT_INLINE Vec load_scales(const QuantMatrix& matrix, std::size_t at) noexcept {
  if (matrix.scale_dtype == DType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(matrix.scales) + at);
  }
  const auto* from = reinterpret_cast<const __m128i*>(matrix.scales + at * 2);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16));
}

template <QuantFormat Q>
struct PanelDecoder {
  static constexpr int kOffset = Q == QuantFormat::kQ8 ? 128 : 8;

  template <int I>
  FT_INLINE_MEMBER static Vec column(__m256i bytes) noexcept {
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(bytes, 8 * I), _mm256_set1_epi32(0xFF));
    return _mm256_sub_ps(_mm256_cvtepi32_ps(byte), _mm256_set1_ps(kOffset));
  }

  FT_INLINE_MEMBER Decoded operator()(const std::byte* line,
                                      std::size_t sub,
                                      std::size_t group) const noexcept {
    __m256i bytes = load_bytes(line + sub * 32);
    if (Q == QuantFormat::kQ4) {
      bytes = group == 0 ? bytes : _mm256_srli_epi16(bytes, 4);
      bytes = _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
    }
    return {{column<0>(bytes), column<1>(bytes), column<2>(bytes), column<3>(bytes)}};
  }
};

}  // namespace ft::kernels::avx2
