// Compiled without AVX-512, so that it runs anywhere.
#include "kernels/cpu/avx2/avx2_kernels.h"
#include "kernels/cpu/avx512/avx512_kernels.h"

namespace ft::kernels::avx512 {

CpuKernels kernels() noexcept {
  __builtin_cpu_init();
  const bool has_vnni = __builtin_cpu_supports("avx512vnni");
  return {.weight_format = kWeightFormat,
          .matmul = matmul,
          .swiglu = swiglu,
          .matmul_int8 = has_vnni ? matmul_int8 : avx2::matmul_int8,
          .swiglu_int8 = has_vnni ? swiglu_int8 : avx2::swiglu_int8,
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
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
}

}  // namespace ft::kernels::avx512
