// Which experts a row uses, and with what weights: sigmoid scores, a selection bias, optional
// expert groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft::nn {

/// Bounds of a config; they bound the router's stack buffers.
inline constexpr std::size_t kMaxExperts = 4096;
inline constexpr std::size_t kMaxActiveExperts = 64;

struct RouterShape {
  std::size_t n_experts = 0;  // <= kMaxExperts, divisible by n_groups
  std::size_t n_active = 0;   // <= kMaxActiveExperts and <= experts of the kept groups
  std::size_t n_groups = 1;
  std::size_t n_kept_groups = 1;
  bool normalizes = true;  // weights are divided by their sum + 1e-20
  float scale = 1;
};

/// Routes one row. s = sigmoid(logits); the n_active largest of s + bias are chosen, ties to the
/// lower expert, best first; their weights are s without the bias, normalised, times scale. With
/// groups only the n_kept_groups with the best sums of their two best s + bias take part. experts,
/// weights: [n_active]. If a logit is not finite all weights are NaN, so that the error reaches the
/// layer's check instead of choosing experts at random. Source: DeepSeek-V3 report, section 2.1.2,
/// with the constants of GLM-5.2.
void route(std::span<const float> logits,
           std::span<const float> bias,
           const RouterShape& shape,
           std::span<std::uint32_t> experts,
           std::span<float> weights) noexcept;

}  // namespace ft::nn
