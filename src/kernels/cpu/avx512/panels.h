// Integer weights in panels to f32, sixteen outputs times four columns at a time, and their scales.
#pragma once

#include "kernels/cpu/avx512/decode.h"
#include "tensor/formats/quantized_matrix.h"

namespace ft::kernels::avx512 {

/// Scales [at, at + kLanes) of the matrix.
FT_INLINE Vec load_scales(const QuantMatrix& matrix, std::size_t at) noexcept {
  if (matrix.scale_dtype == DType::kF32) {
    return _mm512_loadu_ps(matrix.scales + at * 4);
  }
  const auto* from = reinterpret_cast<const __m256i*>(matrix.scales + at * 2);
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16));
}

/// Bytes become the low mantissa bits of 2^23; what lies above the code is subtracted.
template <QuantFormat Q>
struct PanelDecoder {
  static constexpr int kOffset = Q == QuantFormat::kQ8 ? 128 : 8;
  static constexpr __mmask64 kLowBytes = 0x1111111111111111;

  template <int I>
  FT_INLINE_MEMBER static Vec column(__m512i bytes) noexcept {
    // Byte 4d + I of each 16 goes to the lowest byte of word d.
    const __m512i from = _mm512_set4_epi32(12 + I, 8 + I, 4 + I, I);
    const __m512i magic = _mm512_set1_epi32(0x4B000000);
    const __m512i word = _mm512_mask_shuffle_epi8(magic, kLowBytes, bytes, from);
    return _mm512_sub_ps(_mm512_castsi512_ps(word), _mm512_set1_ps(0x1p23f + kOffset));
  }

  FT_INLINE_MEMBER Decoded operator()(const std::byte* line,
                                      std::size_t /*sub*/,
                                      std::size_t group) const noexcept {
    __m512i bytes = _mm512_loadu_si512(line);
    if (Q == QuantFormat::kQ4) {
      bytes = group == 0 ? bytes : _mm512_srli_epi16(bytes, 4);
      bytes = _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F));
    }
    return {{column<0>(bytes), column<1>(bytes), column<2>(bytes), column<3>(bytes)}};
  }
};

}  // namespace ft::kernels::avx512
