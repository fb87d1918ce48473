// Compiled without AVX2, so that it runs anywhere.
#include "kernels/cpu/avx2/avx2_kernels.h"

#include <cpuid.h>

namespace ft::kernels::avx2 {

namespace {

/// Compilers of Debian 12 cannot be asked for it: leaf 7, subleaf 1, EAX bit 4. Uses the registers
/// of AVX2.
bool has_vnni() noexcept {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}

}  // namespace

CpuKernels kernels() noexcept {
  const bool vnni = has_vnni();
  return {.weight_format = kWeightFormat,
          .matmul = matmul,
          .swiglu = swiglu,
          .matmul_int8 = vnni ? matmul_int8_vnni : matmul_int8,
          .swiglu_int8 = vnni ? swiglu_int8_vnni : swiglu_int8,
          .quantize_row = quantize_row,
          .moe_combine = moe_combine,
          .rms_norm = rms_norm,
          .layer_norm = layer_norm,
          .attend = attend,
          .index_scores = index_scores,
          .widen = widen,
          .top_k = top_k};
}

bool is_usable() noexcept {
  __builtin_cpu_init();
  // clang 14 cannot be asked for f16c.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace ft::kernels::avx2
