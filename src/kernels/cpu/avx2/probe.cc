#include "kernels/cpu/avx2/vec.h"
// After vec.h.
#include "kernels/cpu/simd/probe-inl.h"

namespace ft::kernels::avx2 {
namespace {

/// Without VNNI a dot of four bytes takes three instructions.
std::int32_t multiply_add_int8(std::size_t n_rounds, std::int32_t factor) noexcept {
  const __m256i factors = _mm256_set1_epi32(factor);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[kProbeSums];
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    sums[i] = _mm256_set1_epi32(static_cast<int>(i));
  }
  for (std::size_t round = 0; round < n_rounds; ++round) {
    FT_UNROLL
    for (std::size_t i = 0; i < kProbeSums; ++i) {
      const __m256i pairs = _mm256_maddubs_epi16(sums[i], factors);
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
    }
  }
  __m256i total = _mm256_setzero_si256();
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    total = _mm256_xor_si256(total, sums[i]);
  }
  return _mm256_extract_epi32(total, 0) ^ _mm256_extract_epi32(total, 5);
}

constexpr ProbeKernels kKernels = {.read = probe_read,
                                   .multiply_add = probe_multiply_add,
                                   .multiply_add_ops = kMultiplyAddOps,
                                   .multiply_add_int8 = multiply_add_int8,
                                   .multiply_add_int8_ops = kProbeSums * 32 * 2};

}  // namespace

const ProbeKernels& probe_kernels() noexcept {
  return kKernels;
}

}  // namespace ft::kernels::avx2
