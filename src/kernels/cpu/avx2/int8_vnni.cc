#include "kernels/cpu/avx2/int8.h"

// The products of int8.cc once more, with AVX-VNNI.
#include "kernels/cpu/avx2/avx2_kernels.h"

namespace ft::kernels::avx2 {
// 16 registers: ten sums, a panel's codes and an input.
inline constexpr std::size_t kFewRows = 5;
inline constexpr std::size_t kPassRows = 5;
inline constexpr std::size_t kPassPanels = 1;
}  // namespace ft::kernels::avx2

#include "kernels/cpu/simd/int8-inl.h"

namespace ft::kernels::avx2 {

void matmul_int8_vnni(const LinearTask& task) noexcept {
  run_int8_task(task, finish_matmul);
}
void swiglu_int8_vnni(const LinearTask& task) noexcept {
  run_int8_task(task, finish_swiglu);
}

}  // namespace ft::kernels::avx2
