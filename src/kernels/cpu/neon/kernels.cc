#include "kernels/cpu/neon/neon_kernels.h"

namespace ft::kernels::neon {

CpuKernels kernels() noexcept {
  CpuKernels table = ref::kernels();
  table.weight_format = kWeightFormat;
  table.matmul = matmul;
  table.swiglu = swiglu;
  return table;
}

bool is_usable() noexcept {
  return true;
}

}  // namespace ft::kernels::neon
