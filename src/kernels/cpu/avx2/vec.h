// Eight floats of AVX2 with FMA. The same vocabulary as avx512/vec.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define FT_ISA avx2
#define FT_INLINE [[gnu::always_inline]] static inline
#define FT_INLINE_MEMBER [[gnu::always_inline]] inline

namespace ft::kernels::avx2 {

using Vec = __m256;
inline constexpr std::size_t kLanes = 8;

FT_INLINE Vec zero() noexcept {
  return _mm256_setzero_ps();
}
FT_INLINE Vec broadcast(float value) noexcept {
  return _mm256_set1_ps(value);
}
FT_INLINE Vec load(const float* from) noexcept {
  return _mm256_loadu_ps(from);
}
FT_INLINE void store(float* to, Vec v) noexcept {
  _mm256_storeu_ps(to, v);
}
/// All ones in the first n lanes.
FT_INLINE __m256i first_lanes(std::size_t n) noexcept {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
/// The first n < kLanes elements; the others read as 0 and are not touched in memory.
FT_INLINE Vec load_partial(const float* from, std::size_t n) noexcept {
  return _mm256_maskload_ps(from, first_lanes(n));
}
FT_INLINE void store_partial(float* to, Vec v, std::size_t n) noexcept {
  _mm256_maskstore_ps(to, first_lanes(n), v);
}
/// bf16 values as floats.
FT_INLINE Vec widen_bf16(const std::uint16_t* from) noexcept {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

FT_INLINE Vec add(Vec a, Vec b) noexcept {
  return _mm256_add_ps(a, b);
}
FT_INLINE Vec sub(Vec a, Vec b) noexcept {
  return _mm256_sub_ps(a, b);
}
FT_INLINE Vec mul(Vec a, Vec b) noexcept {
  return _mm256_mul_ps(a, b);
}
FT_INLINE Vec div(Vec a, Vec b) noexcept {
  return _mm256_div_ps(a, b);
}
/// a * b + c, rounded once.
FT_INLINE Vec fma(Vec a, Vec b, Vec c) noexcept {
  return _mm256_fmadd_ps(a, b, c);
}
/// c - a * b, rounded once.
FT_INLINE Vec negative_fma(Vec a, Vec b, Vec c) noexcept {
  return _mm256_fnmadd_ps(a, b, c);
}
FT_INLINE Vec max(Vec a, Vec b) noexcept {
  return _mm256_max_ps(a, b);
}
FT_INLINE Vec sqrt(Vec v) noexcept {
  return _mm256_sqrt_ps(v);
}
/// Per lane: a < b ? yes : no.
FT_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) noexcept {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
/// To the nearest integer, ties to even.
FT_INLINE Vec round(Vec v) noexcept {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// 2^n for integers n in [-126, 127].
FT_INLINE Vec pow2(Vec n) noexcept {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

/// Integers of at most 127 in magnitude as signed bytes.
FT_INLINE void store_int8(std::int8_t* to, Vec v) noexcept {
  const __m256i words = _mm256_cvtps_epi32(v);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(halves, halves));
}

/// Sum of the lanes as a tree: halves, quarters, neighbours.
FT_INLINE float sum_lanes(Vec v) noexcept {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
FT_INLINE float max_lanes(Vec v) noexcept {
  const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

/// Dots computed at one time: accumulators in registers beside their operands.
inline constexpr std::size_t kDotSums = 8;
/// Vectors of 4 heads' sums kept in registers.
inline constexpr std::size_t kStripVecs = 2;

/// Lane i is the sum of the lanes of v[i], in sum_lanes()' order.
FT_INLINE Vec sum_each(const Vec* v) noexcept {
  const auto halves = [](Vec a, Vec b) {
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
  };
  const auto quarters = [](Vec a, Vec b) {
    const __m256d a_pairs = _mm256_castps_pd(a);
    const __m256d b_pairs = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a_pairs, b_pairs)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(a_pairs, b_pairs)));
  };
  const Vec low = quarters(halves(v[0], v[4]), halves(v[1], v[5]));
  const Vec high = quarters(halves(v[2], v[6]), halves(v[3], v[7]));
  return _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd));
}

using UintVec = __m256i;

FT_INLINE UintVec broadcast_uint(std::uint32_t value) noexcept {
  return _mm256_set1_epi32(static_cast<int>(value));
}
FT_INLINE void store_uint(std::uint32_t* to, UintVec v) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
}
FT_INLINE UintVec sub_uint(UintVec a, UintVec b) noexcept {
  return _mm256_sub_epi32(a, b);
}
FT_INLINE UintVec min_uint(UintVec a, UintVec b) noexcept {
  return _mm256_min_epu32(a, b);
}
FT_INLINE std::uint32_t least_lane(UintVec v) noexcept {
  __m128i least = _mm_min_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  least = _mm_min_epu32(least, _mm_shuffle_epi32(least, 0x4e));
  least = _mm_min_epu32(least, _mm_shuffle_epi32(least, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(least));
}
/// By the same count < 32 in all lanes.
FT_INLINE UintVec shift_right(UintVec v, unsigned count) noexcept {
  return _mm256_srl_epi32(v, _mm_cvtsi32_si128(static_cast<int>(count)));
}
/// Bit i: a_i <= b_i.
FT_INLINE std::uint32_t at_most_bits(UintVec a, UintVec b) noexcept {
  const __m256i mask = _mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a);
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
}
/// Integers in the order of the floats: sign bit inverted, or all bits if negative.
FT_INLINE UintVec ordered(Vec v) noexcept {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i sign = _mm256_srai_epi32(bits, 31);
  return _mm256_xor_si256(bits, _mm256_or_si256(sign, _mm256_set1_epi32(INT32_MIN)));
}

}  // namespace ft::kernels::avx2
