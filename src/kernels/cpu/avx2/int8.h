// Integer dots of AVX2: by AVX-VNNI in the file compiled for it, else sums of two products must fit
// 16 bits.
#pragma once

#include "kernels/cpu/avx2/panels.h"

namespace ft::kernels::avx2 {

using IntVec = __m256i;
using Input = __m256i;

FT_INLINE Input load_input(const std::int8_t* from) noexcept {
  int codes;
  __builtin_memcpy(&codes, from, 4);
  return _mm256_set1_epi32(codes);
}
FT_INLINE Vec to_float(IntVec v) noexcept {
  return _mm256_cvtepi32_ps(v);
}
/// Nibbles of a line's low (0) or high (1) half.
FT_INLINE __m256i nibbles(const std::byte* line, std::size_t step) noexcept {
  const __m256i bytes = load_bytes(line);
  return _mm256_and_si256(step == 0 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}
/// Codes of q4 with the offset of q8.
FT_INLINE void unpack_codes(const std::byte* line, std::size_t step, std::byte* to) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_add_epi8(nibbles(line, step), _mm256_set1_epi8(128 - 8)));
}
namespace {  // another one in each file that includes this

#if defined(__AVXVNNI__)

/// Unsigned codes as they are, and their offset taken off first.
template <QuantFormat Q>
struct Dot {
  static constexpr std::size_t kSteps = Q == QuantFormat::kQ8 ? 1 : 2;
  static constexpr int kOffsetBits = Q == QuantFormat::kQ8 ? 7 : 3;
  using Codes = __m256i;

  FT_INLINE_MEMBER static IntVec start(std::int32_t minus_sum) noexcept {
    return _mm256_slli_epi32(_mm256_set1_epi32(minus_sum), kOffsetBits);
  }
  FT_INLINE_MEMBER static Codes load_codes(const std::byte* line, std::size_t step) noexcept {
    return Q == QuantFormat::kQ8 ? load_bytes(line) : nibbles(line, step);
  }
  FT_INLINE_MEMBER static IntVec add(IntVec sum, Codes codes, Input input) noexcept {
    return _mm256_dpbusd_avx_epi32(sum, codes, input);
  }
};

#else

/// sum += four products of unsigned with signed bytes, of which neighbours' sums fit 16 bits.
FT_INLINE IntVec add_products(IntVec sum, __m256i a, __m256i b) noexcept {
  const __m256i pairs = _mm256_maddubs_epi16(a, b);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <QuantFormat Q>
struct Dot;

/// Magnitudes of the codes, at most 128, times inputs with the codes' signs: 2 * 128 * 127 < 2^15.
template <>
struct Dot<QuantFormat::kQ8> {
  static constexpr std::size_t kSteps = 1;
  struct Codes {
    __m256i code;
    __m256i magnitude;
  };

  FT_INLINE_MEMBER static IntVec start(std::int32_t /*minus_sum*/) noexcept {
    return _mm256_setzero_si256();
  }
  FT_INLINE_MEMBER static Codes load_codes(const std::byte* line, std::size_t /*step*/) noexcept {
    const __m256i code =
        _mm256_xor_si256(load_bytes(line), _mm256_set1_epi8(static_cast<char>(0x80)));
    return {code, _mm256_abs_epi8(code)};
  }
  FT_INLINE_MEMBER static IntVec add(IntVec sum, Codes codes, Input input) noexcept {
    return add_products(sum, codes.magnitude, _mm256_sign_epi8(input, codes.code));
  }
};

/// Nibbles as they are, 2 * 15 * 127 < 2^15, and their offset taken off first.
template <>
struct Dot<QuantFormat::kQ4> {
  static constexpr std::size_t kSteps = 2;
  using Codes = __m256i;

  FT_INLINE_MEMBER static IntVec start(std::int32_t minus_sum) noexcept {
    return _mm256_slli_epi32(_mm256_set1_epi32(minus_sum), 3);
  }
  FT_INLINE_MEMBER static Codes load_codes(const std::byte* line, std::size_t step) noexcept {
    return nibbles(line, step);
  }
  FT_INLINE_MEMBER static IntVec add(IntVec sum, Codes codes, Input input) noexcept {
    return add_products(sum, codes, input);
  }
};

#endif

}  // namespace
}  // namespace ft::kernels::avx2
