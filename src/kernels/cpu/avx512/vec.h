// Sixteen floats of AVX-512. The other instruction sets offer the same vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define FT_ISA avx512
#define FT_INLINE [[gnu::always_inline]] static inline
#define FT_INLINE_MEMBER [[gnu::always_inline]] inline

namespace ft::kernels::avx512 {

using Vec = __m512;
inline constexpr std::size_t kLanes = 16;

FT_INLINE Vec zero() noexcept {
  return _mm512_setzero_ps();
}
FT_INLINE Vec broadcast(float value) noexcept {
  return _mm512_set1_ps(value);
}
FT_INLINE Vec load(const float* from) noexcept {
  return _mm512_loadu_ps(from);
}
FT_INLINE void store(float* to, Vec v) noexcept {
  _mm512_storeu_ps(to, v);
}
/// The first n < kLanes elements; the others read as 0 and are not touched in memory.
FT_INLINE Vec load_partial(const float* from, std::size_t n) noexcept {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), from);
}
FT_INLINE void store_partial(float* to, Vec v, std::size_t n) noexcept {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1u), v);
}
/// bf16 values as floats.
FT_INLINE Vec widen_bf16(const std::uint16_t* from) noexcept {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

FT_INLINE Vec add(Vec a, Vec b) noexcept {
  return _mm512_add_ps(a, b);
}
FT_INLINE Vec sub(Vec a, Vec b) noexcept {
  return _mm512_sub_ps(a, b);
}
FT_INLINE Vec mul(Vec a, Vec b) noexcept {
  return _mm512_mul_ps(a, b);
}
FT_INLINE Vec div(Vec a, Vec b) noexcept {
  return _mm512_div_ps(a, b);
}
/// a * b + c, rounded once.
FT_INLINE Vec fma(Vec a, Vec b, Vec c) noexcept {
  return _mm512_fmadd_ps(a, b, c);
}
/// c - a * b, rounded once.
FT_INLINE Vec negative_fma(Vec a, Vec b, Vec c) noexcept {
  return _mm512_fnmadd_ps(a, b, c);
}
FT_INLINE Vec max(Vec a, Vec b) noexcept {
  return _mm512_max_ps(a, b);
}
FT_INLINE Vec sqrt(Vec v) noexcept {
  return _mm512_sqrt_ps(v);
}
/// Per lane: a < b ? yes : no.
FT_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) noexcept {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
/// To the nearest integer, ties to even.
FT_INLINE Vec round(Vec v) noexcept {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// 2^n for integers n in [-126, 127].
FT_INLINE Vec pow2(Vec n) noexcept {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}

/// Integers of at most 127 in magnitude as signed bytes.
FT_INLINE void store_int8(std::int8_t* to, Vec v) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/// Sum of the lanes as a tree: halves, quarters, eighths, neighbours.
FT_INLINE float sum_lanes(Vec v) noexcept {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
FT_INLINE float max_lanes(Vec v) noexcept {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

/// Dots computed at one time: accumulators in registers beside their operands.
inline constexpr std::size_t kDotSums = 16;
/// Vectors of 4 heads' sums kept in registers.
inline constexpr std::size_t kStripVecs = 4;

/// Lane i is the sum of the lanes of v[i], in sum_lanes()' order.
FT_INLINE Vec sum_each(const Vec* v) noexcept {
  const auto halves = [](Vec a, Vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  };
  const auto quarters = [](Vec a, Vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  const auto eighths = [](Vec a, Vec b) {
    const __m512d a_pairs = _mm512_castps_pd(a);
    const __m512d b_pairs = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a_pairs, b_pairs)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(a_pairs, b_pairs)));
  };
  // Each 128 bits hold 4 partial sums of v[i], v[i + 4], v[i + 8] and v[i + 12].
  const auto column = [&](std::size_t i) {
    return quarters(halves(v[i], v[i + 4]), halves(v[i + 8], v[i + 12]));
  };
  const Vec low = eighths(column(0), column(1));
  const Vec high = eighths(column(2), column(3));
  return _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xdd));
}

using UintVec = __m512i;

FT_INLINE UintVec broadcast_uint(std::uint32_t value) noexcept {
  return _mm512_set1_epi32(static_cast<int>(value));
}
FT_INLINE void store_uint(std::uint32_t* to, UintVec v) noexcept {
  _mm512_storeu_si512(to, v);
}
FT_INLINE UintVec sub_uint(UintVec a, UintVec b) noexcept {
  return _mm512_sub_epi32(a, b);
}
FT_INLINE UintVec min_uint(UintVec a, UintVec b) noexcept {
  return _mm512_min_epu32(a, b);
}
FT_INLINE std::uint32_t least_lane(UintVec v) noexcept {
  return _mm512_reduce_min_epu32(v);
}
/// By the same count < 32 in all lanes.
FT_INLINE UintVec shift_right(UintVec v, unsigned count) noexcept {
  return _mm512_srl_epi32(v, _mm_cvtsi32_si128(static_cast<int>(count)));
}
/// Bit i: a_i <= b_i.
FT_INLINE std::uint32_t at_most_bits(UintVec a, UintVec b) noexcept {
  return _mm512_cmple_epu32_mask(a, b);
}
/// Integers in the order of the floats: sign bit inverted, or all bits if negative.
FT_INLINE UintVec ordered(Vec v) noexcept {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i sign = _mm512_srai_epi32(bits, 31);
  return _mm512_xor_si512(bits, _mm512_or_si512(sign, _mm512_set1_epi32(INT32_MIN)));
}

}  // namespace ft::kernels::avx512
