// Exponential and logistic functions on vectors. Included by an instruction set's files after its
// vec.h; no guard against a second inclusion in one file is needed beyond the pragma.
#pragma once

namespace ft::kernels::FT_ISA {

/// e^x within 2 ulp for results in the normal range. 0 below it (x < -87.33), infinity above 88.37
/// (a little early, so that the exponent fits one multiplication); NaN stays NaN. x = n ln 2 + r,
/// |r| <= ln 2 / 2, ln 2 in two parts so that n times the first is exact; e^r by its Taylor
/// polynomial of degree 7 in Horner form, whose remainder (|r|^8 / 8! < 6e-9) is a tenth of an ulp.
FT_INLINE Vec exp(Vec x) noexcept {
  const Vec lowest = broadcast(-87.33f);
  const Vec highest = broadcast(88.37f);
  const Vec n = round(mul(x, broadcast(1.44269504f)));
  Vec r = negative_fma(n, broadcast(0x1.62e4p-1f), x);
  r = negative_fma(n, broadcast(0x1.7f7d1cp-20f), r);
  Vec p = broadcast(1.0f / 5040);
  p = fma(p, r, broadcast(1.0f / 720));
  p = fma(p, r, broadcast(1.0f / 120));
  p = fma(p, r, broadcast(1.0f / 24));
  p = fma(p, r, broadcast(1.0f / 6));
  p = fma(p, r, broadcast(0.5f));
  p = fma(p, r, broadcast(1.0f));
  p = fma(p, r, broadcast(1.0f));
  const Vec value = mul(p, pow2(n));
  const Vec infinity = broadcast(__builtin_inff());
  return select_less(x, lowest, zero(), select_less(highest, x, infinity, value));
}

/// x / (1 + e^-x).
FT_INLINE Vec silu(Vec x) noexcept {
  return div(x, add(broadcast(1.0f), exp(sub(zero(), x))));
}

}  // namespace ft::kernels::FT_ISA
