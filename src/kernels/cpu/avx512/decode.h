// Stored weights to f32, sixteen outputs times four columns at a time. Needs F, BW, VBMI and
// GFNI.
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

/// bf16 values of the codes of exponent 0 (mantissa * 2^-9, normalised), by mantissa: their bytes.
struct TinyF8Table {
  alignas(64) std::uint8_t low[64];
  alignas(64) std::uint8_t high[64];

  constexpr TinyF8Table() : low(), high() {
    for (unsigned mantissa = 1; mantissa < 8; ++mantissa) {
      const unsigned top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
      const unsigned bits = ((118 + top) << 7) | (((mantissa << (3 - top)) & 7) << 4);
      low[mantissa] = static_cast<std::uint8_t>(bits & 0xFF);
      high[mantissa] = static_cast<std::uint8_t>(bits >> 8);
    }
  }
};
inline constexpr TinyF8Table kTinyF8;

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

/// Every e4m3 value is a bf16 value with the exponent 120 more. Where exponents are not 0, the bits
/// of either byte of it are sums of bits of the code and a constant: one matrix over GF(2) each.
/// The bytes are interleaved into pairs; the group's order (Positions::f8) makes each half of a
/// pair one column of all sixteen outputs. NaN comes out as some number: packing made the scale
/// NaN.
template <>
struct Decoder<DType::kF8E4M3> {
  __m512i tiny_low = _mm512_load_si512(kTinyF8.low);
  __m512i tiny_high = _mm512_load_si512(kTinyF8.high);

  FT_INLINE_MEMBER static __m512i low_of(__m512i codes) noexcept {
    return _mm512_gf2p8affine_epi64_epi8(codes, _mm512_set1_epi64(0x0000000001020408), 0);
  }
  /// Adding 120 to an exponent sets bits 6 to 3 to the opposite of its highest.
  FT_INLINE_MEMBER static __m512i high_of(__m512i codes) noexcept {
    return _mm512_gf2p8affine_epi64_epi8(codes, _mm512_set1_epi64(0x1020404040404080), 0x3C);
  }
  FT_INLINE_MEMBER static Decoded joined(__m512i low, __m512i high) noexcept {
    const __m512i first = _mm512_unpacklo_epi8(low, high);
    const __m512i second = _mm512_unpackhi_epi8(low, high);
    return {{even_bf16(first), odd_bf16(first), even_bf16(second), odd_bf16(second)}};
  }

  FT_INLINE_MEMBER Decoded operator()(const std::byte* group, std::size_t /*sub*/) const noexcept {
    constexpr int kOrAnd = 0xF8;  // a or (b and c): the sign of the code onto the magnitude
    const __m512i codes = _mm512_loadu_si512(group);
    const __mmask64 is_tiny = _mm512_testn_epi8_mask(codes, _mm512_set1_epi8(0x78));
    const __m512i low = _mm512_mask_permutexvar_epi8(low_of(codes), is_tiny, codes, tiny_low);
    const __m512i high = _mm512_mask_permutexvar_epi8(high_of(codes), is_tiny, codes, tiny_high);
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    return joined(low, _mm512_ternarylogic_epi32(high, codes, sign, kOrAnd));
  }
  /// Of a group without a code of exponent 0.
  FT_INLINE_MEMBER Decoded unmarked(const std::byte* group, std::size_t /*sub*/) const noexcept {
    const __m512i codes = _mm512_loadu_si512(group);
    return joined(low_of(codes), high_of(codes));
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
