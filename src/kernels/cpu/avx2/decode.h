// Stored weights to f32, eight outputs times four columns at a time.
#pragma once

#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/weight_layout.h"

namespace ft::kernels::avx2 {

inline constexpr std::size_t kUnitOutputs = 16;

/// One vector of outputs at each column of a group.
struct Decoded {
  Vec k[kGroupCols];
};

FT_INLINE __m256i load_bytes(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
/// The low and the high half of every bf16 pair as f32.
FT_INLINE Vec even_bf16(__m256i pairs) noexcept {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
FT_INLINE Vec odd_bf16(__m256i pairs) noexcept {
  return _mm256_castsi256_ps(
      _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
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
    const __m256i first = load_bytes(group + sub * 32);
    const __m256i second = load_bytes(group + sub * 32 + 64);
    return {{even_bf16(first), odd_bf16(first), even_bf16(second), odd_bf16(second)}};
  }
};

template <>
struct Decoder<DType::kF16> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const auto* from = reinterpret_cast<const __m128i*>(group) + sub;
    return {{_mm256_cvtph_ps(_mm_loadu_si128(from)),
             _mm256_cvtph_ps(_mm_loadu_si128(from + 2)),
             _mm256_cvtph_ps(_mm_loadu_si128(from + 4)),
             _mm256_cvtph_ps(_mm_loadu_si128(from + 6))}};
  }
};

/// An e4m3 code's sign at bit 15 and its other bits at 13 … 7 are an f16 of value * 2^-8,
/// subnormals included. The missing 2^8 is in the scales (f8_factor); so is NaN.
template <>
struct Decoder<DType::kF8E4M3> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t sub) const noexcept {
    const __m256i mask = _mm256_set1_epi16(static_cast<short>(0xBF80));
    const __m256i codes = load_bytes(group + sub * 32);
    const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1), mask);
    const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(codes, 1), mask);
    return {{_mm256_cvtph_ps(_mm256_castsi256_si128(even)),
             _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1)),
             _mm256_cvtph_ps(_mm256_castsi256_si128(odd)),
             _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1))}};
  }
};
inline constexpr float kF8Factor = 256;

/// Index k * 16 + o. fp8: per eight outputs, 16-bit words of (k0, k2) for each output, then of (k1,
/// k3).
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
        f8[i] = static_cast<std::uint8_t>(o / 8 * 32 + k % 2 * 16 + o % 8 * 2 + k / 2);
      }
    }
  }
};
inline constexpr Positions kPositions;

}  // namespace ft::kernels::avx2
