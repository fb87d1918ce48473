#include "kernels/kernels.h"

namespace ft::kernels {

std::size_t weight_bytes(const Weight& weight) noexcept {
  if (weight.quant.codes != nullptr) {
    return weight.quant.code_bytes() + weight.quant.scale_bytes();
  }
  std::size_t n_segments = 0;
  if (weight.scales != nullptr) {
    const bool has_more = weight.first_segment < weight.n_in && weight.block_cols > 0;
    const std::size_t rest = has_more ? weight.n_in - weight.first_segment : 0;
    n_segments = 1 + (has_more ? (rest + weight.block_cols - 1) / weight.block_cols : 0);
  }
  const std::size_t row_bytes =
      weight.n_in * element_bytes(weight.dtype) + n_segments * sizeof(float);
  return weight.n_out * row_bytes;
}

}  // namespace ft::kernels
