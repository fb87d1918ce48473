// Integer dots of NEON, four outputs at a time: by the dot-product extension where the compiler may
// use it, else widened.
#pragma once

#include "kernels/cpu/neon/panels.h"

namespace ft::kernels::neon {

using IntVec = int32x4_t;
using Input = int8x16_t;

FT_INLINE Input load_input(const std::int8_t* from) noexcept {
  std::int32_t codes;
  __builtin_memcpy(&codes, from, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(codes));
}
FT_INLINE Vec to_float(IntVec v) noexcept {
  return vcvtq_f32_s32(v);
}
FT_INLINE uint8x16_t load_line(const std::byte* line) noexcept {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(line));
}
/// Nibbles of a line's low (0) or high (1) half.
FT_INLINE uint8x16_t nibbles(const std::byte* line, std::size_t step) noexcept {
  const uint8x16_t bytes = load_line(line);
  return step == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4);
}
/// Codes of q4 with the offset of q8.
FT_INLINE void unpack_codes(const std::byte* line, std::size_t step, std::byte* to) noexcept {
  vst1q_u8(reinterpret_cast<std::uint8_t*>(to), vaddq_u8(nibbles(line, step), vdupq_n_u8(128 - 8)));
}

namespace {  // another one in each file that includes this

/// Signed codes: no offset to take off.
template <QuantFormat Q>
struct Dot {
  static constexpr std::size_t kSteps = Q == QuantFormat::kQ8 ? 1 : 2;
  using Codes = int8x16_t;

  FT_INLINE_MEMBER static IntVec start(std::int32_t /*minus_sum*/) noexcept {
    return vdupq_n_s32(0);
  }
  FT_INLINE_MEMBER static Codes load_codes(const std::byte* line, std::size_t step) noexcept {
    const uint8x16_t codes = Q == QuantFormat::kQ8 ? load_line(line) : nibbles(line, step);
    return vreinterpretq_s8_u8(vsubq_u8(codes, vdupq_n_u8(Q == QuantFormat::kQ8 ? 128 : 8)));
  }
  FT_INLINE_MEMBER static IntVec add(IntVec sum, Codes codes, Input input) noexcept {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sum, codes, input);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(input));
    const int16x8_t high = vmull_high_s8(codes, input);
    return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
  }
};

}  // namespace
}  // namespace ft::kernels::neon
