// Four floats of AArch64 Advanced SIMD. The same vocabulary as avx512/vec.h.
#pragma once

#include <arm_neon.h>
#include <cstddef>
#include <cstdint>

#define FT_ISA neon
#define FT_INLINE [[gnu::always_inline]] static inline
#define FT_INLINE_MEMBER [[gnu::always_inline]] inline

namespace ft::kernels::neon {

using Vec = float32x4_t;
inline constexpr std::size_t kLanes = 4;

FT_INLINE Vec zero() noexcept {
  return vdupq_n_f32(0);
}
FT_INLINE Vec broadcast(float value) noexcept {
  return vdupq_n_f32(value);
}
FT_INLINE Vec load(const float* from) noexcept {
  return vld1q_f32(from);
}
FT_INLINE void store(float* to, Vec v) noexcept {
  vst1q_f32(to, v);
}
/// The first n < kLanes elements; the others read as 0 and are not touched in memory.
FT_INLINE Vec load_partial(const float* from, std::size_t n) noexcept {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    lanes[i] = from[i];
  }
  return vld1q_f32(lanes);
}
FT_INLINE void store_partial(float* to, Vec v, std::size_t n) noexcept {
  float lanes[kLanes];
  vst1q_f32(lanes, v);
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = lanes[i];
  }
}
/// bf16 values as floats.
FT_INLINE Vec widen_bf16(const std::uint16_t* from) noexcept {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

FT_INLINE Vec add(Vec a, Vec b) noexcept {
  return vaddq_f32(a, b);
}
FT_INLINE Vec sub(Vec a, Vec b) noexcept {
  return vsubq_f32(a, b);
}
FT_INLINE Vec mul(Vec a, Vec b) noexcept {
  return vmulq_f32(a, b);
}
FT_INLINE Vec div(Vec a, Vec b) noexcept {
  return vdivq_f32(a, b);
}
/// a * b + c, rounded once.
FT_INLINE Vec fma(Vec a, Vec b, Vec c) noexcept {
  return vfmaq_f32(c, a, b);
}
/// c - a * b, rounded once.
FT_INLINE Vec negative_fma(Vec a, Vec b, Vec c) noexcept {
  return vfmsq_f32(c, a, b);
}
FT_INLINE Vec max(Vec a, Vec b) noexcept {
  return vmaxq_f32(a, b);
}
FT_INLINE Vec sqrt(Vec v) noexcept {
  return vsqrtq_f32(v);
}
/// Per lane: a < b ? yes : no.
FT_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) noexcept {
  return vbslq_f32(vcltq_f32(a, b), yes, no);
}
/// To the nearest integer, ties to even.
FT_INLINE Vec round(Vec v) noexcept {
  return vrndnq_f32(v);
}
/// 2^n for integers n in [-126, 127].
FT_INLINE Vec pow2(Vec n) noexcept {
  const int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}

/// Integers of at most 127 in magnitude as signed bytes.
FT_INLINE void store_int8(std::int8_t* to, Vec v) noexcept {
  const int16x4_t halves = vmovn_s32(vcvtnq_s32_f32(v));
  const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
  const std::int32_t word = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
  __builtin_memcpy(to, &word, sizeof word);
}

/// Sum of the lanes as a tree: halves, neighbours.
FT_INLINE float sum_lanes(Vec v) noexcept {
  const float32x2_t pair = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}
FT_INLINE float max_lanes(Vec v) noexcept {
  return vmaxvq_f32(v);
}

/// Dots computed at one time: accumulators in registers beside their operands.
inline constexpr std::size_t kDotSums = 16;
/// Vectors of 4 heads' sums kept in registers.
inline constexpr std::size_t kStripVecs = 4;

/// Lane i is the sum of the lanes of v[i]: neighbours, then pairs.
FT_INLINE Vec sum_each(const Vec* v) noexcept {
  return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
}

using UintVec = uint32x4_t;

FT_INLINE UintVec broadcast_uint(std::uint32_t value) noexcept {
  return vdupq_n_u32(value);
}
FT_INLINE void store_uint(std::uint32_t* to, UintVec v) noexcept {
  vst1q_u32(to, v);
}
FT_INLINE UintVec sub_uint(UintVec a, UintVec b) noexcept {
  return vsubq_u32(a, b);
}
FT_INLINE UintVec min_uint(UintVec a, UintVec b) noexcept {
  return vminq_u32(a, b);
}
FT_INLINE std::uint32_t least_lane(UintVec v) noexcept {
  return vminvq_u32(v);
}
/// By the same count < 32 in all lanes.
FT_INLINE UintVec shift_right(UintVec v, unsigned count) noexcept {
  return vshlq_u32(v, vdupq_n_s32(-static_cast<int>(count)));
}
/// Bit i: a_i <= b_i.
FT_INLINE std::uint32_t at_most_bits(UintVec a, UintVec b) noexcept {
  const std::uint32_t bit[kLanes] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vcleq_u32(a, b), vld1q_u32(bit)));
}
/// Integers in the order of the floats: sign bit inverted, or all bits if negative.
FT_INLINE UintVec ordered(Vec v) noexcept {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t sign = vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_f32(v), 31));
  return veorq_u32(bits, vorrq_u32(sign, vdupq_n_u32(0x80000000u)));
}

}  // namespace ft::kernels::neon
