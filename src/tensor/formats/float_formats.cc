#include "tensor/formats/float_formats.h"

#include "base/error.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace ft {
namespace {

constexpr std::uint32_t kF32Sign = 0x80000000u;
constexpr std::uint32_t kF32Infinity = 0x7F800000u;
constexpr std::uint32_t kF32QuietBit = 0x00400000u;
constexpr int kF32Bias = 127;
constexpr int kF32MantissaBits = 23;

/// Without branches, and inlined where float_to_bf16() may not be.
inline std::uint16_t round_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t quiet = bits | kF32QuietBit;             // else a low payload became infinity
  const std::uint32_t half_ulp = 0x7FFFu + (bits >> 16 & 1u);  // ties go to the even upper half
  const bool is_nan = (bits & ~kF32Sign) > kF32Infinity;
  return static_cast<std::uint16_t>((is_nan ? quiet : bits + half_ulp) >> 16);
}

/// f32 of a small binary format's finite value: `mantissa` has `mantissa_bits` bits, exponent 0
/// means subnormal. Every such value is exact in f32.
constexpr float small_float(
    bool is_negative, int exponent, int mantissa, int mantissa_bits, int bias) {
  const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
  const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;  // >= -24 here
  const float scale =
      std::bit_cast<float>(static_cast<std::uint32_t>(power + kF32Bias) << kF32MantissaBits);
  const float magnitude = static_cast<float>(implicit + mantissa) * scale;
  return is_negative ? -magnitude : magnitude;
}

constexpr int kF8MantissaBits = 3;
constexpr int kF8Bias = 7;
constexpr std::uint8_t kF8Nan = 0x7F;
constexpr std::uint8_t kF8Largest = 0x7E;  // 448

constexpr float f8_value(std::uint8_t bits) {
  const bool is_negative = (bits & 0x80) != 0;
  if ((bits & 0x7F) == kF8Nan) {
    return std::bit_cast<float>((is_negative ? kF32Sign : 0u) | kF32Infinity | kF32QuietBit);
  }
  return small_float(is_negative, bits >> 3 & 0xF, bits & 0x7, kF8MantissaBits, kF8Bias);
}

constexpr std::array<float, 256> kF8Values = [] {
  std::array<float, 256> values{};
  for (int bits = 0; bits < 256; ++bits) {
    values[static_cast<std::size_t>(bits)] = f8_value(static_cast<std::uint8_t>(bits));
  }
  return values;
}();

template <typename T>
T load(const std::byte* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

}  // namespace

float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint16_t float_to_bf16(float value) noexcept {
  return round_to_bf16(value);
}

float f16_to_float(std::uint16_t bits) noexcept {
  const bool is_negative = (bits & 0x8000u) != 0;
  const int exponent = bits >> 10 & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0x1F) {
    const std::uint32_t sign = is_negative ? kF32Sign : 0u;
    return std::bit_cast<float>(sign | kF32Infinity | static_cast<std::uint32_t>(mantissa) << 13);
  }
  return small_float(is_negative, exponent, mantissa, 10, 15);
}

std::uint16_t float_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::fabs(value);
  constexpr std::uint16_t kInfinity = 0x7c00;
  if (!(magnitude < 65520.0F)) {
    return static_cast<std::uint16_t>(sign | (std::isnan(value) ? kInfinity | 0x200U : kInfinity));
  }
  // Counted in the spacing of f16 at this magnitude, ties to even; subnormals have that of 2^-14.
  constexpr float kSmallestNormal = 0x1p-14F;
  const int exponent = magnitude < kSmallestNormal ? -14 : std::ilogb(magnitude);
  const float step = std::ldexp(1.0F, exponent - 10);
  const auto n_steps = static_cast<std::uint32_t>(std::nearbyint(magnitude / step));  // exact
  // 1024 steps are the next power of two: carrying into the exponent is right.
  const std::uint32_t low = n_steps + (static_cast<std::uint32_t>(exponent + 14) << 10U);
  return static_cast<std::uint16_t>(sign | low);
}

float f8e4m3_to_float(std::uint8_t bits) noexcept {
  return kF8Values[bits];
}

std::uint8_t float_to_f8e4m3(float value) noexcept {
  const auto sign = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> 31 << 7);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return sign | kF8Nan;
  }
  if (magnitude >= 448.0f) {
    return sign | kF8Largest;
  }
  // Steps of 2^(e-3) for magnitudes in [2^e, 2^(e+1)), and of 2^-9 below 2^-6. Scaling by a power
  // of two is exact, and rint() in the default rounding mode takes ties to even.
  const int exponent =
      static_cast<int>(std::bit_cast<std::uint32_t>(magnitude) >> kF32MantissaBits) - kF32Bias;
  const int step_power = (exponent < 1 - kF8Bias ? 1 - kF8Bias : exponent) - kF8MantissaBits;
  const int steps = static_cast<int>(std::rint(std::ldexp(magnitude, -step_power)));
  // The code is linear in steps: carries out of the mantissa run into the exponent by themselves.
  const int code = steps + ((step_power + kF8MantissaBits + kF8Bias - 1) << kF8MantissaBits);
  return static_cast<std::uint8_t>(sign | code);
}

float load_element(DType dtype, const std::byte* data) noexcept {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data);
    case DType::kBF16:
      return bf16_to_float(load<std::uint16_t>(data));
    case DType::kF16:
      return f16_to_float(load<std::uint16_t>(data));
    case DType::kF8E4M3:
      return f8e4m3_to_float(load<std::uint8_t>(data));
  }
  return 0;  // not reached: the switch is complete
}

void convert_to_float(DType dtype,
                      std::span<const std::byte> source,
                      std::span<float> destination) {
  const std::size_t width = element_bytes(dtype);
  FT_CHECK(source.size() % width == 0 && source.size() / width == destination.size());
  if (dtype == DType::kF32) {
    if (!source.empty()) {
      std::memcpy(destination.data(), source.data(), source.size());
    }
    return;
  }
  for (std::size_t i = 0; i < destination.size(); ++i) {
    destination[i] = load_element(dtype, source.data() + i * width);
  }
}

void convert_from_float(DType dtype,
                        std::span<const float> source,
                        std::span<std::byte> destination) {
  FT_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  FT_CHECK(destination.size() == source.size() * element_bytes(dtype));
  if (dtype == DType::kF32) {
    if (!source.empty()) {
      std::memcpy(destination.data(), source.data(), destination.size());
    }
    return;
  }
  // Blocks of constant length, which compilers turn into vectors.
  constexpr std::size_t kBlock = 32;
  std::array<std::uint16_t, kBlock> block;
  std::size_t i = 0;
  for (; i + kBlock <= source.size(); i += kBlock) {
    for (std::size_t j = 0; j < kBlock; ++j) block[j] = round_to_bf16(source[i + j]);
    std::memcpy(destination.data() + i * sizeof(block[0]), block.data(), sizeof(block));
  }
  for (; i < source.size(); ++i) {
    const std::uint16_t bits = float_to_bf16(source[i]);
    std::memcpy(destination.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

}  // namespace ft
