// Verbs that treat rows one by one: norms and the sum of experts. Included by an instruction set's
// files after its vec.h.
#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd/unroll.h"

namespace ft::kernels::FT_ISA {

/// Vectors worked on at one time, so that additions need not wait for one another.
constexpr std::size_t kRowVecs = 4;
constexpr std::size_t kRowStep = kRowVecs * kLanes;

static inline float join_sums(const Vec* sums) noexcept {
  return sum_lanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

static inline float sum_of(const float* x, std::size_t n) noexcept {
  Vec sums[kRowVecs] = {zero(), zero(), zero(), zero()};
  std::size_t i = 0;
  for (; i + kRowStep <= n; i += kRowStep) {
    FT_UNROLL
    for (std::size_t v = 0; v < kRowVecs; ++v) {
      sums[v] = add(sums[v], load(x + i + v * kLanes));
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    sums[0] = add(sums[0], load(x + i));
  }
  if (i < n) {
    sums[1] = add(sums[1], load_partial(x + i, n - i));
  }
  return join_sums(sums);
}

/// Sum of (x_i - mean)^2.
static inline float sum_of_squares(const float* x, std::size_t n, float mean) noexcept {
  const Vec means = broadcast(mean);
  Vec sums[kRowVecs] = {zero(), zero(), zero(), zero()};
  std::size_t i = 0;
  for (; i + kRowStep <= n; i += kRowStep) {
    FT_UNROLL
    for (std::size_t v = 0; v < kRowVecs; ++v) {
      const Vec distance = sub(load(x + i + v * kLanes), means);
      sums[v] = fma(distance, distance, sums[v]);
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    const Vec distance = sub(load(x + i), means);
    sums[0] = fma(distance, distance, sums[0]);
  }
  if (i < n) {
    float rest[kLanes];
    store(rest, means);
    const Vec distance = sub(load_partial(x + i, n - i), load_partial(rest, n - i));
    sums[1] = fma(distance, distance, sums[1]);
  }
  return join_sums(sums);
}

// NOLINTNEXTLINE(misc-definitions-in-headers): one per instruction set
void rms_norm(const NormArgs& args) noexcept {
  const float mean_square = sum_of_squares(args.x, args.n, 0.0f) / static_cast<float>(args.n);
  const Vec factor = broadcast(1.0f / __builtin_sqrtf(mean_square + args.eps));
  std::size_t i = 0;
  for (; i + kLanes <= args.n; i += kLanes) {
    store(args.y + i, mul(mul(load(args.x + i), factor), load(args.weight + i)));
  }
  if (i < args.n) {
    const std::size_t left = args.n - i;
    const Vec scaled = mul(load_partial(args.x + i, left), factor);
    store_partial(args.y + i, mul(scaled, load_partial(args.weight + i, left)), left);
  }
}

// NOLINTNEXTLINE(misc-definitions-in-headers): one per instruction set
void layer_norm(const NormArgs& args) noexcept {
  const auto n = static_cast<float>(args.n);
  const float mean = sum_of(args.x, args.n) / n;
  const float variance = sum_of_squares(args.x, args.n, mean) / n;
  const Vec means = broadcast(mean);
  const Vec factor = broadcast(1.0f / __builtin_sqrtf(variance + args.eps));
  std::size_t i = 0;
  for (; i + kLanes <= args.n; i += kLanes) {
    const Vec scaled = mul(sub(load(args.x + i), means), factor);
    store(args.y + i, fma(scaled, load(args.weight + i), load(args.bias + i)));
  }
  if (i < args.n) {
    const std::size_t left = args.n - i;
    const Vec scaled = mul(sub(load_partial(args.x + i, left), means), factor);
    const Vec weight = load_partial(args.weight + i, left);
    store_partial(args.y + i, fma(scaled, weight, load_partial(args.bias + i, left)), left);
  }
}

/// kVecs whole vectors of columns.
template <std::size_t kVecs>
FT_INLINE void combine_columns(const CombineTask& task, std::size_t column) noexcept {
  Vec sums[kVecs];
  FT_UNROLL
  for (std::size_t v = 0; v < kVecs; ++v) {
    sums[v] = zero();
  }
  for (std::size_t rank = 0; rank < task.n_ranks; ++rank) {
    const Vec weight = broadcast(task.weights[rank]);
    const float* out = task.expert_out + task.slots[rank] * task.expert_stride + column;
    FT_UNROLL
    for (std::size_t v = 0; v < kVecs; ++v) {
      sums[v] = fma(weight, load(out + v * kLanes), sums[v]);
    }
  }
  FT_UNROLL
  for (std::size_t v = 0; v < kVecs; ++v) {
    if (task.shared != nullptr) {
      sums[v] = add(sums[v], load(task.shared + column + v * kLanes));
    }
    float* x = task.x + column + v * kLanes;
    store(x, add(load(x), sums[v]));
  }
}

static inline void combine_rest(const CombineTask& task,
                                std::size_t column,
                                std::size_t n) noexcept {
  Vec sum = zero();
  for (std::size_t rank = 0; rank < task.n_ranks; ++rank) {
    const float* out = task.expert_out + task.slots[rank] * task.expert_stride + column;
    sum = fma(broadcast(task.weights[rank]), load_partial(out, n), sum);
  }
  if (task.shared != nullptr) {
    sum = add(sum, load_partial(task.shared + column, n));
  }
  store_partial(task.x + column, add(load_partial(task.x + column, n), sum), n);
}

// NOLINTNEXTLINE(misc-definitions-in-headers): one per instruction set
void moe_combine(const CombineTask& task) noexcept {
  std::size_t column = 0;
  for (; column + kRowStep <= task.n; column += kRowStep) {
    combine_columns<kRowVecs>(task, column);
  }
  for (; column + kLanes <= task.n; column += kLanes) {
    combine_columns<1>(task, column);
  }
  if (column < task.n) {
    combine_rest(task, column, task.n - column);
  }
}

}  // namespace ft::kernels::FT_ISA
