#include "kernels/cpu/neon/vec.h"
// After vec.h.
#include "kernels/cpu/simd/probe-inl.h"

namespace ft::kernels::neon {
namespace {

constexpr ProbeKernels kKernels = {.read = probe_read,
                                   .multiply_add = probe_multiply_add,
                                   .multiply_add_ops = kMultiplyAddOps,
                                   .multiply_add_int8 = nullptr,
                                   .multiply_add_int8_ops = 0};

}  // namespace

const ProbeKernels& probe_kernels() noexcept {
  return kKernels;
}

}  // namespace ft::kernels::neon
