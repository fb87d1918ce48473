// Stored weights to f32, sixteen outputs times four columns at a time. Needs F, BW and VBMI.
#pragma once

#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/weight_layout.h"

namespace ft::kernels::avx512 {

inline constexpr std::size_t kUnitOutputs = 16;

/// One vector of outputs at each column of a group.
struct Decoded {
  Vec k[kGroupCols];
};

/// The low and the high half of every bf16 pair as f32.
FT_INLINE Vec even_bf16(__m512i pairs) noexcept {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
FT_INLINE Vec odd_bf16(__m512i pairs) noexcept {
  return _mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

/// Every e4m3 value is a bf16 value: the two bytes of its magnitude, by code. NaN stays NaN.
struct F8Table {
  alignas(64) std::uint8_t low[128];
  alignas(64) std::uint8_t high[128];

  constexpr F8Table() : low(), high() {
    for (unsigned code = 0; code < 128; ++code) {
      const unsigned exponent = code >> 3;
      const unsigned mantissa = code & 7;
      unsigned bits = ((exponent + 120) << 7) | (mantissa << 4);
      if (exponent == 0) {  // mantissa * 2^-9, normalised
        const unsigned top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
        bits = mantissa == 0 ? 0 : ((118 + top) << 7) | (((mantissa << (3 - top)) & 7) << 4);
      } else if (code == 127) {
        bits = 0x7FC0;
      }
      low[code] = static_cast<std::uint8_t>(bits & 0xFF);
      high[code] = static_cast<std::uint8_t>(bits >> 8);
    }
  }
};
inline constexpr F8Table kF8Table;

template <DType D>
struct Decoder;

template <>
struct Decoder<DType::kF32> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t /*sub*/) const noexcept {
    const auto* from = reinterpret_cast<const float*>(group);
    return {{load(from), load(from + 16), load(from + 32), load(from + 48)}};
  }
};

template <>
struct Decoder<DType::kBF16> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t /*sub*/) const noexcept {
    const __m512i first = _mm512_loadu_si512(group);
    const __m512i second = _mm512_loadu_si512(group + 64);
    return {{even_bf16(first), odd_bf16(first), even_bf16(second), odd_bf16(second)}};
  }
};

template <>
struct Decoder<DType::kF16> {
  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t /*sub*/) const noexcept {
    const auto* from = reinterpret_cast<const __m256i*>(group);
    return {{_mm512_cvtph_ps(_mm256_loadu_si256(from)),
             _mm512_cvtph_ps(_mm256_loadu_si256(from + 1)),
             _mm512_cvtph_ps(_mm256_loadu_si256(from + 2)),
             _mm512_cvtph_ps(_mm256_loadu_si256(from + 3))}};
  }
};

/// Two table look-ups over all 128 magnitudes give the low and high bytes of bf16 values, which are
/// interleaved into pairs; the group's order (kF8Positions) makes each half of a pair one column of
/// all sixteen outputs.
template <>
struct Decoder<DType::kF8E4M3> {
  __m512i low_a = _mm512_load_si512(kF8Table.low);
  __m512i low_b = _mm512_load_si512(kF8Table.low + 64);
  __m512i high_a = _mm512_load_si512(kF8Table.high);
  __m512i high_b = _mm512_load_si512(kF8Table.high + 64);

  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t /*sub*/) const noexcept {
    constexpr int kOrAnd = 0xF8;  // a or (b and c): the sign of the code onto the magnitude
    const __m512i codes = _mm512_loadu_si512(group);
    const __m512i low = _mm512_permutex2var_epi8(low_a, codes, low_b);
    const __m512i magnitude = _mm512_permutex2var_epi8(high_a, codes, high_b);
    const __m512i high = _mm512_ternarylogic_epi32(
        magnitude, codes, _mm512_set1_epi8(static_cast<char>(0x80)), kOrAnd);
    const __m512i first = _mm512_unpacklo_epi8(low, high);
    const __m512i second = _mm512_unpackhi_epi8(low, high);
    return {{even_bf16(first), odd_bf16(first), even_bf16(second), odd_bf16(second)}};
  }
};

/// Index k * 16 + o. Within each 16-byte lane, four outputs: (k0, k1) pairs, then (k2, k3) pairs.
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
        f8[i] = static_cast<std::uint8_t>(o / 4 * 16 + k / 2 * 8 + o % 4 * 2 + k % 2);
      }
    }
  }
};
inline constexpr Positions kPositions;

}  // namespace ft::kernels::avx512
