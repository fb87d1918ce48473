#include "tensor/formats/q8.h"

#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr float kLargestCode = 127;
/// Added and subtracted again it rounds to the nearest integer, ties to even.
constexpr float kRound = 0x1.8p23F;

}  // namespace

float quantize_q8_group(const float (&values)[kQuantGroup],
                        std::int8_t (&codes)[kQuantGroup]) noexcept {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::fabs(value));
  }
  const float scale = bf16_to_float(float_to_bf16(largest / kLargestCode));
  const float divisor = scale == 0 ? 1 : scale;  // then all codes are zeros
  for (std::size_t i = 0; i < kQuantGroup; ++i) {
    // The scale's own rounding can lift the largest quotient to 127.25, and far more where bf16 is
    // subnormal.
    const float code = std::min(std::max(values[i] / divisor, -kLargestCode), kLargestCode);
    codes[i] = static_cast<std::int8_t>((code + kRound) - kRound);
  }
  return scale;
}

}  // namespace ft
