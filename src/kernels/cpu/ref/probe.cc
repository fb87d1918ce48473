// Where no vector instructions are known.
#include "kernels/cpu/probe_kernels.h"

namespace ft::kernels::ref {
namespace {

constexpr std::size_t kSums = 8;

float read(const float* data, std::size_t n) noexcept {
  float sums[kSums] = {};
  for (std::size_t i = 0; i + kSums <= n; i += kSums) {
    for (std::size_t v = 0; v < kSums; ++v) {
      sums[v] += data[i + v];
    }
  }
  float total = 0;
  for (const float sum : sums) {
    total += sum;
  }
  return total;
}

float multiply_add(std::size_t n_rounds, float factor) noexcept {
  float sums[kSums] = {};
  for (std::size_t round = 0; round < n_rounds; ++round) {
    for (float& sum : sums) {
      sum = sum * factor + factor;
    }
  }
  float total = 0;
  for (const float sum : sums) {
    total += sum;
  }
  return total;
}

}  // namespace

const ProbeKernels kProbeKernels = {.read = read,
                                    .multiply_add = multiply_add,
                                    .multiply_add_ops = kSums * 2,
                                    .multiply_add_int8 = nullptr,
                                    .multiply_add_int8_ops = 0};

}  // namespace ft::kernels::ref
