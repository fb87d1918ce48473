#include "kernels/cpu/avx512/vec.h"
// After vec.h.
#include "kernels/cpu/simd/probe-inl.h"

namespace ft::kernels::avx512 {
namespace {

[[gnu::target("avx512vnni")]] std::int32_t multiply_add_int8(std::size_t n_rounds,
                                                             std::int32_t factor) noexcept {
  const __m512i factors = _mm512_set1_epi32(factor);
  __m512i sums[kProbeSums];
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    sums[i] = _mm512_set1_epi32(static_cast<int>(i));
  }
  for (std::size_t round = 0; round < n_rounds; ++round) {
    FT_UNROLL
    for (std::size_t i = 0; i < kProbeSums; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], factors, factors);
    }
  }
  __m512i total = _mm512_setzero_si512();
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    total = _mm512_xor_si512(total, sums[i]);
  }
  return _mm512_reduce_or_epi32(total);
}

constexpr ProbeKernels kPlain = {.read = probe_read,
                                 .multiply_add = probe_multiply_add,
                                 .multiply_add_ops = kMultiplyAddOps,
                                 .multiply_add_int8 = nullptr,
                                 .multiply_add_int8_ops = 0};
constexpr ProbeKernels kVnni = {.read = probe_read,
                                .multiply_add = probe_multiply_add,
                                .multiply_add_ops = kMultiplyAddOps,
                                .multiply_add_int8 = multiply_add_int8,
                                .multiply_add_int8_ops = kProbeSums * 64 * 2};

}  // namespace

const ProbeKernels& probe_kernels() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni") ? kVnni : kPlain;
}

}  // namespace ft::kernels::avx512
