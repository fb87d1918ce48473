// The AVX-512 kernels (F, BW, DQ, VL and VBMI: Ice Lake and Zen 4 or later).
#pragma once

#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::avx512 {

extern const WeightFormat kWeightFormat;
void matmul(const LinearTask& task) noexcept;
void swiglu(const LinearTask& task) noexcept;
void matmul_int8(const LinearTask& task) noexcept;
void swiglu_int8(const LinearTask& task) noexcept;
void quantize_row(const float* x, std::size_t n, std::byte* row) noexcept;
void moe_combine(const CombineTask& task) noexcept;
void rms_norm(const NormArgs& args) noexcept;
void layer_norm(const NormArgs& args) noexcept;
void attend(const AttendTask& task) noexcept;
void index_scores(const IndexScoreTask& task) noexcept;
void widen(const std::uint16_t* from, std::size_t n, float* to) noexcept;
void top_k(const float* scores, std::size_t n, std::size_t k, std::int32_t* out) noexcept;

CpuKernels kernels() noexcept;
bool is_usable() noexcept;

}  // namespace ft::kernels::avx512
