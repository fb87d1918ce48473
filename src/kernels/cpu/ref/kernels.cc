#include "kernels/cpu/ref/ref_kernels.h"

namespace ft::kernels::ref {

CpuKernels kernels() noexcept {
  return {.weight_format = kWeightFormat,
          .matmul = matmul,
          .swiglu = swiglu,
          .matmul_int8 = matmul,
          .swiglu_int8 = swiglu,
          .quantize_row = quantize_row,
          .moe_combine = moe_combine,
          .rms_norm = rms_norm,
          .layer_norm = layer_norm,
          .attend = attend,
          .index_scores = index_scores,
          .widen = widen,
          .top_k = top_k};
}

}  // namespace ft::kernels::ref
