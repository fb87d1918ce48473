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

}  // namespace ft::kernels::avx2
