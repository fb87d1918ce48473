// Stored weights to f32, four outputs times four columns at a time.
#pragma once

#include "kernels/cpu/neon/vec.h"
#include "kernels/cpu/weight_layout.h"

namespace ft::kernels::neon {

inline constexpr std::size_t kUnitOutputs = 16;

/// One vector of outputs at each column of a group.
struct Decoded {
  Vec k[kGroupCols];
};

/// The low and the high half of every bf16 pair as f32.
FT_INLINE Vec even_bf16(uint32x4_t pairs) noexcept {
  return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
}
FT_INLINE Vec odd_bf16(uint32x4_t pairs) noexcept {
  return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xFFFF0000u)));
}
FT_INLINE uint32x4_t load_words(const std::byte* from) noexcept {
  return vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)));
}
FT_INLINE float16x4_t load_halves(const std::byte* from) noexcept {
  return vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(from)));
}

template <DType D>
struct Decoder;

template <>
struct Decoder<DType::kF32> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const auto* from = reinterpret_cast<const float*>(group) + sub * kLanes;
    return {{load(from), load(from + 16), load(from + 32), load(from + 48)}};
  }
};

template <>
struct Decoder<DType::kBF16> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const uint32x4_t first = load_words(group + sub * 16);
    const uint32x4_t second = load_words(group + sub * 16 + 64);
    return {{even_bf16(first), odd_bf16(first), even_bf16(second), odd_bf16(second)}};
  }
};

template <>
struct Decoder<DType::kF16> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const std::byte* from = group + sub * 8;
    return {{vcvt_f32_f16(load_halves(from)),
             vcvt_f32_f16(load_halves(from + 32)),
             vcvt_f32_f16(load_halves(from + 64)),
             vcvt_f32_f16(load_halves(from + 96))}};
  }
};

/// A code widened with its sign and shifted by 7 has the sign at bits 15 and 14 and the rest at 13
/// … 7; without bit 14 it is an f16 of value * 2^-8, subnormals included. The missing 2^8 is in the
/// scales (f8_factor); so is NaN.
template <>
struct Decoder<DType::kF8E4M3> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const int8x16_t codes = vld1q_s8(reinterpret_cast<const std::int8_t*>(group) + sub * 16);
    const int16x8_t mask = vdupq_n_s16(static_cast<std::int16_t>(0xBFFF));
    const int16x8_t low = vandq_s16(vshll_n_s8(vget_low_s8(codes), 7), mask);
    const int16x8_t high = vandq_s16(vshll_high_n_s8(codes, 7), mask);
    return {{vcvt_f32_f16(vreinterpret_f16_s16(vget_low_s16(low))),
             vcvt_high_f32_f16(vreinterpretq_f16_s16(low)),
             vcvt_f32_f16(vreinterpret_f16_s16(vget_low_s16(high))),
             vcvt_high_f32_f16(vreinterpretq_f16_s16(high))}};
  }
};
inline constexpr float kF8Factor = 256;

/// Index k * 16 + o. fp8: per four outputs, the four columns one after the other.
struct Positions {
  std::uint8_t plain[kMaxGroup];
  std::uint8_t pairs[kMaxGroup];
  std::uint8_t f8[kMaxGroup];

  constexpr Positions() : plain(), pairs(), f8() {
    for (std::size_t k = 0; k < kGroupCols; ++k) {
      for (std::size_t o = 0; o < kUnitOutputs; ++o) {
        const std::size_t i = k * kUnitOutputs + o;
        plain[i] = static_cast<std::uint8_t>(i);
        pairs[i] = static_cast<std::uint8_t>(k / 2 * 32 + 2 * o + k % 2);
        f8[i] = static_cast<std::uint8_t>(o / 4 * 16 + k * 4 + o % 4);
      }
    }
  }
};
inline constexpr Positions kPositions;

}  // namespace ft::kernels::neon
