// The one file that uses VNNI.
#include "kernels/cpu/avx512/int8.h"

#include "kernels/cpu/avx512/avx512_kernels.h"

namespace ft::kernels::avx512 {
// 32 registers: 24 sums, four panels' codes and an input.
inline constexpr std::size_t kFewRows = 16;
inline constexpr std::size_t kPassRows = 6;
inline constexpr std::size_t kPassPanels = 4;
}  // namespace ft::kernels::avx512

#include "kernels/cpu/simd/int8-inl.h"

namespace ft::kernels::avx512 {

void matmul_int8(const LinearTask& task) noexcept {
  run_int8_task(task, finish_matmul);
}
void swiglu_int8(const LinearTask& task) noexcept {
  run_int8_task(task, finish_swiglu);
}

}  // namespace ft::kernels::avx512
