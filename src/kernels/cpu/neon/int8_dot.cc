// The products of int8.cc once more, with the dot-product extension.
#include "kernels/cpu/neon/int8.h"
#include "kernels/cpu/neon/neon_kernels.h"

namespace ft::kernels::neon {
// 32 registers: 24 sums, a panel of codes and an input.
inline constexpr std::size_t kFewRows = 6;
inline constexpr std::size_t kPassRows = 6;
inline constexpr std::size_t kPassPanels = 1;
}  // namespace ft::kernels::neon

#include "kernels/cpu/simd/int8-inl.h"

namespace ft::kernels::neon {

void matmul_int8_dot(const LinearTask& task) noexcept {
  run_int8_task(task, finish_matmul);
}
void swiglu_int8_dot(const LinearTask& task) noexcept {
  run_int8_task(task, finish_swiglu);
}

}  // namespace ft::kernels::neon
