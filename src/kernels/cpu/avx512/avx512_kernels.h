// The AVX-512 kernels (F, BW, DQ, VL and VBMI: Ice Lake and Zen 4 or later).
#pragma once

#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::avx512 {

extern const WeightFormat kWeightFormat;
void matmul(const LinearTask& task) noexcept;
void swiglu(const LinearTask& task) noexcept;

CpuKernels kernels() noexcept;
bool is_usable() noexcept;

}  // namespace ft::kernels::avx512
