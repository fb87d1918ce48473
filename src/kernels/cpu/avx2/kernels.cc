// Compiled without AVX2, so that it runs anywhere.
#include "kernels/cpu/avx2/avx2_kernels.h"

namespace ft::kernels::avx2 {

CpuKernels kernels() noexcept {
  CpuKernels table = ref::kernels();
  table.weight_format = kWeightFormat;
  table.matmul = matmul;
  table.swiglu = swiglu;
  return table;
}

bool is_usable() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

}  // namespace ft::kernels::avx2
