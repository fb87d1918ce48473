#include "tensor/formats/q4.h"

#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr float kLeastCode = -8;
constexpr float kLargestCode = 7;
/// Where the value of largest magnitude may land. Below 8 finer steps for the others pay for a
/// clipped largest value, and the other way round; four times as many candidates take 0.8 % more
/// off the error.
constexpr float kTargets[] = {-6.8F, -7.4F, -8.0F, -8.6F};
/// Groups below this have no inverse scale in f32 and become zeros.
constexpr float kSmallestMagnitude = 0x1p-120F;
/// The nearest integer, ties to even, within the codes.
float to_code(float value) noexcept {
  constexpr float kRound = 0x1.8p23F;
  const float above = value < kLeastCode ? kLeastCode : value;
  const float within = above > kLargestCode ? kLargestCode : above;
  return (within + kRound) - kRound;
}

/// Sum of the terms as a tree, which the compiler can add in vectors. Overwrites them.
float total(float (&terms)[kQuantGroup]) noexcept {
  for (std::size_t n = kQuantGroup / 2; n > 0; n /= 2) {
    for (std::size_t i = 0; i < n; ++i) {
      terms[i] += terms[i + n];
    }
  }
  return terms[0];
}

/// Sums over the group for codes made with one inverse scale.
struct Fit {
  float value_code = 0;  // of value * code
  float code_code = 0;   // of code * code, exact

  /// What the best scale for these codes takes off the sum of squared values.
  float gain() const noexcept { return code_code == 0 ? 0 : value_code / code_code * value_code; }
};

Fit fit(const float (&values)[kQuantGroup], float inverse) noexcept {
  float value_code[kQuantGroup];
  float code_code[kQuantGroup];
  for (std::size_t i = 0; i < kQuantGroup; ++i) {
    const float code = to_code(values[i] * inverse);
    value_code[i] = values[i] * code;
    code_code[i] = code * code;
  }
  return {total(value_code), total(code_code)};
}

float largest_value(const float (&values)[kQuantGroup]) noexcept {
  float largest = 0;
  for (const float value : values) {
    largest = std::fabs(value) > std::fabs(largest) ? value : largest;
  }
  return largest;
}

}  // namespace

float quantize_q4_group(const float (&values)[kQuantGroup],
                        std::int8_t (&codes)[kQuantGroup]) noexcept {
  const float largest = largest_value(values);
  if (std::fabs(largest) < kSmallestMagnitude) {
    std::fill(std::begin(codes), std::end(codes), std::int8_t{0});
    return 0;
  }
  // A power of two: sums of squares of any finite values stay in range, and nothing else changes.
  float scaled[kQuantGroup];
  const int exponent = std::ilogb(largest);
  const float factor = std::ldexp(1.0F, -exponent);
  for (std::size_t i = 0; i < kQuantGroup; ++i) {
    scaled[i] = values[i] * factor;
  }
  Fit best;
  for (const float target : kTargets) {
    const Fit candidate = fit(scaled, target / (largest * factor));
    if (candidate.gain() > best.gain()) {
      best = candidate;
    }
  }
  const float scale =
      bf16_to_float(float_to_bf16(std::ldexp(best.value_code / best.code_code, exponent)));
  for (std::size_t i = 0; i < kQuantGroup; ++i) {
    codes[i] = static_cast<std::int8_t>(to_code(values[i] / scale));
  }
  return scale;
}

}  // namespace ft
