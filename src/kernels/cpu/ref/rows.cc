// Verbs that treat rows one by one.
#include "kernels/cpu/ref/ref_kernels.h"

#include <bit>
#include <cmath>

namespace ft::kernels::ref {
namespace {

/// Order-preserving image of a score: a larger score has a larger key, -0 and +0 the same one.
std::uint32_t sort_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The k-th largest key, found byte by byte, and how many keys are larger.
struct Threshold {
  std::uint32_t key = 0;
  std::size_t n_larger = 0;
};

Threshold find_threshold(const float* scores, std::size_t n, std::size_t k) {
  Threshold threshold;
  for (unsigned shift = 32; shift > 0;) {
    shift -= 8;
    std::size_t counts[256] = {};
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t key = sort_key(scores[i]);
      if (std::uint64_t{key} >> (shift + 8) == std::uint64_t{threshold.key} >> (shift + 8)) {
        ++counts[key >> shift & 0xFFu];
      }
    }
    std::uint32_t digit = 255;
    while (threshold.n_larger + counts[digit] < k) {
      threshold.n_larger += counts[digit];
      --digit;
    }
    threshold.key |= digit << shift;
  }
  return threshold;
}

}  // namespace

void moe_combine(const CombineTask& task) noexcept {
  for (std::size_t c = 0; c < task.n; ++c) {
    float sum = 0;
    for (std::size_t rank = 0; rank < task.n_ranks; ++rank) {
      const float* out = task.expert_out + task.slots[rank] * task.expert_stride;
      sum = std::fma(task.weights[rank], out[c], sum);
    }
    if (task.shared != nullptr) {
      sum += task.shared[c];
    }
    task.x[c] += sum;
  }
}

void rms_norm(const NormArgs& args) noexcept {
  float sum = 0;
  for (std::size_t i = 0; i < args.n; ++i) {
    sum += args.x[i] * args.x[i];
  }
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(args.n) + args.eps);
  for (std::size_t i = 0; i < args.n; ++i) {
    args.y[i] = args.x[i] * factor * args.weight[i];
  }
}

void layer_norm(const NormArgs& args) noexcept {
  const auto n = static_cast<float>(args.n);
  float sum = 0;
  for (std::size_t i = 0; i < args.n; ++i) {
    sum += args.x[i];
  }
  const float mean = sum / n;
  float squares = 0;
  for (std::size_t i = 0; i < args.n; ++i) {
    squares += (args.x[i] - mean) * (args.x[i] - mean);
  }
  const float factor = 1.0f / std::sqrt(squares / n + args.eps);
  for (std::size_t i = 0; i < args.n; ++i) {
    args.y[i] = (args.x[i] - mean) * factor * args.weight[i] + args.bias[i];
  }
}

void top_k(const float* scores, std::size_t n, std::size_t k, std::int32_t* out) noexcept {
  if (k == 0) {
    return;
  }
  const Threshold threshold = find_threshold(scores, n, k);
  std::size_t n_ties = k - threshold.n_larger;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t key = sort_key(scores[i]);
    if (key < threshold.key || (key == threshold.key && n_ties == 0)) {
      continue;
    }
    n_ties -= key == threshold.key ? 1 : 0;
    *out++ = static_cast<std::int32_t>(i);
  }
}

}  // namespace ft::kernels::ref
