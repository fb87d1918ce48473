// Reading and multiply-adds at full speed. Included by an instruction set's files after its vec.h.
#pragma once

#include "kernels/cpu/probe_kernels.h"
#include "kernels/cpu/simd/unroll.h"

#include <cstddef>

namespace ft::kernels::FT_ISA {

/// Independent sums: more than latency times units of any processor, fewer than its registers.
constexpr std::size_t kProbeSums = 12;
constexpr std::size_t kMultiplyAddOps = kProbeSums * kLanes * 2;

static float probe_read(const float* data, std::size_t n) noexcept {
  constexpr std::size_t kVecs = 8;
  Vec sums[kVecs];
  FT_UNROLL
  for (std::size_t v = 0; v < kVecs; ++v) {
    sums[v] = zero();
  }
  for (std::size_t i = 0; i + kVecs * kLanes <= n; i += kVecs * kLanes) {
    FT_UNROLL
    for (std::size_t v = 0; v < kVecs; ++v) {
      sums[v] = add(sums[v], load(data + i + v * kLanes));
    }
  }
  Vec total = zero();
  FT_UNROLL
  for (std::size_t v = 0; v < kVecs; ++v) {
    total = add(total, sums[v]);
  }
  return sum_lanes(total);
}

static float probe_multiply_add(std::size_t n_rounds, float factor) noexcept {
  const Vec factors = broadcast(factor);
  Vec sums[kProbeSums];
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    sums[i] = broadcast(static_cast<float>(i));
  }
  for (std::size_t round = 0; round < n_rounds; ++round) {
    FT_UNROLL
    for (std::size_t i = 0; i < kProbeSums; ++i) {
      sums[i] = fma(sums[i], factors, factors);
    }
  }
  Vec total = zero();
  FT_UNROLL
  for (std::size_t i = 0; i < kProbeSums; ++i) {
    total = add(total, sums[i]);
  }
  return sum_lanes(total);
}

}  // namespace ft::kernels::FT_ISA
