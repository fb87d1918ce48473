#include "kernels/cpu/avx2/int8.h"

#include "kernels/cpu/avx2/avx2_kernels.h"

namespace ft::kernels::avx2 {
// 16 registers: eight sums, a panel's codes with their magnitudes, an input and two intermediates.
inline constexpr std::size_t kFewRows = 4;
inline constexpr std::size_t kPassRows = 4;
inline constexpr std::size_t kPassPanels = 1;
}  // namespace ft::kernels::avx2

#include "kernels/cpu/simd/int8-inl.h"

namespace ft::kernels::avx2 {

void matmul_int8(const LinearTask& task) noexcept {
  run_int8_task(task, finish_matmul);
}
void swiglu_int8(const LinearTask& task) noexcept {
  run_int8_task(task, finish_swiglu);
}

}  // namespace ft::kernels::avx2
