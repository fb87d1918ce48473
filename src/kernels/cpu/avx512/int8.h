// Integer dots of AVX-512 VNNI: unsigned weight codes times signed inputs, four to a 32-bit sum.
#pragma once

#include "kernels/cpu/avx512/panels.h"

namespace ft::kernels::avx512 {

using IntVec = __m512i;
using Input = __m512i;

FT_INLINE Input load_input(const std::int8_t* from) noexcept {
  int codes;
  __builtin_memcpy(&codes, from, 4);
  return _mm512_set1_epi32(codes);
}
FT_INLINE Vec to_float(IntVec v) noexcept {
  return _mm512_cvtepi32_ps(v);
}
/// Nibbles of a line's low (0) or high (1) half.
FT_INLINE __m512i nibbles(const std::byte* line, std::size_t step) noexcept {
  const __m512i bytes = _mm512_loadu_si512(line);
  return _mm512_and_si512(step == 0 ? bytes : _mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
}

template <QuantFormat Q>
struct Dot {
  static constexpr std::size_t kSteps = Q == QuantFormat::kQ8 ? 1 : 2;
  static constexpr int kOffsetBits = Q == QuantFormat::kQ8 ? 7 : 3;
  using Codes = __m512i;

  FT_INLINE_MEMBER static IntVec start(std::int32_t minus_sum) noexcept {
    return _mm512_slli_epi32(_mm512_set1_epi32(minus_sum), kOffsetBits);
  }
  FT_INLINE_MEMBER static Codes load_codes(const std::byte* line, std::size_t step) noexcept {
    return Q == QuantFormat::kQ8 ? _mm512_loadu_si512(line) : nibbles(line, step);
  }
  FT_INLINE_MEMBER static IntVec add(IntVec sum, Codes codes, Input input) noexcept {
    // Not the intrinsic: g++ 12 copies the sum before and after it.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(input));
    return sum;
  }
};

/// Codes of q4 with the offset of q8.
FT_INLINE void unpack_codes(const std::byte* line, std::size_t step, std::byte* to) noexcept {
  _mm512_storeu_si512(to, _mm512_add_epi8(nibbles(line, step), _mm512_set1_epi8(128 - 8)));
}

}  // namespace ft::kernels::avx512
