#include "kernels/cpu/neon/neon_kernels.h"

namespace ft::kernels::neon {

CpuKernels kernels() noexcept {
  return {.weight_format = kWeightFormat,
          .matmul = matmul,
          .swiglu = swiglu,
          .matmul_int8 = matmul_int8,
          .swiglu_int8 = swiglu_int8,
          .quantize_row = quantize_row,
          .moe_combine = moe_combine,
          .rms_norm = rms_norm,
          .layer_norm = layer_norm,
          .attend = attend,
          .index_scores = index_scores,
          .top_k = top_k};
}

bool is_usable() noexcept {
  return true;
}

}  // namespace ft::kernels::neon
