#include "nn/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ft::nn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kWeightSumFloor = 1e-20F;

/// Indices of the `best.size()` largest values, best first, ties to the lower index. -inf is never
/// chosen as long as enough other values exist.
void choose_best(std::span<const float> values, std::span<std::uint32_t> best) noexcept {
  const std::size_t k = best.size();
  std::size_t n = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (n == k && !(values[i] > values[best[k - 1]])) continue;
    std::size_t at = n < k ? n++ : k - 1;
    for (; at > 0 && values[i] > values[best[at - 1]]; --at) best[at] = best[at - 1];
    best[at] = static_cast<std::uint32_t>(i);
  }
}

/// Sets the choice of every expert outside the kept groups to -inf.
void mask_groups(std::span<float> choice, const RouterShape& shape) noexcept {
  std::array<float, kMaxExperts> scores;
  std::array<std::uint32_t, kMaxExperts> kept;
  const std::size_t group_size = shape.n_experts / shape.n_groups;
  for (std::size_t g = 0; g < shape.n_groups; ++g) {
    float first = -kInfinity;
    float second = -kInfinity;
    for (const float value : choice.subspan(g * group_size, group_size)) {
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    scores[g] = group_size > 1 ? first + second : first;
  }
  const std::span<std::uint32_t> best{kept.data(), shape.n_kept_groups};
  choose_best({scores.data(), shape.n_groups}, best);
  for (std::size_t g = 0; g < shape.n_groups; ++g) {
    if (std::find(best.begin(), best.end(), g) != best.end()) continue;
    std::fill_n(
        choice.begin() + static_cast<std::ptrdiff_t>(g * group_size), group_size, -kInfinity);
  }
}

}  // namespace

void route(std::span<const float> logits,
           std::span<const float> bias,
           const RouterShape& shape,
           std::span<std::uint32_t> experts,
           std::span<float> weights) noexcept {
  std::array<float, kMaxExperts> scores;
  std::array<float, kMaxExperts> choice;
  bool is_finite = true;
  for (std::size_t e = 0; e < shape.n_experts; ++e) {
    is_finite &= std::isfinite(logits[e]);
    scores[e] = 1.0F / (1.0F + std::exp(-logits[e]));
    choice[e] = scores[e] + bias[e];
  }
  if (shape.n_kept_groups < shape.n_groups) mask_groups({choice.data(), shape.n_experts}, shape);
  choose_best({choice.data(), shape.n_experts}, experts);

  float sum = 0;
  for (const std::uint32_t e : experts) sum += scores[e];
  const float factor = shape.normalizes ? shape.scale / (sum + kWeightSumFloor) : shape.scale;
  for (std::size_t rank = 0; rank < experts.size(); ++rank) {
    weights[rank] = is_finite ? scores[experts[rank]] * factor : std::nanf("");
  }
}

}  // namespace ft::nn
