// The AArch64 Advanced SIMD kernels: every 64-bit ARM processor has it.
#pragma once

#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::neon {

extern const WeightFormat kWeightFormat;
void matmul(const LinearTask& task) noexcept;
void swiglu(const LinearTask& task) noexcept;

CpuKernels kernels() noexcept;
bool is_usable() noexcept;

}  // namespace ft::kernels::neon
