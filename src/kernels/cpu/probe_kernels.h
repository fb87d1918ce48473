// What each instruction set gives the probe; see cpu_kernels.h for the rules such files keep.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ft::kernels {

struct ProbeKernels {
  /// Sum of n floats, in any order; n is a multiple of 256.
  float (*read)(const float* data, std::size_t n) noexcept;
  /// Rounds of independent multiply-adds in registers. `factor` keeps the compiler from knowing.
  float (*multiply_add)(std::size_t n_rounds, float factor) noexcept;
  std::size_t multiply_add_ops;  // of a round
  /// The same of 8-bit integers; null if there is no such instruction.
  std::int32_t (*multiply_add_int8)(std::size_t n_rounds, std::int32_t factor) noexcept;
  std::size_t multiply_add_int8_ops;
};

namespace ref {
extern const ProbeKernels kProbeKernels;
}
namespace avx2 {
const ProbeKernels& probe_kernels() noexcept;
}
namespace avx512 {
const ProbeKernels& probe_kernels() noexcept;
}
namespace neon {
const ProbeKernels& probe_kernels() noexcept;
}

}  // namespace ft::kernels
