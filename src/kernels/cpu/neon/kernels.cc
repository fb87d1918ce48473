// Compiled without the dot-product extension, so that it runs anywhere.
#include "kernels/cpu/neon/neon_kernels.h"

#ifdef __linux__
#include <sys/auxv.h>
#endif

namespace ft::kernels::neon {

namespace {

bool has_dot() noexcept {
#if defined(__linux__)
  constexpr unsigned long kDotProducts = 1UL << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;
#endif
}

}  // namespace

CpuKernels kernels() noexcept {
  const bool dot = has_dot();
  return {.weight_format = kWeightFormat,
          .matmul = matmul,
          .swiglu = swiglu,
          .matmul_int8 = dot ? matmul_int8_dot : matmul_int8,
          .swiglu_int8 = dot ? swiglu_int8_dot : swiglu_int8,
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
  return true;
}

}  // namespace ft::kernels::neon
