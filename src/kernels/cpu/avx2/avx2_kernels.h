// The AVX2 kernels (with FMA and F16C: Haswell and Zen 1 or later).
#pragma once

#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::avx2 {

extern const WeightFormat kWeightFormat;
void matmul(const LinearTask& task) noexcept;
void swiglu(const LinearTask& task) noexcept;

CpuKernels kernels() noexcept;
bool is_usable() noexcept;

}  // namespace ft::kernels::avx2
